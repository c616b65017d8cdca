"""Layouts in the terminal: a summary, a table of the elements, the bases of every bit, bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.errors import counted
from tilewright.ir.types import Shape
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Distributed, Encoding, NvmmaShared, PaddedShared, Shared
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.grids import Grid, memory_grid, register_grid
from tilewright.layouts.inference import as_shared
from tilewright.layouts.memory_access import MAX_BITS, address_in, matrix_access, passes_of, simulated, vector_of
from tilewright.layouts.movement import Movement, conversion, movement
from tilewright.layouts.queries import (
    buffer_order,
    contiguous_per_thread,
    elements_per_thread,
    num_ctas,
    shape_per_cta,
    threads_per_warp,
    warps_per_cta,
)
from tilewright.layouts.swizzle import conversion_buffer, scratch_elements
from tilewright.layouts.walk import shown

LANES, MATRIX_ROWS = 32, 8
TRAVELS = {
    Movement.NOTHING: "nothing moves: every register keeps its value",
    Movement.REGISTERS: "registers are renamed: no value leaves its thread",
    Movement.LANES: "values move between lanes of a warp, with shuffles",
    Movement.SHARED: "values go through shared memory",
}


def grid_of(layout: Encoding, shape: Shape, bits: int, limits: tuple[int, int]) -> Grid:
    """The table of a layout."""
    if isinstance(layout, Distributed):
        return register_grid(layout, shape, *limits)
    return memory_grid(as_shared(layout), shape, bits, *limits)


def described(layout: Encoding, shape: Shape, bits: int, limits: tuple[int, int]) -> str:
    """Everything about one layout."""
    grid = grid_of(layout, shape, bits, limits)
    parts = [f"{layout.text}\ntile {shown(shape)}, elements of {bits} bits"]
    if isinstance(layout, Distributed):
        parts[0] += "\n" + in_registers(layout, shape, grid)
    elif isinstance(layout, Shared):
        parts[0] += "\n" + in_memory(layout, shape, bits)
    parts.append(table(grid, shape))
    parts.append(to_linear_layout(layout, shape).text)
    if isinstance(layout, Shared):
        parts.append("\n".join(conflicts(layout, shape, bits)))
    return "\n\n".join(parts)


def in_registers(layout: Distributed, shape: Shape, grid: Grid) -> str:
    """`4 warps (4x1) of 32 lanes (8x4), 8 registers (2x4) each, 4 in a row`; what blocks have; copies."""
    linear = to_linear_layout(layout, shape)
    names = ("warp", "lane", "register")
    try:
        along = [f" ({shown(ask(layout, shape))})" for ask in (warps_per_cta, threads_per_warp, elements_per_thread)]
        run = f", {max(contiguous_per_thread(layout, shape))} in a row"
    except LayoutError:  # a bit that moves in two dimensions has no counts along them
        along, run = ["", "", ""], ""
    warps, lanes, registers = (
        f"{linear.in_size(name)} {name}s{counts}" for name, counts in zip(names, along, strict=True)
    )
    lines = [f"{warps} of {lanes}, {registers} each{run}"]
    if num_ctas(layout) > 1:
        lines.append(f"{num_ctas(layout)} blocks with {shown(shape_per_cta(layout, shape))} each")
    if grid.copies > 1:
        lines.append(f"every element is held {grid.copies} times; the first is shown")
    return "\n".join(lines)


def in_memory(layout: Shared, shape: Shape, bits: int) -> str:
    """The memory that one block's part of the buffer takes."""
    offsets = to_linear_layout(layout, shape).in_size("offset")
    elements = address_in(layout)(offsets - 1) + 1
    parts = [f"{elements * bits // 8} bytes"]
    if num_ctas(layout) > 1:
        parts[0] += f" in each of {num_ctas(layout)} blocks"
    if elements > offsets:
        parts.append(f"with holes of {(elements - offsets) * bits // 8} bytes in all")
    if isinstance(layout, NvmmaShared):
        parts.append(f"rows of {layout.swizzling_byte_width or 16} bytes")
        parts.append(f"starts at a multiple of {layout.alignment} bytes")
    return ", ".join(parts)


def table(grid: Grid, shape: Shape) -> str:
    """The grid with labels, in columns."""
    rank = len(shape)
    heading = f"{grid.meaning}; dimension {rank - 1} across" + (f", {rank - 2} down" if rank > 1 else "")
    if rank > 2:
        heading += f"; at [{', '.join('0' * (rank - 2))}, :, :]"
    rows = [["", *grid.columns]]
    rows += [[label, *(cell.text for cell in row)] for label, row in zip(grid.rows, grid.cells, strict=True)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([heading, *lines, *left_out(grid)])


def left_out(grid: Grid) -> list[str]:
    """A line about rows and columns that the grid does not have."""
    down, across = grid.hidden
    parts = [f"{count} {what}" for count, what in ((down, "rows"), (across, "columns of cells")) if count]
    return [f"… {' and '.join(parts)} more (--all)"] if parts else []


# Bank conflicts


def conflicts(layout: Shared, shape: Shape, bits: int) -> Iterator[str]:
    """The costs of the usual accesses of a warp."""
    if len(shape) < 2:
        return
    fast, slow = buffer_order(layout)[:2]
    vector = max(min(MAX_BITS // bits, shape[fast]), 1)
    yield "passes over the banks for the lanes that are served together (1 is the best)"
    yield f"    along dimension {fast}, {vector} elements per lane: {along(layout, shape, bits, (fast, slow), vector)}"
    yield f"    along dimension {slow}, one element per lane: {along(layout, shape, bits, (slow, fast), 1)}"
    rows = min(MATRIX_ROWS, shape[slow])
    places = [{slow: row} for row in range(rows)]
    below = passes_at(layout, shape, bits, places, vector)
    yield f"    {rows} rows of {vector * bits // 8} bytes one below the other: {below}"


def along(layout: Shared, shape: Shape, bits: int, axes: tuple[int, int], vector: int) -> int:
    """A warp that walks dimension `axes[0]`, and at its end goes on in `axes[1]`.

    Args:
        layout: the layout of the buffer.
        shape: its extents.
        bits: of an element.
        axes: the two dimensions.
        vector: the number of elements that a lane moves.
    """
    first, second = axes
    per_row = max(shape[first] // vector, 1)
    lanes = range(min(LANES, per_row * shape[second]))
    return passes_at(
        layout, shape, bits, [{first: lane % per_row * vector, second: lane // per_row} for lane in lanes], vector
    )


def passes_at(layout: Shared, shape: Shape, bits: int, places: list[dict[int, int]], vector: int) -> int:
    """The number of passes over the banks when lane i moves `vector` elements from place i on.

    Args:
        layout: the layout of the buffer.
        shape: its extents.
        bits: of an element.
        places: the index of lane i along each axis; 0 along axes that are not there.
        vector: the number of elements that a lane moves.
    """
    linear = to_linear_layout(layout, shape)
    back, address = linear.pseudo_invert(), address_in(layout)
    at = back.out_names.index("offset")
    starts = []
    for place in places:
        index = {name: place.get(axis, 0) for axis, name in enumerate(back.ins)}
        starts.append(address(back.unpack(back.image(index))[at]) * bits // 8)
    return passes_of(starts, max(vector * bits // 8, 1)).passes


# Conversions from one layout to another


def pair_described(source: Encoding, result: Encoding, shape: Shape, bits: int) -> str:
    """The costs of a tile's conversion from one layout to another."""
    match source, result:
        case Distributed(), Distributed():
            return "\n".join(between_registers(source, result, shape, bits))
        case Distributed(), Shared():
            return "\n".join(with_memory(source, result, shape, bits, "stores", "stmatrix"))
        case Shared(), Distributed():
            return "\n".join(with_memory(result, source, shape, bits, "loads", "ldmatrix"))
    raise LayoutError("nothing goes from one buffer to another but through registers")


def between_registers(source: Distributed, result: Distributed, shape: Shape, bits: int) -> Iterator[str]:
    """The movement, where every value comes from, and the buffer if there is one."""
    for name in ("lane", "warp", "block"):
        ours, theirs = (to_linear_layout(layout, shape).in_size(name) for layout in (source, result))
        demand(ours == theirs, f"the first has {counted(ours, name)}, the second {theirs}")
    moved = movement(source, result, shape)
    yield f"conversion: {TRAVELS[moved]}"
    if moved in (Movement.REGISTERS, Movement.LANES):
        yield f"where each value comes from:\n{conversion(source, result, shape).text}"
    if moved is Movement.SHARED:
        for has, name in ((False, "plain loads and stores"), (True, "with ldmatrix and stmatrix")):
            buffer = conversion_buffer(source, result, shape, bits, stores=has, loads=has)
            size = scratch_elements(source, result, shape, bits, stores=has, loads=has) * max(bits, 8) // 8
            yield (
                f"    {name}: {size} bytes, {counted(buffer.layout.in_size('reps'), 'time')}; passes over the banks: "
                f"{buffer.store_conflicts + 1} for a store, {buffer.load_conflicts + 1} for a load"
            )


def with_memory(registers: Distributed, memory: Shared, shape: Shape, bits: int, what: str, name: str) -> Iterator[str]:
    """The accesses by which a tile goes between registers and a buffer.

    Args:
        registers, memory: the layouts.
        shape: extents of the tile.
        bits: of an element.
        what: the name of the accesses, in the plural.
        name: the matrix instruction that may do for them.
    """
    ours, theirs = to_linear_layout(registers, shape), to_linear_layout(memory, shape)
    vector = vector_of(ours.without_zeros("register"), theirs, bits)
    width = min(vector.width, _run_between_holes(memory))
    access = simulated(ours, theirs, bits, address_in(memory))
    yield f"{what} of {width} elements per lane ({width * bits} bits)"
    yield f"    passes over the banks (1 is the best): {access.passes}"
    yield f"    different words per bank: {' '.join(map(str, access.words))}"
    matrix = matrix_access(ours, theirs, bits) if not isinstance(memory, PaddedShared) else None
    yield f"    {name}: {'no' if matrix is None else matrix.name.lower()}"


def _run_between_holes(memory: Shared) -> int:
    """The number of elements before the first hole."""
    return min(interval for interval, _ in memory.pads) if isinstance(memory, PaddedShared) else 1 << 30
