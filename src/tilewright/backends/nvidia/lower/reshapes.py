"""Shape ops that move no data: each register of the result is a register of an operand.

%c = tt.join %a, %b : 32 -> 32x2       registers of %a and %b, alternating
%d = tt.trans %c                       the same registers, in the order of the result's layout

The verifier has ensured that no element has to leave its thread. A `tt.reshape` that may reorder elements, and
`tt.cat`, take the registers in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.tt_reduce import MapElementwise
from tilewright.dialects.tt_shape import Cat, Join, Reshape, ShapeOp, Split, Trans
from tilewright.layouts.linear_layout import LinearLayout


@cache
def first_registers(layout: LinearLayout) -> dict[int, int]:
    """Per packed element of the first thread the first register that holds it."""
    return {layout.image({"register": number}): number for number in reversed(range(layout.in_size("register")))}


@cache
def elements_of(layout: LinearLayout) -> tuple[int, ...]:
    """Per register the packed element that it holds in the first thread."""
    return tuple(layout.image({"register": number}) for number in range(layout.in_size("register")))


def _moved(lowerer: Lowerer, op: ShapeOp, source_of: Callable[[int], int]) -> None:
    """Bind the result of an op with one operand; `source_of` goes from packed elements to packed elements."""
    places, registers = first_registers(lowerer.layout(op.source)), lowerer.registers(op.source)
    wanted = elements_of(lowerer.layout(op.result))
    lowerer.bind(op.result, [registers[places[source_of(element)]] for element in wanted])


def _reshape(lowerer: Lowerer, op: Reshape) -> None:
    source, result = lowerer.layout(op.source), lowerer.layout(op.result)
    if _threads(source) == _threads(result):
        _moved(lowerer, op, lambda element: element)
    else:
        assert "allow_reorder" in op.attributes, "elements stay in their threads"
        lowerer.bind(op.result, lowerer.registers(op.source))


def _threads(layout: LinearLayout) -> list[tuple[int, ...]]:
    return [layout.columns[name] for name in ("lane", "warp", "block")]


def _transpose(lowerer: Lowerer, op: Trans) -> None:
    source, result = lowerer.layout(op.source), lowerer.layout(op.result)

    def source_of(element: int) -> int:
        place = result.unpack(element)
        coordinates = dict(zip(op.order, place, strict=True))
        return source.pack([int(coordinates[axis]) for axis in range(len(place))])

    _moved(lowerer, op, source_of)


def _join(lowerer: Lowerer, op: Join) -> None:
    """The last axis says which operand an element comes from."""
    places = first_registers(lowerer.layout(op.lhs))
    sides = lowerer.registers(op.lhs), lowerer.registers(op.rhs)
    wanted = elements_of(lowerer.layout(op.result))
    lowerer.bind(op.result, [sides[element & 1][places[element >> 1]] for element in wanted])


def _split(lowerer: Lowerer, op: Split) -> None:
    places, registers = first_registers(lowerer.layout(op.source)), lowerer.registers(op.source)
    wanted = elements_of(lowerer.layout(op.lhs))
    for side, result in enumerate((op.lhs, op.rhs)):
        lowerer.bind(result, [registers[places[element << 1 | side]] for element in wanted])


def _concatenate(lowerer: Lowerer, op: Cat) -> None:
    """Concatenate the elements, in any order: the result has twice as many registers."""
    found: list[str] = []
    for value in (op.lhs, op.rhs):
        found += _without_copies(lowerer.registers(value), lowerer.layout(value))
    result = lowerer.layout(op.result)
    places = {number: place for place, number in enumerate(_distinct(result))}
    first, elements = first_registers(result), elements_of(result)
    lowerer.bind(op.result, [found[places[first[element]]] for element in elements])


def _distinct(layout: LinearLayout) -> list[int]:
    """The registers that are no copies of earlier ones."""
    return sorted(first_registers(layout).values())


def _without_copies(registers: Sequence[str], layout: LinearLayout) -> list[str]:
    return [registers[number] for number in _distinct(layout)]


def _map_elementwise(lowerer: Lowerer, op: MapElementwise) -> None:
    """The region once for each pack of neighbouring registers: the elements of the first operand, of the second, …."""
    size, tiles = op.pack, [lowerer.registers(value) for value in op.sources]
    assert not len(tiles[0]) % size, "threads hold whole packs"
    found: list[list[str]] = [[] for _ in op.results]
    for start in range(0, len(tiles[0]), size):
        arguments = [name for tile in tiles for name in tile[start : start + size]]
        values = lowerer.region_values(op.function, arguments)
        for number, registers in enumerate(found):
            registers += values[number * size : (number + 1) * size]
    for result, registers in zip(op.results, found, strict=True):
        lowerer.bind(result, registers)


LOWERINGS: dict[str, Lowering] = {
    "tt.cat": _concatenate,
    "tt.join": _join,
    "tt.map_elementwise": _map_elementwise,
    "tt.reshape": _reshape,
    "tt.split": _split,
    "tt.trans": _transpose,
}
