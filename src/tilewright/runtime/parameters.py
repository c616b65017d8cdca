"""The interface of everything launchable, the parameters of a kernel, and the binding of a call's arguments to them.

kernel[grid](*args)        kernel.run(*args, grid=…)        kernel.warmup(…)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar

from tilewright.runtime.array_shims import MockTensor
from tilewright.runtime.tracebacks import shortened
from tilewright.semantics.tile import ValueType
from tilewright.support.annotations import signature_of
from tilewright.support.diagnostics import CompilationError, Diagnostic
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.source import Span

MISSING = inspect.Parameter.empty

# Names that annotations use -> the type strings of signatures.
ANNOTATION_TYPES = {
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("bool", "int1", "uint1", "i1"), "u1"),
    "bfloat16": "bf16",
    "double": "fp64",
    "float": "fp32",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "float8e4b15": "fp8e4b15",
    "float8e4b8": "fp8e4b8",
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
    "float8e5b16": "fp8e5b16",
    "half": "fp16",
    "int": "i32",
}
_TYPE_STRINGS = frozenset(ANNOTATION_TYPES.values())


class KernelParam(NamedTuple):
    """One parameter of a kernel.

    Attributes:
        annotation: what stands behind the colon, as text.
        annotation_type: the type string that the annotation asks for, or "".
        is_const: annotated `tl.const`: the kernel does not store through it.
        do_not_specialize: neither the value 1 nor divisibility makes a kernel of its own.
        do_not_specialize_on_alignment: divisibility does not.
    """

    num: int
    name: str
    annotation: str = ""
    annotation_type: str = ""
    is_constexpr: bool = False
    is_const: bool = False
    do_not_specialize: bool = False
    do_not_specialize_on_alignment: bool = False
    default: Any = MISSING

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING


def kernel_params(
    fn: Callable[..., Any],
    do_not_specialize: Collection[str | int] = (),
    do_not_specialize_on_alignment: Collection[str | int] = (),
) -> tuple[KernelParam, ...]:
    """The parameters of `fn`; `*arguments`, which only calls from kernels can fill, is left out."""
    params = []
    declared = signature_of(fn).parameters.values()
    named = [parameter for parameter in declared if parameter.kind is not parameter.VAR_POSITIONAL]
    for num, parameter in enumerate(named):
        if parameter.kind is parameter.VAR_KEYWORD:
            raise TypeError(f"a kernel cannot have the parameter {parameter}: list its parameters one by one")
        annotation = _annotation_text(parameter.annotation)
        params.append(
            KernelParam(
                num=num,
                name=parameter.name,
                annotation=annotation,
                annotation_type=_annotation_type(annotation),
                is_constexpr="constexpr" in annotation,
                is_const=("const" in annotation and "constexpr" not in annotation) or annotation.startswith("*k"),
                do_not_specialize=bool({num, parameter.name} & set(do_not_specialize)),
                do_not_specialize_on_alignment=bool({num, parameter.name} & set(do_not_specialize_on_alignment)),
                default=parameter.default,
            )
        )
    return tuple(params)


class SpecialisedConstant(Diagnostic):
    """A constexpr is said not to be specialised, which it always is."""

    title: ClassVar[str] = "{name} marked as constexpr and listed in do_not_specialize"
    label: ClassVar[str] = "a kernel is compiled anew for each value of {name}"
    help: ClassVar[str] = "take {name} off the list, or make it an ordinary parameter"
    name: str


def check_constants(fn: FunctionType, params: Sequence[KernelParam]) -> None:
    """Check the options of `jit` against the parameters."""
    for param in params:
        if param.is_constexpr and (param.do_not_specialize or param.do_not_specialize_on_alignment):
            span = Span(fn.__code__.co_filename, fn.__code__.co_firstlineno, 1)
            raise CompilationError(SpecialisedConstant(param.name), span)


ALSO_OPTIONS = frozenset(("num_ctas", "num_stages", "num_warps"))
"""Options that say so even where a kernel has a parameter of that name, as in Triton, if they are given by name."""


def bind(
    name: str, params: Sequence[KernelParam], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """One value per parameter, and the options: keywords that are no parameters, and those in `ALSO_OPTIONS`."""
    if len(args) > len(params):
        raise TypeError(f"{name}() takes {len(params)} positional arguments but {len(args)} were given")
    values = list(args)
    options = dict(keywords)
    for param in params[: len(args)]:
        if param.name in options:
            raise TypeError(f"{name}() got multiple values for argument {param.name!r}")
    missing = []
    for param in params[len(args) :]:
        take = options.get if param.name in ALSO_OPTIONS else options.pop
        value = take(param.name, param.default)
        if value is MISSING:
            missing.append(param.name)
        values.append(value)
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(f"{name}() missing {len(missing)} required argument{plural}: {', '.join(map(repr, missing))}")
    return values, options


def _annotation_text(annotation: Any) -> str:
    """`tl.int64` and `int64_t` are i64, `"fp32*"` is *fp32, `"const fp32*"` is *kfp32; others stay as they are."""
    if annotation is MISSING:
        return ""
    if isinstance(annotation, ValueType):
        text = annotation.cache_key_part
        element = text.lstrip("*k")
        return text.removesuffix(element) + _annotation_text(element)
    if isinstance(annotation, type):
        annotation = annotation.__name__
    text = str(annotation).strip().strip("'\"").strip()  # text in text, under `from __future__ import annotations`
    if text.startswith("const "):
        inner = _annotation_text(text.removeprefix("const "))
        return f"*k{inner.removeprefix('*')}" if inner.startswith("*") else text
    if text.startswith("*k") and text[2:] in _TYPE_STRINGS:
        return text
    if text.startswith("*") or text.endswith("*"):
        return "*" + _annotation_text(text.removeprefix("*") if text.startswith("*") else text.removesuffix("*"))
    element = text.rpartition(".")[2].removesuffix("_t")
    element = ANNOTATION_TYPES.get(element, element)
    return element if element in _TYPE_STRINGS else text


def _annotation_type(annotation: str) -> str:
    """The type string that an annotation is, if it is one."""
    element = annotation.removeprefix("*k") if annotation.startswith("*k") else annotation.removeprefix("*")
    return annotation if element in _TYPE_STRINGS else ""


LaunchGrid = Sequence[Any] | Callable[[dict[str, Any]], Sequence[Any]]
"""One to three extents, or a function that gives them for the arguments by name."""


def launch_text(name: str, grid: Any) -> str:
    """How a program writes a kernel on a grid: `add[(4,)]`."""
    return f"{name}[{getattr(grid, '__name__', None) or repr(grid)}]"


class Launch:
    """`kernel[grid]` of kernels that are no `JITFunction`: calling it launches."""

    __slots__ = ("_grid", "_kernel")

    def __init__(self, kernel: KernelInterface, grid: Any) -> None:
        self._kernel, self._grid = kernel, grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch."""
        try:
            return self._kernel.run(*args, grid=self._grid, warmup=False, **kwargs)
        except CompilationError as error:
            raise shortened(error) from error.__cause__

    @property
    def __signature__(self) -> inspect.Signature | None:
        return getattr(self._kernel, "__signature__", None)

    def __repr__(self) -> str:
        return launch_text(getattr(self._kernel, "__name__", type(self._kernel).__name__), self._grid)


class KernelInterface:
    """Base of kernels and of what wraps them; subclasses implement `run`."""

    def __getitem__(self, grid: LaunchGrid) -> Callable[..., Any]:
        """A function that launches on `grid`: one to three extents, or a function of the arguments by name."""
        return Launch(self, grid)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch; with `warmup` only compile."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it runs")

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile without launching; a dtype stands for an array: `kernel.warmup(torch.float32, 8, grid=(1,))`."""
        arrays = {name: MockTensor.wrap_dtype(value) for name, value in kwargs.items()}
        try:
            return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **arrays)
        except CompilationError as error:
            raise shortened(error) from error.__cause__
