"""The result of compiling a kernel: the stages as text, the code, and the facts that a launch needs.

    artifact.asm["ttir"]          # text; `asm` is disassembled on first access
    artifact.metadata.scratch_bytes

An artifact comes from the compiler or from the disk cache; the two are indistinguishable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from tilewright.backends.base import GPUTarget
from tilewright.support.named_tuple import NamedTuple

TRITON_VERSION = "3.5.1"
"""The version of Triton whose language and metadata these are; 3.9's new names are there too."""

PRESUMED = {
    "triton_version": TRITON_VERSION,
    "num_warps": 4,
    "num_ctas": 1,
    "num_stages": 3,
    "num_threads": 0,
    "entry": "",
    "reports": [],
    "scratch_bytes": 0,
    "tmem_size": 0,
    "global_scratch_size": 0,
    "global_scratch_align": 1,
    "profile_scratch_size": 0,
    "profile_scratch_align": 1,
    "tensordesc_meta": [],
}
"""The default facts of a kernel."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
Stage: TypeAlias = "str | bytes"
StageSource: TypeAlias = "Stage | Callable[[], Stage]"


class Stages(Mapping[str, "Stage"]):
    """The products of compilation by stage name, in order; a callable is called when its stage is first asked for.

    What is made of a stage only on demand by name does not count as one of them, and neither does what
    the kernel would be elsewhere: `asm["ptx"]` of a kernel for a CPU compiles it for a GPU; `"ptx" in asm` is false.
    """

    def __init__(
        self,
        sources: Mapping[str, StageSource],
        on_request: Mapping[str, tuple[str, Callable[[Any], Stage]]] = NOTHING,
        elsewhere: Callable[[str, Stages], Stage] | None = None,
    ) -> None:
        """Products.

        Args:
            on_request: further texts by name: the stage that each is made of, and how.
            elsewhere: gives what the kernel is elsewhere, by name and these stages; or raises KeyError.
        """
        self._sources = dict(sources)
        self._on_request = on_request
        self._elsewhere = elsewhere

    def with_elsewhere(self, elsewhere: Callable[[str, Stages], Stage]) -> Stages:
        """The same stages, and what the kernel is elsewhere."""
        return Stages(self._sources, self._on_request, elsewhere)

    def __getitem__(self, name: str) -> Stage:
        if name not in self._sources and name in self._on_request:
            stage, make = self._on_request[name]
            self._sources[name] = make(self[stage])
        if name not in self._sources and self._elsewhere is not None:
            return self._elsewhere(name, self)
        source = self._sources[name]
        if callable(source):
            source = self._sources[name] = source()
        return source

    def is_made(self, name: str) -> bool:
        """Whether the stage is there, so that asking for it makes nothing."""
        return not callable(self._sources[name])

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._sources if name not in self._on_request)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._sources or name in self._on_request

    def __reduce__(self) -> tuple[type[Stages], tuple[Any, ...]]:
        return Stages, ({name: self[name] for name in self}, {}, self._elsewhere)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self)})"


class Metadata:
    """Facts about a compiled kernel, as attributes; none ever changes.

    Always there: `name`, `hash`, `target` (a `GPUTarget`), `entry`, `scratch_bytes`, `stored` (which run-time arguments
    are stored through), `arguments` (types of the run-time arguments), `shared`, `triton_version` and what else Triton
    says of a kernel; further the compile options by their names.
    """

    __slots__ = ("_facts",)
    _facts: Mapping[str, Any]

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.__setstate__(dict(facts))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._facts[name]
        except KeyError:
            raise AttributeError(f"no metadata {name!r}; there is {', '.join(self._facts)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("metadata cannot be changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metadata) and dict(self._facts) == dict(other._facts)

    def __hash__(self) -> int:
        return hash(self._facts["hash"])

    def __repr__(self) -> str:
        return f"Metadata({', '.join(f'{name}={value!r}' for name, value in self._facts.items())})"

    @property
    def _fields(self) -> tuple[str, ...]:
        """The names of the facts, as a NamedTuple gives them."""
        return tuple(self._facts)

    def _asdict(self) -> dict[str, Any]:
        """The facts as a dict, as a NamedTuple gives them."""
        return dict(self._facts)

    def json_facts(self) -> dict[str, Any]:
        """The facts as JSON values, of which the constructor makes the same metadata."""
        return {name: vars(value) if isinstance(value, GPUTarget) else value for name, value in self._facts.items()}

    def __getstate__(self) -> dict[str, Any]:
        return dict(self._facts)

    def __setstate__(self, facts: dict[str, Any]) -> None:
        # Programs divide by `shared` to find how many of a GPU's programs run at a time.
        whole = {"shared": max(1, facts.get("scratch_bytes", 0)), "stored": [], **facts}
        whole = {name: list(value) if type(value) is tuple else value for name, value in whole.items()}  # as in JSON
        if isinstance(whole.get("target"), dict):
            whole["target"] = GPUTarget(**whole["target"])
        object.__setattr__(self, "_facts", MappingProxyType(whole))


class Artifact(NamedTuple):
    """A compiled kernel that is not loaded yet.

    Attributes:
        binary_ext: which stage holds the machine code.
    """

    asm: Stages
    metadata: Metadata
    binary_ext: str

    @property
    def name(self) -> str:
        return str(self.metadata.name)

    @property
    def hash(self) -> str:
        return str(self.metadata.hash)

    @property
    def binary(self) -> bytes:
        """The machine code: a relocatable object for CPUs."""
        code = self.asm[self.binary_ext]
        return code if isinstance(code, bytes) else code.encode()
