"""AOTInductor's C++ for kernels on CPUs: what it hands over to them, and how many of their programs it runs.

torch 2.12 and 2.13 write C++ that hands over XBLOCK, a constant, runs one program where the grid is not an argument of
the model, and hands over each float as a `float`, also where the kernel takes a double, and floats that are known by a
symbol as integers. All that is known when the kernel is saved. Kernels for GPUs have a class of their own, which is
right.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from tilewright.compat.when_imported import when_imported
from tilewright.support.diagnostics import TilewrightError

HEURISTICS = "torch._inductor.runtime.triton_heuristics"
WRAPPER = "torch._inductor.codegen.cpp_wrapper_cpu"
SIGNATURES = "torch._inductor.codegen.triton_utils"


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
    """

    types: Mapping[str, str]
    constants: list[str]
    meta: Mapping[str, Any]
    config: Mapping[str, Any]

    def grid(self) -> list[str]:
        """The extents of the grid, as expressions of C++ with the names of the kernel's arguments."""
        grid = import_module(HEURISTICS).GridExpr.from_meta(self.meta, self.config, mode="cpp")
        before = " ".join(grid.prefix)
        extents = (grid.x_grid, grid.y_grid, grid.z_grid)
        return [f"[&] {{ {before} return {extent}; }}()" if before else str(extent) for extent in extents]


_saved: dict[str, SavedKernel] = {}
"""The kernels by the names that Inductor has given to them."""


@cache
def complete_wrappers() -> None:
    """Let the C++ be right, as soon as torch has imported its writer; asked again, this does nothing."""
    when_imported(WRAPPER, _complete)
    when_imported(HEURISTICS, note_saved)
    when_imported(SIGNATURES, type_floats)


def note_saved(heuristics: ModuleType) -> None:
    """Let the tuner of a module note the facts about each kernel that it saves."""
    tuner = vars(heuristics)["CachingAutotuner"]
    save = tuner.save_cpu_kernel

    def save_and_note(self: Any, launcher: Any) -> None:
        constants = [one.name for one in launcher.bin.src.fn.params if one.is_constexpr]
        types = self.triton_meta["signature"]
        config = vars(heuristics)["config_to_dict"](launcher.config)
        _saved[self.inductor_meta["kernel_name"]] = SavedKernel(types, constants, self.inductor_meta, config)
        save(self, launcher)

    tuner.save_cpu_kernel = save_and_note


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


def _complete(wrapper: ModuleType) -> None:
    call = vars(wrapper)["DeferredCpuTritonCallWrapper"]
    generate, resolve, declared = call.generate, call._resolve_arg_names, call._get_cpp_param_type

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

    call.generate, call._resolve_arg_names = generate_if_saved, resolve_completely
    call._get_cpp_param_type = declared_as_compiled
