"""The interface of back ends. Compiler and runtime know back ends only through this file and `registry.py`.

A back end fills a table of stages. Each stage is a function from the product of the previous stage (a module, text,
finally bytes) to its own, and adds facts to the metadata:

    class ToyBackend(BaseBackend):
        binary_ext = "toy"

        @staticmethod
        def supports_target(target):
            return target.backend == "toy"

        def add_stages(self, stages, options, language=Language.TRITON):
            stages["toy"] = lambda module, metadata: print_op(module).encode()

The table starts with `ttir`, the passes that every back end needs; a back end may replace them. Names and signatures
are Triton's, and so is the `metadata` dict that all stages share, so stages written for Triton's table work in this
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias

StageFunction: TypeAlias = Callable[[Any, dict[str, Any]], Any]
"""(product of the stage before, facts) → product of this stage."""
StageTable: TypeAlias = dict[str, StageFunction]


class OptionError(ValueError, AssertionError):
    """A compile option has an invalid value. Triton uses assertions for options."""


class GPUTarget:
    """The machine to compile for, whatever its kind; the name is Triton's.

    Attributes:
        backend: the kind of machine: `cpu`, `cuda`, or one of another package.
        arch: which one. For a CPU its name, or 0 for the machine we run on, which `x86_64` and `aarch64` also stand for
            where it is one; for a GPU its compute capability, such as 90.
        warp_size: threads that run in lockstep; 0 for CPUs.
    """

    def __init__(self, backend: str, arch: int | str, warp_size: int) -> None:
        vars(self).update(backend=backend, arch=arch, warp_size=warp_size)

    backend: str
    arch: int | str
    warp_size: int

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, GPUTarget) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.backend, self.arch, self.warp_size))

    def __repr__(self) -> str:
        return f"GPUTarget(backend={self.backend!r}, arch={self.arch!r}, warp_size={self.warp_size!r})"


class Language(Enum):
    """The language that a kernel was written in."""

    TRITON = 0
    GLUON = 1


class BaseBackend(ABC):
    """One kind of machine; subclasses are frozen but for caches.

    Attributes:
        target: the machine that it compiles for.
        binary_ext: the stage that holds the machine code.
        binary_is_text: that stage is text, which something else assembles.
        assembly_ext: the stage that `assembly` gives, or "".
        module_stages: the stages whose product is a module, so that their text is parsed when it comes from a file.
        on_request: texts that are made of a stage on demand: the stage, and how, by name.
        remade: stages whose text is not kept, as it can be derived again: by name the stage from which it is derived.
        makes_objects: the binary is an ELF object for a CPU, which the runtime links, maps and calls.
    """

    binary_ext: str = ""
    binary_is_text: bool = False
    assembly_ext: str = ""
    module_stages: frozenset[str] = frozenset({"ttir"})
    on_request: Mapping[str, tuple[str, Callable[[Any], str]]] = MappingProxyType({})
    remade: Mapping[str, str] = MappingProxyType({})
    makes_objects = False
    supports_native_tensor_specialization = True

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        if not self.supports_target(target):
            raise ValueError(f"{type(self).__name__} does not compile for {target}")

    @property
    def registers(self) -> int:
        """The number of vector registers of a program."""
        return 1

    @staticmethod
    @abstractmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether this back end compiles for `target`."""

    @abstractmethod
    def hash(self) -> str:
        """A string that differs whenever the generated code may differ, options apart."""

    @abstractmethod
    def parse_options(self, options: dict[str, Any]) -> Any:
        """The keywords of a launch as a frozen object.

        Raises:
            KeyError, ValueError: there is no such option, or it cannot have its value.
        """

    @abstractmethod
    def add_stages(self, stages: StageTable, options: Any, language: Language = Language.TRITON) -> None:
        """Fill the table of stages, in order; the last one is `binary_ext`."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Called before a compilation begins, so that what takes time to start does so meanwhile."""

    def load_dialects(self, context: Any) -> None:  # noqa: B027 - Triton calls it; here dialects declare themselves
        """Make the dialects of this back end known."""

    def get_module_map(self) -> dict[str, ModuleType]:
        """Modules of the language that this back end puts its own in place of."""
        return {}

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Functions of the front end that this back end puts its own in place of."""
        return {}

    def assembly(self, texts: Mapping[str, str]) -> str:
        """Assembly text of a kernel, made from the texts of its stages on demand."""
        raise NotImplementedError

    def text_facts(self, stage: str, text: str | bytes) -> dict[str, Any]:
        """Facts in the text of a later stage about its kernel: `entry`, `arguments` and what else the metadata has."""
        return {}

    def runs_here(self) -> bool:
        """Whether this machine can run what is compiled."""
        return False

    def launch(self, kernel: Any, grid: tuple[int, int, int], values: list[Any]) -> None:
        """Run a compiled kernel whose binary is no object for a CPU.

        Args:
            kernel: the `CompiledKernel`.
            grid: three extents.
            values: one number or `ArrayView` per run-time argument.

        Raises:
            RuntimeError: this back end compiles, and does not run.
        """
        raise RuntimeError(f"{kernel.name} was compiled for {self.target.backend}, whose back end does not run kernels")

    def pack_metadata(self, metadata: Any) -> Any:
        """The part of the metadata that a launcher needs."""
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def get_target_name(self, options: Any) -> str:
        """The name of the target in modules."""
        return f"{self.target.backend}:{self.target.arch}"

    @staticmethod
    def parse_attr(desc: str) -> list[list[Any]]:
        """The attributes that a specialisation key stands for: `D` is divisibility by 16."""
        return [["tt.divisibility", 16]] if "D" in desc else []

    @staticmethod
    def get_int_specialization(arg: int, **kwargs: Any) -> str:
        """The specialisation key of an integer."""
        return "D" if arg % 16 == 0 and kwargs.get("align", False) else ""

    @staticmethod
    def get_tensor_specialization(arg: Any, **kwargs: Any) -> str:
        """The specialisation key of a tensor."""
        return "D" if arg.data_ptr() % 16 == 0 and kwargs.get("align", False) else ""


def options_identity(options: Any) -> str:
    """A string that differs whenever two sets of options may compile differently."""
    for name in ("identity", "hash"):
        found = getattr(options, name, None)
        if found is not None:
            return str(found() if callable(found) else found)
    return repr(sorted(options_facts(options).items()))


def options_facts(options: Any) -> dict[str, Any]:
    """The options for the metadata."""
    facts: dict[str, Any] = options.facts() if hasattr(options, "facts") else dict(vars(options))
    return facts
