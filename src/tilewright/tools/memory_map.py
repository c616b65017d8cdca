"""The array elements accessed by each load and store of a kernel, program by program, as data and as pictures.

    for access in accesses(module, (4,), {"n": 1000}, place):
        access.argument, access.line, access.touched        # {(0, 0, 0): array([0, 1, 2, …]), …}
        drawing(access)                                      # SVG: a cell per element, coloured by program

The TTIR is interpreted with arrays that have addresses and no memory: loads return 0. So accesses whose addresses
depend on loaded values are shown for zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tilewright.interpreter.memory import Array, Memory
from tilewright.interpreter.run_ir import full_grid, run_ir
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op
from tilewright.ir.types import PointerType
from tilewright.runtime.display.listings import Place
from tilewright.tools.kernels import UsageError
from tilewright.transforms.functions import functions_of, is_public

MAX_PROGRAMS, MAX_ELEMENTS, MAX_RUNS = 64, 1 << 20, 6000
"""Max programs of a grid, max elements that accesses touch, max rectangles of a picture."""
_SHIFT = 40
_START = 1 << _SHIFT - 1
"""Arrays are 2**40 bytes apart, and each begins in the middle, so that what lies before it counts as its own."""

Program = tuple[int, int, int]


class Access(NamedTuple):
    """The elements that one access in a kernel touches.

    Attributes:
        kind: `load`, `store`, `atomic`.
        argument: the name of the array.
        line: in the source; 0 where that is not known.
        size: bytes per element.
        row: elements from one row of the tile to the next in memory; 0 for tiles of one axis.
        touched: by program, the elements, in order and each once.
    """

    kind: str
    argument: str
    line: int
    size: int
    row: int
    touched: dict[Program, Array]


def accesses(module: Op, grid: Sequence[int], numbers: Mapping[str, Any], place: Place) -> list[Access]:
    """The accesses of a kernel, in the order of their lines.

    Args:
        module: its TTIR, with locations.
        grid: one to three extents.
        numbers: the parameters that are no pointers, by name.
        place: where its source is.

    Raises:
        UsageError: there are too many programs or elements, or a number is missing.
    """
    extents = full_grid(grid)
    if not 0 < np.prod(extents, dtype=object) <= MAX_PROGRAMS:
        raise UsageError(f"a picture shows 1 to {MAX_PROGRAMS} programs, not a grid of {'×'.join(map(str, extents))}")
    kernel = next(function for function in functions_of(module) if is_public(function))
    values: dict[str, Any] = {}
    for index, parameter in enumerate(kernel.body.args):
        name = parameter.name or ""
        if isinstance(parameter.type, PointerType):
            values[name] = ((index + 1) << _SHIFT) + _START
        elif name not in numbers:
            raise UsageError(f"the picture of the memory needs a number for {name}: -a {name}=100")
        else:
            values[name] = numbers[name]
    recorded = _Recorded([parameter.name or "" for parameter in kernel.body.args], place)
    run_ir(module, values, extents, memory_of=recorded.memory_of)
    return sorted(recorded.found(), key=lambda access: access.line)


class _Recorded:
    """The elements that all programs have touched so far."""

    def __init__(self, names: Sequence[str], place: Place) -> None:
        self._names, self._place = names, place
        self._elements = 0
        self._seen: dict[tuple[int, str, str, int], tuple[int, dict[Program, list[Array]]]] = {}

    def memory_of(self, program: Program) -> Memory:
        """The memory that notes what one program touches."""
        return _Watched(self, program)

    def note(self, program: Program, addresses: Array, size: int, mask: Array | None, op: Op) -> None:
        """An access of a program."""
        flat = np.asarray(addresses, np.int64)
        shown = flat.reshape(-1) if mask is None else flat[np.broadcast_to(mask, flat.shape)]
        shown = shown[shown >= 1 << _SHIFT]  # scratch memory lies below
        self._elements += shown.size
        if self._elements > MAX_ELEMENTS:
            raise UsageError(f"the programs touch more than {MAX_ELEMENTS} elements: draw a smaller grid")
        span = span_of(op.location)
        line = self._place.line(span.file, span.line)
        kind = next((kind for kind in ("load", "store") if op.name.endswith(kind)), "atomic")
        for number in np.unique(shown >> _SHIFT):
            offsets = shown[shown >> _SHIFT == number] - (int(number) << _SHIFT) - _START
            key = (line, kind, self._names[int(number) - 1], size)
            _, by_program = self._seen.setdefault(key, (_row(flat, size), {}))
            by_program.setdefault(program, []).append(offsets // size)

    def found(self) -> Iterator[Access]:
        """The elements that were noted, by access."""
        for (line, kind, argument, size), (row, by_program) in self._seen.items():
            touched = {program: np.unique(np.concatenate(parts)) for program, parts in by_program.items()}
            yield Access(kind, argument, line, size, row, touched)


class _Watched(Memory):
    """Memory of arrays that have addresses only; what the kernel reserves for itself is there."""

    def __init__(self, recorded: _Recorded, program: Program) -> None:
        super().__init__([])
        self._recorded, self._program = recorded, program

    def read(self, addresses: Array, dtype: np.dtype[Any], mask: Array | None, op: Op) -> np.ndarray[Any, Any]:
        self._recorded.note(self._program, addresses, dtype.itemsize, mask, op)
        return np.zeros(np.shape(addresses), dtype)

    def write(self, addresses: Array, values: Array, mask: Array | None, op: Op) -> None:
        self._recorded.note(self._program, addresses, np.asarray(values).dtype.itemsize, mask, op)


def _row(addresses: Array, size: int) -> int:
    """The larger one of the two distances of a tile with two axes, in elements."""
    if addresses.ndim != 2 or 1 in addresses.shape:
        return 0
    steps = abs(int(addresses[1, 0] - addresses[0, 0])), abs(int(addresses[0, 1] - addresses[0, 0]))
    return max(steps) // size


WIDTH, MAX_ROW, LINEAR = 560, 512, 64
"""Pixels of a picture; elements of a row that is drawn as one; elements per row where tiles have one axis."""


def drawing(access: Access) -> str:
    """The picture: rows of memory, a cell per element, in the colour of the program that touches it.

    Elements that several programs touch are grey. What would be too large is said instead of drawn.
    """
    row = next((row for row in (access.row, _distance(access)) if 1 < row <= MAX_ROW), LINEAR)
    runs = _runs(access, row)
    if len(runs) > MAX_RUNS:
        return f"<p>{len(runs)} separate pieces of memory: too many for a picture</p>"
    last = max(end for _, _, end, _ in runs) if runs else 0
    first_row = min(start for _, start, _, _ in runs) // row if runs else 0
    cell = max(1, min(10, WIDTH // row))
    cells = "".join(_rectangle(run, row, first_row, cell) for run in runs)
    width, height = row * cell, (max(0, last - 1) // row + 1 - first_row) * cell
    picture = f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">{cells}</svg>'
    return f'<p class="scale">{row} elements a row, from element {first_row * row} on</p>{picture}'


def _distance(access: Access) -> int:
    """The elements from what one program touches to what the next one does, where that is always the same; else 0."""
    begins = [int(elements[0]) for elements in access.touched.values() if elements.size]
    distances = {after - before for before, after in pairwise(begins)}
    return distances.pop() if len(distances) == 1 else 0


def _runs(access: Access, row: int) -> list[tuple[tuple[Program, ...], int, int, int]]:
    """Pieces of rows that the same programs touch: these, the first element, the one behind the last, the hue."""
    order = list(access.touched)
    owners: dict[int, list[int]] = {}
    for number, elements in enumerate(access.touched.values()):
        for element in elements.tolist():
            owners.setdefault(element, []).append(number)
    pieces: list[tuple[list[int], int, int]] = []
    for element in sorted(owners):
        owned, begin, end = pieces[-1] if pieces else ([], 0, 0)
        if pieces and element == end and element % row and owners[element] == owned:
            pieces[-1] = owned, begin, element + 1
        else:
            pieces.append((owners[element], element, element + 1))
    return [
        (tuple(order[number] for number in owned), begin, end, 200 + owned[0] * 360 // max(1, len(order)))
        for owned, begin, end in pieces
    ]


def _rectangle(run: tuple[tuple[Program, ...], int, int, int], row: int, first_row: int, cell: int) -> str:
    programs, start, end, hue = run
    x, y = start % row * cell, (start // row - first_row) * cell
    names = "program " if len(programs) == 1 else f"{len(programs)} programs: "
    said = names + ", ".join(_shown(program) for program in programs[:8]) + ("" if len(programs) <= 8 else ", …")
    elements = f"element {start}" if end == start + 1 else f"elements {start} to {end - 1}"
    kind = "several" if len(programs) > 1 else "one"
    gap = 1 if cell > 3 else 0
    return (
        f'<rect class="{kind}" style="--hue:{hue % 360}" x="{x}" y="{y}" width="{(end - start) * cell - gap}" '
        f'height="{max(1, cell - gap)}"><title>{escape(said)}: {elements}</title></rect>'
    )


def _shown(program: Program) -> str:
    """The place of a program, without the axes of extent 1 at the end."""
    x, y, z = program
    return f"({x}, {y}, {z})" if z else f"({x}, {y})" if y else str(x)
