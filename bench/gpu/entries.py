"""A kernel in a bundle: a line of its list.

entries = read(Path("build/gpu")).entries   # per name and architecture
entries[0].code(folder)                     # the cubin, or the PTX where there is none
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

from launches import Launch

KERNELS, SIMULATED = "kernels.json.gz", "simulated.npz"


class Entry(NamedTuple):
    """A compiled kernel.

    Attributes:
        name: of the anchor, or of the row and the configuration, with the architecture.
        kernel: the function's name.
        row: of the part `fast` that this is tuned for; "" for anchors.
        types, constants: of its arguments.
        capability: the architecture, as 90.
        symbol: in the code.
        shared, warps, ctas, scratch: bytes per program, warps, blocks per program, bytes of scratch memory per program.
        stages: of pipelined loops.
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
    stages: int = 3
    row: str = ""

    @property
    def kind(self) -> str:
        return "timed" if self.row else "anchors"

    def code(self, folder: Path) -> bytes:
        """Machine code, or PTX, which the driver assembles."""
        return self.text(folder, "cubin" if self.has_cubin else "ptx")

    def text(self, folder: Path, stage: str) -> bytes:
        """The product of a stage: `ptx` or `cubin`."""
        return gzip.decompress((folder / f"{self.name}.{stage}.gz").read_bytes())

    def write(self, folder: Path, codes: dict[str, bytes]) -> None:
        """Write what the stages made."""
        for stage, code in codes.items():
            (folder / f"{self.name}.{stage}.gz").write_bytes(gzip.compress(code, mtime=0))


class LeftOut(NamedTuple):
    """The kernels without code on an architecture, and the reasons."""

    name: str
    kind: str
    capability: int
    reason: str


class Bundle(NamedTuple):
    """The contents of a bundle, and the commit that it was made from."""

    entries: list[Entry]
    launches: list[Launch]
    left_out: list[LeftOut]
    commit: str


LISTS: dict[str, Any] = {"entries": Entry, "launches": Launch, "left_out": LeftOut}


def write(folder: Path, bundle: Bundle) -> None:
    """Write the lists of a bundle."""
    lists = {name: [it._asdict() for it in getattr(bundle, name)] for name in LISTS}
    text = json.dumps({"commit": bundle.commit} | lists)
    (folder / KERNELS).write_bytes(gzip.compress(text.encode(), mtime=0))


def read(folder: Path) -> Bundle:
    """Read the lists of a bundle."""
    found = json.loads(gzip.decompress((folder / KERNELS).read_bytes()))
    lists = {name: [kind(**fields) for fields in found[name]] for name, kind in LISTS.items()}
    return Bundle(commit=found["commit"], **lists)
