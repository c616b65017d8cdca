"""A launch that a bundle has with all its memory, so that it can be repeated: NumPy only.

launch.write(folder, codes, before=…, cpu=…, simulated=…)   # when the bundle is made
before = launch.memory(folder, "before")                    # bytes of each piece of memory, in order
differences(launch, results, launch.memory(folder, "cpu"))  # how far off each element is; right is at most 1

Pieces of memory are arrays of the launch; arrays that overlap are one piece.
"""

from __future__ import annotations

import gzip
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
FOLDER = "launches"
STATES = ("before", "cpu", "simulated")
"""The states of memory that a launch is kept with; of each, only the difference from the one before is stored."""


class Launch(NamedTuple):
    """A launch, without what its memory holds.

    Attributes:
        name: of the program, with the number of the launch and the architecture.
        kind: what the program is: a key of `repeated_programs.PROGRAMS`.
        capability: the architecture, as 90.
        symbol: of the kernel in the code.
        grid: programs along each axis.
        shared, warps, ctas, scratch: bytes per program, warps, blocks per program, bytes of scratch memory per program.
        dependent, cooperative: launch attributes.
        parameters: `("number", bytes as hex)`, `("memory", piece, offset)` or
            `("map", piece, offset, element, shape, strides, box, swizzle, pads with NaN)`.
        pieces: of memory, each its element type, and its address modulo 256.
        exact: does PTX define every bit of the result?
        has_cubin, has_cpu: is there machine code, and a result of the CPU?
    """

    name: str
    kind: str
    capability: int
    symbol: str
    grid: list[int]
    shared: int
    warps: int
    ctas: int
    scratch: int
    dependent: bool
    cooperative: bool
    parameters: list[list[Any]]
    pieces: list[list[Any]]
    exact: bool
    has_cubin: bool
    has_cpu: bool

    def write(self, folder: Path, codes: dict[str, bytes], **memory: list[Array]) -> None:
        """Code and memory; `memory` by name: before, cpu, simulated, each as what differs from the one ahead of it."""
        kept = {name: np.frombuffer(code, np.uint8) for name, code in codes.items()}
        ahead = [np.zeros_like(piece) for piece in memory["before"]]
        for name in STATES:
            for number, piece in enumerate(memory[name]):
                kept[f"{name}{number}"] = piece ^ ahead[number]
            ahead = memory[name] or ahead
        (folder / FOLDER).mkdir(exist_ok=True)
        arrays = BytesIO()
        np.savez(arrays, **kept)
        self.file(folder).write_bytes(gzip.compress(arrays.getvalue(), mtime=0))  # smaller than each array by itself

    def file(self, folder: Path) -> Path:
        """The paths of a bundle's code and memory."""
        return folder / FOLDER / f"{self.name}.npz.gz"

    def arrays(self, folder: Path) -> Any:
        """All that a bundle has of a launch, by name."""
        return np.load(BytesIO(gzip.decompress(self.file(folder).read_bytes())))

    def code(self, folder: Path) -> bytes:
        """Machine code, or PTX, which the driver assembles."""
        return self.stored(folder, "cubin" if self.has_cubin else "ptx").tobytes()

    def memory(self, folder: Path, state: str) -> list[Array]:
        """The bytes of each piece: `before`, what the `cpu` left, or what the simulator left."""
        with self.arrays(folder) as kept:
            found = [kept[f"before{number}"] for number in range(len(self.pieces))]
            for name in STATES[1 : STATES.index(state) + 1]:
                if name != "cpu" or self.has_cpu:
                    found = [piece ^ kept[f"{name}{number}"] for number, piece in enumerate(found)]
        return found

    def stored(self, folder: Path, name: str) -> Array:
        """One array of the bundle."""
        with self.arrays(folder) as kept:
            found: Array = kept[name]
            return found


# --- how far off results are --------------------------------------------------------------------------------------


SHARES = {"fp64": 1e-6, "fp32": 4e-3, "fp16": 8e-3, "bf16": 6e-2, "fp8e4nv": 0.3, "fp8e5": 0.5}
"""The error allowed per element type, as a share of the element, or of the mean one where that is larger."""


def floats(piece: Array, element: str) -> Array:
    """Bytes as numbers."""
    if element == "bf16":
        return (piece.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float)
    if element == "fp8e5":
        return (piece.astype(np.uint16) << 8).view(np.float16).astype(float)
    if element == "fp8e4nv":
        return _e4m3(piece)
    return piece.view({"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}[element]).astype(float)


def _e4m3(piece: Array) -> Array:
    exponent, mantissa = piece >> 3 & 15, (piece & 7).astype(float)
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent.astype(float) - 7))
    return np.where(piece & 127 == 127, np.nan, np.where(piece >> 7, -size, size))


def difference(found: Array, expected: Array, element: str) -> float:
    """The error of the worst element as a share of what is allowed; infinite for other integers and NaNs."""
    differs = found != expected
    if not differs.any():
        return 0.0
    if element not in SHARES:
        return float("inf")
    with np.errstate(invalid="ignore"):
        a, b = floats(found, element), floats(expected, element)
    finite = np.abs(b[np.isfinite(b)])
    allowed = SHARES[element] * np.maximum(np.abs(b), finite.mean() if finite.size else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        off = np.abs(a - b) / np.maximum(allowed, 1e-300)
    off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isnan(off), np.inf, off))
    return float(off.max(initial=0.0))
