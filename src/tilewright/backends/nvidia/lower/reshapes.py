"""Ops that only say anew where elements of a tile are: each register of the result is one of the operands.

%c = tt.join %a, %b : 32 -> 32x2       registers of %a and %b in turns
%d = tt.trans %c                       the same registers, in the order of the result's layout

The verifier has seen to it that no element has to leave its thread. A `tt.reshape` that may reorder elements, and
`tt.cat`, take the registers as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Op
from tilewright.layouts.linear_layout import LinearLayout


@cache
def first_registers(layout: LinearLayout) -> dict[int, int]:
    """Per packed element of the first thread the first register that holds it."""
    return {layout.image({"register": number}): number for number in reversed(range(layout.in_size("register")))}


@cache
def elements_of(layout: LinearLayout) -> tuple[int, ...]:
    """Per register the packed element that it holds in the first thread."""
    return tuple(layout.image({"register": number}) for number in range(layout.in_size("register")))


def _moved(lowerer: Lowerer, op: Op, source_of: Callable[[int], int]) -> None:
    """Bind the result of an op with one operand; `source_of` goes from packed elements to packed elements."""
    places, registers = first_registers(lowerer.layout(op.operands[0])), lowerer.registers(op.operands[0])
    wanted = elements_of(lowerer.layout(op.result))
    lowerer.bind(op.result, [registers[places[source_of(element)]] for element in wanted])


def _reshape(lowerer: Lowerer, op: Op) -> None:
    source, result = lowerer.layout(op.operands[0]), lowerer.layout(op.result)
    if _threads(source) == _threads(result):
        _moved(lowerer, op, lambda element: element)
    else:
        assert "allow_reorder" in op.attributes, "elements stay in their threads"
        lowerer.bind(op.result, lowerer.registers(op.operands[0]))


def _threads(layout: LinearLayout) -> list[tuple[int, ...]]:
    return [layout.columns[name] for name in ("lane", "warp", "block")]


def _transpose(lowerer: Lowerer, op: Op) -> None:
    order = op.attributes["order"]
    assert isinstance(order, DenseArray), "an order is a list of numbers"
    source, result = lowerer.layout(op.operands[0]), lowerer.layout(op.result)

    def source_of(element: int) -> int:
        place = result.unpack(element)
        coordinates = dict(zip(order.values, place, strict=True))
        return source.pack([int(coordinates[axis]) for axis in range(len(place))])

    _moved(lowerer, op, source_of)


def _join(lowerer: Lowerer, op: Op) -> None:
    """The last axis says which operand an element comes from."""
    places = first_registers(lowerer.layout(op.operands[0]))
    sides = [lowerer.registers(value) for value in op.operands]
    wanted = elements_of(lowerer.layout(op.result))
    lowerer.bind(op.result, [sides[element & 1][places[element >> 1]] for element in wanted])


def _split(lowerer: Lowerer, op: Op) -> None:
    places, registers = first_registers(lowerer.layout(op.operands[0])), lowerer.registers(op.operands[0])
    wanted = elements_of(lowerer.layout(op.results[0]))
    for side, result in enumerate(op.results):
        lowerer.bind(result, [registers[places[element << 1 | side]] for element in wanted])


def _concatenate(lowerer: Lowerer, op: Op) -> None:
    """In any order: the result has twice as many registers."""
    found: list[str] = []
    for value in op.operands:
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


def _map_elementwise(lowerer: Lowerer, op: Op) -> None:
    """The region once for each pack of neighbouring registers: the elements of the first operand, of the second, …."""
    pack = op.attributes["pack"]
    assert isinstance(pack, Number), "a pack is a number"
    size = int(pack.value)
    tiles = [lowerer.registers(value) for value in op.operands]
    assert not len(tiles[0]) % size, "threads hold whole packs"
    found: list[list[str]] = [[] for _ in op.results]
    for start in range(0, len(tiles[0]), size):
        arguments = [name for tile in tiles for name in tile[start : start + size]]
        values = lowerer.region_values(op.regions[0], arguments)
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
