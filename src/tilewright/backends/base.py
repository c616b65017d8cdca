"""What a back end is. The compiler knows back ends only through this file.

A back end turns optimised TTIR into an object file and keeps the texts of its stages on the way:

    lowered = backend.lower(module, target, options)
    lowered.texts      # {"ttcir": "…", "llir": "…"}, in the order of the stages
    lowered.object     # b"\\x7fELF…"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilewright.ir.core import Op


class MachineTarget(Protocol):
    """A machine to generate code for: hashable and frozen."""

    @property
    def identity(self) -> str:
        """A string that differs whenever the generated code may differ."""
        ...


class Options(Protocol):
    """Frozen compile options of one back end."""

    @property
    def identity(self) -> str:
        """A string that differs whenever the generated code may differ; launch-only options do not enter it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """What a back end makes of one module.

    Attributes:
        texts: the text of each stage between TTIR and the object, by stage name, in order (`ttcir`, `llir`).
        object: the relocatable object file.
        entry: the exported symbol of the kernel in it.
        scratch_bytes: scratch memory that each thread needs.
        facts: further numbers for the metadata (stated by the back end, JSON values).
    """

    texts: Mapping[str, str]
    object: bytes
    entry: str
    scratch_bytes: int
    facts: Mapping[str, int | str | bool] = field(default_factory=dict)


class Backend(Protocol):
    """One kind of machine."""

    @property
    def name(self) -> str:
        """`cpu`."""
        ...

    @property
    def object_stage(self) -> str:
        """Name of the stage that holds the object, also the suffix of its file (`obj`)."""
        ...

    @property
    def assembly_stage(self) -> str:
        """Name of the stage that `assembly` gives (`asm`)."""
        ...

    def lower(self, module: Op, target: Any, options: Any) -> Lowered:
        """Turn optimised TTIR with one public function into an object; the module may be consumed.

        Raises:
            Unsupported: the kernel uses something that this back end cannot compile.
        """
        ...

    def assembly(self, texts: Mapping[str, str], target: Any) -> str:
        """Assembly text of a lowered module, made from the texts of its stages when somebody asks for it."""
        ...
