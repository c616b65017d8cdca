"""AOTInductor's C++ for kernels on CPUs: corrections of the arguments and of the number of programs.

torch 2.12 and 2.13 generate C++ that passes XBLOCK, which is a constant; that runs one program if the grid is not an
argument of the model; that passes each float as a `float`, even if the kernel takes a double, and floats with a
symbolic value as integers; and that does not check whether an assertion failed. The correct values are known when the
kernel is saved. Kernels for GPUs have a class of their own, which is correct.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from tilewright.compat.torch_bridge import when_imported
from tilewright.runtime.drivers.cpu.standalone import LOOKS_AT_FAILURES
from tilewright.support.diagnostics import DeviceAssertError, TilewrightError

HEURISTICS = "torch._inductor.runtime.triton_heuristics"
WRAPPER = "torch._inductor.codegen.cpp_wrapper_cpu"
PROGRAMS = "torch._inductor.codegen.wrapper"
SIGNATURES = "torch._inductor.codegen.triton_utils"


THREADS = "/*num_cpu_threads=*/1"
"""The argument that torch passes for the number of threads."""
LAUNCHER = "int64_t (*)(uint32_t, uint32_t, uint32_t, int, void**, void*)"
"""The type in C++ of a launcher that says whether an assertion failed."""
FLOATS = {"fp32": "float", "fp64": "double"}
"""The types of C++ for a kernel's floats."""


class PackagingError(TilewrightError):
    """A kernel that torch has written no C++ for."""


class SavedKernel(NamedTuple):
    """The facts about a saved kernel that its C++ needs.

    Attributes:
        types: the types of its parameters, by name, as it was compiled.
        constants: the names of its parameters that are declared as constants.
        meta: what Inductor knows of it.
        config: the constants, and options, by name.
        assertions: the messages of its assertions.
    """

    types: Mapping[str, str]
    constants: list[str]
    meta: Mapping[str, Any]
    config: Mapping[str, Any]
    assertions: list[str]

    def grid(self) -> list[str]:
        """The extents of the grid, as expressions of C++ with the names of the kernel's arguments."""
        grid = import_module(HEURISTICS).GridExpr.from_meta(self.meta, self.config, mode="cpp")
        before = " ".join(grid.prefix)
        extents = (grid.x_grid, grid.y_grid, grid.z_grid)
        return [f"[&] {{ {before} return {extent}; }}()" if before else str(extent) for extent in extents]


_saved: dict[str, SavedKernel] = {}
"""The kernels by the names that Inductor has given to them."""


_unknown: list[str] = []
"""Names that this torch does not have, whose packages would come out wrong."""


def if_known(change: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """A change of a module, without which programs that package nothing work as well.

    Older torch has no packages of kernels for CPUs. With one that has changed, packaging is refused.
    """

    @wraps(change)
    def change_if_known(module: ModuleType) -> None:
        try:
            change(module)
        except (AttributeError, KeyError) as error:
            _unknown.append(f"{module.__name__}: {error}")

    return change_if_known


@cache
def complete_wrappers() -> None:
    """Correct the C++ as soon as torch has imported its writer; a second call does nothing."""
    when_imported(WRAPPER, _complete)
    when_imported(HEURISTICS, note_saved)
    when_imported(SIGNATURES, type_floats)
    when_imported(PROGRAMS, note_trials)


@if_known
def note_saved(heuristics: ModuleType) -> None:
    """Let the tuner of a module note the facts about each kernel that it saves."""
    tuner = vars(heuristics)["CachingAutotuner"]
    save = tuner.save_cpu_kernel

    def save_and_note(self: Any, launcher: Any) -> None:
        if _unknown:
            raise PackagingError(f"this torch is not as this version of Tilewright knows it ({', '.join(_unknown)})")
        constants = [one.name for one in launcher.bin.src.fn.params if one.is_constexpr]
        types = self.triton_meta["signature"]
        config = vars(heuristics)["config_to_dict"](launcher.config)
        _saved[self.inductor_meta["kernel_name"]] = SavedKernel(
            types, constants, self.inductor_meta, config, [site["message"] for site in launcher.bin.reports]
        )
        save(self, launcher)

    tuner.save_cpu_kernel = save_and_note
    tuner.run, tuner.bench = forgiving(tuner.run, None), forgiving(tuner.bench, 0.0)


_trials: list[object] = []
"""One entry for each program that tries kernels at the moment, before torch writes C++ that launches them."""


@if_known
def note_trials(programs: ModuleType) -> None:
    """Let the writer of programs say when it tries kernels."""
    writer = vars(programs)["PythonWrapperCodegen"]
    try_kernels = writer.generate_and_run_autotune_block

    def try_and_note(self: Any) -> None:
        _trials.append(self)
        try:
            try_kernels(self)
        finally:
            _trials.pop()

    writer.generate_and_run_autotune_block = try_and_note


def forgiving(method: Callable[..., Any], otherwise: object) -> Callable[..., Any]:
    """A method that gives `otherwise` where an assertion fails while kernels are tried.

    The inputs are made up then, so an index that is computed of them may be out of bounds.
    """

    @wraps(method)
    def forgiving_method(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except DeviceAssertError:
            if not _trials:
                raise
            return otherwise

    return forgiving_method


@if_known
def type_floats(signatures: ModuleType) -> None:
    """Let the functions of a module that give types take a computed float of a kernel on a CPU for a float.

    torch takes what it computes of a float that it knows by a symbol, as `0.5 * x.item()`, for an integer.
    """
    signature_of = vars(signatures)["signature_of"]
    symbols, virtualized = map(import_module, ("torch.utils._sympy.symbol", "torch._inductor.virtualized"))
    is_of_kind, floats = vars(symbols)["symbol_is_type"], (vars(symbols)["SymT"].UNBACKED_FLOAT,)

    def signature_of_argument(arg: Any, *, size_dtype: str | None) -> str:
        expression: Any = getattr(arg, "expr", None)
        known = getattr(expression, "free_symbols", ())
        is_float = any(is_of_kind(symbol, floats) for symbol in known) and not expression.is_integer
        if is_float and set(virtualized.V.graph.device_types) <= {"cpu"}:
            return "fp64"
        return str(signature_of(arg, size_dtype=size_dtype))

    vars(signatures)["signature_of"] = signature_of_argument


@if_known
def _complete(wrapper: ModuleType) -> None:
    call = vars(wrapper)["DeferredCpuTritonCallWrapper"]
    generate, resolve, declared = call.generate, call._resolve_arg_names, call._get_cpp_param_type
    launch = call._generate_launch

    def generate_if_saved(self: Any, target: Any) -> None:
        if self.kernel_name not in _saved:
            raise PackagingError(
                f"torch has not saved {self.kernel_name} for its C++: it saves kernels for CPUs in packages only, and "
                "those of the Triton that is installed; `tilewright run` in front of the program makes that Tilewright"
            )
        generate(self, target)

    def resolve_completely(self: Any) -> tuple[list[str], list[str], list[str]]:
        saved = _saved[self.kernel_name]
        self.inductor_meta = {**(self.inductor_meta or {}), "declared_constexpr_names": saved.constants}
        names, handed_over, _ = resolve(self)
        return names, handed_over, saved.grid()

    def declared_as_compiled(self: Any, name: str, arg_type: Any) -> str:
        kind = FLOATS.get(_saved[self.kernel_name].types.get(name, ""))
        return f"{kind} {name}" if kind else declared(self, name, arg_type)

    def launch_and_look(self: Any, prefix: Any, *facts: Any) -> None:
        written = type(prefix)()
        launch(self, written, *facts)
        prefix.splice(checked_launch(written.getvalue(), self.kernel_name, _saved[self.kernel_name].assertions))

    call.generate, call._resolve_arg_names = generate_if_saved, resolve_completely
    call._generate_launch = launch_and_look
    call._get_cpp_param_type = declared_as_compiled


def checked_launch(text: str, name: str, assertions: Sequence[str]) -> str:
    """The C++ of a launch that throws where an assertion of the kernel fails.

    Args:
        text: what torch writes.
        name: the kernel's.
        assertions: the messages of its assertions; with none, the text stays as it is.

    Raises:
        PackagingError: the text is not what torch 2.12 and 2.13 write.
    """
    if not assertions:
        return text
    launcher = f"kernels_.{name}_launcher_fn"
    if text.count(f"{launcher}(") != 1 or text.count(THREADS) != 1:
        raise PackagingError(f"{name} has assertions, and this torch writes C++ that cannot look at them")
    looking = f"const auto is_wrong = reinterpret_cast<{LAUNCHER}>({launcher})("
    message = json.dumps(f"an assertion of the kernel {name} failed: {' or '.join(dict.fromkeys(assertions))}")
    checked = text.replace(f"{launcher}(", looking).replace(THREADS, str(LOOKS_AT_FAILURES))
    return f"{checked}if (is_wrong) {{ throw std::runtime_error({message}); }}\n"
