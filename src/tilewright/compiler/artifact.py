"""What compiling a kernel gives: the stages as text, the code, and the facts that a launch needs.

    artifact.asm["ttir"]          # text; `asm` is disassembled when somebody asks for it
    artifact.metadata.scratch_bytes

An artifact comes from the compiler or from the disk cache; nobody can tell which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

Stage: TypeAlias = "str | bytes"
StageSource: TypeAlias = "Stage | Callable[[], Stage]"


class Stages(Mapping[str, "Stage"]):
    """The products of compilation by stage name, in order; a callable is called when its stage is first asked for."""

    def __init__(self, sources: Mapping[str, StageSource]) -> None:
        self._sources = dict(sources)

    def __getitem__(self, name: str) -> Stage:
        source = self._sources[name]
        if callable(source):
            source = self._sources[name] = source()
        return source

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self._sources)})"


class Metadata:
    """Facts about a compiled kernel, as attributes; all are JSON values and none ever changes.

    Always there: `name`, `hash`, `entry`, `target`, `backend`, `scratch_bytes`, `stored` (which run-time arguments are
    stored through), `arguments` (types of the run-time arguments); further the compile options by their names.
    """

    __slots__ = ("_facts",)
    _facts: Mapping[str, Any]

    def __init__(self, facts: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_facts", MappingProxyType(dict(facts)))

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

    def _asdict(self) -> dict[str, Any]:
        """The facts as a dict, as a NamedTuple gives them."""
        return dict(self._facts)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self._facts)

    def __setstate__(self, facts: dict[str, Any]) -> None:
        object.__setattr__(self, "_facts", MappingProxyType(facts))


class Artifact(NamedTuple):
    """A compiled kernel that is not loaded yet.

    Attributes:
        asm: the stages.
        metadata: the facts.
        object_stage: which stage holds the relocatable object.
    """

    asm: Stages
    metadata: Metadata
    object_stage: str

    @property
    def name(self) -> str:
        return str(self.metadata.name)

    @property
    def hash(self) -> str:
        return str(self.metadata.hash)

    @property
    def object(self) -> bytes:
        """The relocatable object file."""
        code = self.asm[self.object_stage]
        assert isinstance(code, bytes), "the object stage holds bytes"
        return code
