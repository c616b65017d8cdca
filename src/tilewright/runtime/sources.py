"""The inputs of `compile`: a kernel for a signature, or the text of a stage.

ASTSource(add, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128}, {(0,): [["tt.divisibility", 16]]})
IRSource("add.ttir")
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, Language
from tilewright.compiler.signature import (
    CONSTEXPR,
    DESCRIPTOR,
    TUPLE,
    ArgumentSpec,
    HostDescriptor,
    Place,
    descriptor_spec,
    descriptor_type_string,
    places,
)
from tilewright.language.callable import JITCallable
from tilewright.runtime import lazy_imports
from tilewright.runtime.dependencies import value_text
from tilewright.semantics.constexpr import constexpr
from tilewright.support.annotations import signature_of
from tilewright.support.hashing import hash_of
from tilewright.support.named_tuple import NamedTuple


class ASTSource:
    """A kernel as a Python function, for one signature.

    Attributes:
        name: its symbol in compiled code.
    """

    def __init__(
        self,
        fn: Any,
        signature: Mapping[str, Any],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[Place, Sequence[Sequence[Any]]] | None = None,
    ) -> None:
        """Describe a kernel.

        Args:
            fn: the kernel.
            signature: type strings by parameter name; `constexpr` for constants, tuples of them for tuples,
                `tensordesc<fp16[64, 64]>` for a tensor descriptor that moves such blocks.
            constexprs: values by parameter name, or by path: `(2,)` is the third parameter, `(2, 0)` a part of it.
            attrs: by path; `["tt.divisibility", 16]` is the one that has a meaning.

        Raises:
            TypeError: `fn` is no kernel, or a key of `signature` is no string.
            ValueError: a parameter has neither a type nor a value.
        """
        if not hasattr(fn, "arg_names"):
            raise TypeError(f"ASTSource takes a kernel, which @jit makes; got {fn!r}, of type {type(fn).__name__}")
        if not isinstance(signature, Mapping):
            raise TypeError(f"the signature of a kernel is a dict of types by parameter; got {signature!r}")
        if not all(isinstance(name, str) for name in signature):
            raise TypeError("Signature keys must be string")
        declared = list(signature_of(fn.fn).parameters.values())
        names = [parameter.name for parameter in declared]
        unknown = next((name for name in (*signature, *(constexprs or ())) if _is_unknown(name, names)), None)
        if unknown is not None:
            raise ValueError(f"{fn.fn.__name__} has no parameter {unknown!r}")
        constants = {(names.index(key),) if isinstance(key, str) else key: v for key, v in (constexprs or {}).items()}
        known = _Known(constants, dict(attrs or {}))
        self._take(fn, fn.fn.__name__, tuple(_parameter(p, i, signature, known) for i, p in enumerate(declared)))

    @property
    def language(self) -> Language:
        """The language that the kernel is written in."""
        return Language.GLUON if self.fn.is_gluon() else Language.TRITON

    @property
    def ext(self) -> str:
        """The first stage."""
        return "glir" if self.fn.is_gluon() else "ttir"

    @classmethod
    def of(cls, fn: JITCallable, name: str, specs: Sequence[ArgumentSpec]) -> ASTSource:
        """The source of a kernel whose parameters are known already."""
        source = cls.__new__(cls)
        source._take(fn, name, tuple(specs))
        return source

    def _take(self, fn: Any, name: str, specs: tuple[ArgumentSpec, ...]) -> None:
        self.fn, self.name, self.specs = fn, name, specs

    @property
    def origin(self) -> JITCallable:
        """The input at which the pipeline begins."""
        kernel: JITCallable = self.fn
        return kernel

    @property
    def signature(self) -> dict[str, Any]:
        """Type strings by parameter name."""
        return {spec.name: _types(spec) for spec in self.specs}

    @property
    def constants(self) -> dict[Place, Any]:
        """Values of constants by path."""
        return {path: spec.constant for path, spec in places(self.specs) if spec.is_constant}

    @property
    def attrs(self) -> dict[Place, list[list[Any]]]:
        """Attributes of arguments by path."""
        return {
            path: [["tt.divisibility", spec.divisibility]] for path, spec in places(self.specs) if spec.divisibility > 1
        }

    @property
    def identity(self) -> str:
        """Differs whenever the function, or what it uses, does."""
        return f"gluon-{self.fn.cache_key}" if self.fn.is_gluon() else str(self.fn.cache_key)

    def text(self) -> str:
        """The text of the function, or its bytecode where that is what is read."""
        return str(self.fn.listing())

    def hash(self) -> str:
        """64 hexadecimal digits that identify function and signature, for every compiler."""
        return hash_of(f"{self.identity}-{signature_text(self.specs)}".encode()).hexdigest()

    def parse_options(self) -> dict[str, Any]:
        """The options that the source brings along: none."""
        return {}

    def for_target(self, target: GPUTarget) -> ASTSource:
        """The source with the parameters that the kernel has there: with tensor maps, where an engine moves blocks."""
        specs = lazy_imports.specs_for_target(self.specs, target)
        return self if specs == self.specs else ASTSource.of(self.fn, self.name, specs)

    def make_ir(
        self, target: Any, options: Any, codegen_fns: Any = None, module_map: Any = None, context: Any = None
    ) -> Any:
        """The kernel as a module of TTIR before any pass.

        Args:
            target: unused, the options have all of it.
            options: those of a back end.
            codegen_fns, module_map, context: what Triton's front end needs further, and this one does not.
        """
        return lazy_imports.evaluate(self.fn, self.name, self.specs, options)


def text_of(content: bytes) -> str:
    """The text of a stage in a file, whose lines may end as on Windows.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    return content.decode().replace("\r\n", "\n")


class IRSource:
    """The text of a stage, from a file whose suffix names the stage.

    Attributes:
        name: the kernel's symbol, with `@` in front.
        signature: types of the kernel's arguments by number, as MLIR spells them.
    """

    language = Language.TRITON

    def __init__(self, path: str, context: Any, backend: BaseBackend) -> None:
        """Read a file.

        Args:
            path: of the file: `kernel.ttir`.
            context: not used; Triton needs one here.
            backend: the one of the machine.

        Raises:
            OSError: the file cannot be read.
            ValueError: `backend` has no such stage, or the text does not say what arguments the kernel takes.
            ParseError: the text is not what the suffix says.
        """
        self.path, self.ext = path, os.path.splitext(path)[1].removeprefix(".")
        with open(path, "rb") as file:
            content = file.read()
        is_binary = self.ext == backend.binary_ext and not backend.binary_is_text
        self.src: str | bytes = content if is_binary else text_of(content)
        found = lazy_imports.describe_text(backend, self.ext, self.src, path)
        self.symbol, self.specs, self.signature = found.name, found.specs, found.signature
        self.options = found.options
        self.name = f"@{self.symbol}"

    @property
    def origin(self) -> tuple[str, str | bytes]:
        """The input at which the pipeline begins."""
        return self.ext, self.src

    @property
    def identity(self) -> str:
        """Differs whenever the text does."""
        return f"{self.ext} {self.hash()}"

    def text(self) -> str:
        """The text as it is."""
        return self.src if isinstance(self.src, str) else ""

    def hash(self) -> str:
        """64 hexadecimal digits that stand for the text."""
        return hash_of(self.src.encode() if isinstance(self.src, str) else self.src).hexdigest()

    def parse_options(self) -> dict[str, Any]:
        """The options that the text names: none at the stages of a CPU."""
        return dict(self.options)


Source = ASTSource | IRSource


def signature_text(specs: Sequence[ArgumentSpec]) -> str:
    """A text that differs for signatures that compile differently."""
    return ";".join(map(_spec_text, specs))


def _spec_text(spec: ArgumentSpec) -> str:
    if spec.is_constant:
        return f"{spec.name}={value_text(spec.constant)}"
    inner = f"({';'.join(map(_spec_text, spec.elements))}){spec.sequence.__qualname__}" if spec.elements else ""
    return f"{spec.name}:{spec.type}/{spec.divisibility}{inner}"


class _Known(NamedTuple):
    """The caller's facts about parameters, by path."""

    constants: Mapping[Place, Any]
    attrs: Mapping[Place, Sequence[Sequence[Any]]]


def _is_unknown(key: Any, names: Sequence[str]) -> bool:
    return key not in names if isinstance(key, str) else key[0] >= len(names)


def _parameter(declared: inspect.Parameter, index: int, signature: Mapping[str, Any], known: _Known) -> ArgumentSpec:
    path = (index,)
    kind = signature.get(declared.name, CONSTEXPR)
    if kind == CONSTEXPR and path not in known.constants and declared.default is not inspect.Parameter.empty:
        return ArgumentSpec(declared.name, CONSTEXPR, constant=_plain(declared.default))
    return _spec(declared.name, path, kind, known)


def _spec(name: str, path: Place, kind: Any, known: _Known) -> ArgumentSpec:
    if isinstance(kind, tuple | list):
        elements = tuple(_spec(f"{name}.{i}", (*path, i), part, known) for i, part in enumerate(kind))
        sequence: Any = type(kind) if hasattr(kind, "_fields") else tuple
        return ArgumentSpec(name, TUPLE, elements=elements, sequence=sequence)
    if path in known.constants:
        return ArgumentSpec(name, CONSTEXPR, constant=_plain(known.constants[path]))
    if str(kind).startswith(DESCRIPTOR):
        return descriptor_spec(name, str(kind))
    if kind == CONSTEXPR:
        raise ValueError(f"parameter {name!r} has neither a type in the signature nor a value in the constexprs")
    divisibility = next((int(value) for key, value in known.attrs.get(path, ()) if key == "tt.divisibility"), 1)
    return ArgumentSpec(name, str(kind), divisibility)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value


def _types(spec: ArgumentSpec) -> Any:
    if spec.type != TUPLE:
        return spec.type
    if spec.sequence is HostDescriptor:
        return descriptor_type_string(spec)
    parts = [_types(element) for element in spec.elements]
    return spec.sequence(*parts) if hasattr(spec.sequence, "_fields") else tuple(parts)


class Specialization(NamedTuple):
    """The argument of `jit(repr=…)`: the constants and the types of a kernel, by parameter name."""

    constants: dict[str, Any]
    signature: dict[str, Any]


class Compilation(NamedTuple):
    """A kernel that is to be compiled.

    Attributes:
        key: the key of the compiled kernel among those of the function.
        options: the keywords of the launch that are no parameters.
        is_warmup: it will not be launched at once.
    """

    function: Any
    key: str
    source: ASTSource
    options: Mapping[str, Any]
    is_warmup: bool
    target: GPUTarget

    @classmethod
    def of(
        cls,
        function: Any,
        key: str,
        specs: Sequence[ArgumentSpec],
        options: Mapping[str, Any],
        *,
        is_warmup: bool,
        target: GPUTarget,
    ) -> Compilation:
        """The compilation of `function` for these parameters; the kernel's name may depend on them.

        Args:
            function: the kernel function.
            key: the key of the compiled kernel among those of the function.
            specs: what is known of each argument.
            options: the keywords of the launch that are no parameters.
            is_warmup: it will not be launched at once.
            target: the machine.
        """
        unnamed = ASTSource.of(function, "", specs)
        constants = {spec.name: spec.constant for spec in specs if spec.is_constant}
        name = function.repr(Specialization(constants, unnamed.signature))
        return cls(function, key, ASTSource.of(function, name, specs), options, is_warmup, target)
