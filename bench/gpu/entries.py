"""What a bundle says of a kernel: a line of its `kernels.json`.

entries = read(Path("build/gpu"))           # per name and architecture
entries[0].code(folder)                     # the cubin, or the PTX where there is none
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

KERNELS, SIMULATED = "kernels.json", "simulated.npz"


class Entry(NamedTuple):
    """A compiled kernel.

    Attributes:
        name: of the anchor, with the architecture.
        kernel: the function's name.
        types, constants: of its arguments.
        capability: the architecture, as 90.
        symbol: in the code.
        shared, warps, ctas, scratch: bytes per program, warps, blocks per program, bytes of scratch memory per program.
        has_cubin: or PTX only.
    """

    name: str
    kernel: str
    types: dict[str, str]
    constants: dict[str, Any]
    capability: int
    symbol: str
    shared: int
    warps: int
    ctas: int
    scratch: int
    has_cubin: bool

    def code(self, folder: Path) -> bytes:
        """Machine code, or PTX, which the driver assembles."""
        return (folder / f"{self.name}.{'cubin' if self.has_cubin else 'ptx'}").read_bytes()


def write(folder: Path, entries: list[Entry], commit: str) -> None:
    """The list of kernels."""
    text = json.dumps({"commit": commit, "kernels": [entry._asdict() for entry in entries]}, indent=1)
    (folder / KERNELS).write_text(text + "\n")


def read(folder: Path) -> tuple[list[Entry], str]:
    """The kernels of a bundle, and the commit that it is of."""
    found = json.loads((folder / KERNELS).read_text())
    return [Entry(**fields) for fields in found["kernels"]], found["commit"]
