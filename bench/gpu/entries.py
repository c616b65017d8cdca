"""What a bundle says of a kernel: a line of its `kernels.json`.

entries = read(Path("build/gpu")).entries   # per name and architecture
entries[0].code(folder)                     # the cubin, or the PTX where there is none
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from launches import Launch

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
        exact: does PTX define every bit of the result?
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
    exact: bool = True

    def code(self, folder: Path) -> bytes:
        """Machine code, or PTX, which the driver assembles."""
        return (folder / f"{self.name}.{'cubin' if self.has_cubin else 'ptx'}").read_bytes()


class Bundle(NamedTuple):
    """The contents of a bundle, and the commit that it was made from."""

    entries: list[Entry]
    launches: list[Launch]
    commit: str


def write(folder: Path, bundle: Bundle) -> None:
    """Write the list of kernels and launches."""
    lists = {"kernels": bundle.entries, "launches": bundle.launches}
    text = json.dumps({"commit": bundle.commit} | {key: [it._asdict() for it in all] for key, all in lists.items()})
    (folder / KERNELS).write_text(text + "\n")


def read(folder: Path) -> Bundle:
    """Read the list of kernels and launches of a bundle."""
    found = json.loads((folder / KERNELS).read_text())
    launches = [Launch(**fields) for fields in found["launches"]]
    return Bundle([Entry(**fields) for fields in found["kernels"]], launches, found["commit"])
