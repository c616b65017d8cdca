"""`tilewright layout`: the holder of each element of a tile, and its bank of shared memory.

    tilewright layout '#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], …}>' --shape 32x16
    tilewright layout '#ttg.swizzled_shared<{vec = 8, …}>' --shape 64x64 --dtype f16
    tilewright layout '#ttg.blocked<{…}>' --shape 64x64 --to '#ttg.swizzled_shared<{…}>' --svg pair.svg

With `--to` the second layout is drawn as well, and the cost of the conversion is given: renamed registers, shuffles, or
passes over the banks of shared memory.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tilewright.ir.types import FLOATS
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Distributed, Encoding, LayoutError, NvmmaShared, Shared, encoding
from tilewright.layouts.keys import power_of_two
from tilewright.layouts.walk import shown
from tilewright.tools.kernels import UsageError
from tilewright.tools.layout_svg import drawing
from tilewright.tools.layout_text import described, pair_described

_SHAPE = re.compile(r"\d{1,9}(x\d{1,9})*", re.ASCII)
_INTEGER = re.compile(r"i(8|16|32|64)", re.ASCII)
MAX_ELEMENTS = 1 << 26
WHOLE = 1 << 30
ROWS, COLUMNS = 16, 8
"""Max rows, and max columns of cells, that are printed of a large tile."""
SVG_ROWS, SVG_COLUMNS = 64, 64


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    command.add_argument("layout", metavar="LAYOUT", help="the layout: '#ttg.blocked<{…}>'")
    command.add_argument("--shape", required=True, metavar="128x64", help="of the tile")
    command.add_argument("--dtype", metavar="TYPE", help="of the elements: f16 (the default), f32, i8, …")
    command.add_argument("--to", metavar="LAYOUT", help="a second layout: what it takes to go there")
    command.add_argument("--all", action="store_true", help="all rows and columns")
    command.add_argument("--svg", metavar="FILE", help="draw into this file instead")


def run(options: argparse.Namespace) -> int:
    """Draw the layouts."""
    shape = parsed_shape(options.shape)
    layouts = [parsed_layout(text) for text in (options.layout, options.to) if text is not None]
    bits = element_bits(options.dtype, layouts)
    rows, columns = (SVG_ROWS, SVG_COLUMNS) if options.svg else (ROWS, COLUMNS)
    limits = (WHOLE, WHOLE) if options.all else (rows, columns)
    for layout in layouts:
        demand_fit(layout, shape)
    try:
        text = drawing(layouts, shape, bits, limits) if options.svg else printed(layouts, shape, bits, limits)
    except LayoutError as error:
        raise UsageError(f"no way from one layout to the other: {error}") from None
    if not options.svg:
        print(text)
        return 0
    Path(options.svg).write_text(text, encoding="utf-8")
    return 0


def printed(layouts: list[Encoding], shape: tuple[int, ...], bits: int, limits: tuple[int, int]) -> str:
    """The text that the terminal shows."""
    parts = [described(layout, shape, bits, limits) for layout in layouts]
    if len(layouts) == 2:
        parts.append(pair_described(layouts[0], layouts[1], shape, bits))
    return "\n\n".join(parts)


def demand_fit(layout: Encoding, shape: tuple[int, ...]) -> None:
    """Raise UsageError unless the layout fits the shape."""
    try:
        to_linear_layout(layout, shape)
    except LayoutError as error:
        raise UsageError(f"{error}\n{layout.text} does not fit the shape {shown(shape)}") from None


def parsed_shape(text: str) -> tuple[int, ...]:
    """`128x64`."""
    if _SHAPE.fullmatch(text) is None:
        raise UsageError(f"'{text}' is no shape: write 128x64")
    shape = tuple(map(int, text.split("x")))
    elements = 1
    for extent in shape:
        elements *= extent
    if not all(map(power_of_two, shape)):
        raise UsageError(f"every extent of the shape must be a power of two, not {text}")
    if elements > MAX_ELEMENTS:
        raise UsageError(f"a tile of {text} has more than {MAX_ELEMENTS} elements")
    return shape


def parsed_layout(text: str) -> Encoding:
    """The layout that `text` is, in registers or in shared memory."""
    try:
        layout = encoding(text.strip())
    except LayoutError as error:
        line = " ".join(text.split()) if "\n" in text else text.strip()
        pointed = error.offset is not None and line == text.strip()
        raise UsageError(f"{error}\n{line}" + (f"\n{' ' * (error.offset or 0)}^" if pointed else "")) from None
    if not isinstance(layout, Distributed | Shared):
        raise UsageError(f"#{layout.name} is neither in registers nor in shared memory: it cannot be drawn")
    return layout


def element_bits(dtype: str | None, layouts: list[Encoding]) -> int:
    """The bits of one element: those of `--dtype`, or those that a layout was made for."""
    wanted = next((layout.element_bit_width for layout in layouts if isinstance(layout, NvmmaShared)), 0)
    if dtype is None:
        return wanted or 16
    integer = _INTEGER.fullmatch(dtype)
    if integer is None and dtype not in FLOATS:
        raise UsageError(f"'{dtype}' is no element type: write f16, bf16, f32, f64, f8E4M3FN, i8, i16, i32 or i64")
    bits = int(integer[1]) if integer else FLOATS[dtype].bits
    if wanted and wanted != bits:
        raise UsageError(f"the layout is for elements of {wanted} bits, and {dtype} has {bits}")
    return bits
