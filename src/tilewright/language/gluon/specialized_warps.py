"""`warp_specialize`: different functions for different warps of a program.

specialized([(consumer, (a,)), (producer, (b, c))], [1], [24])

    ttg.warp_specialize(%b, %c) attributes {requestedRegisters = array<i32: 24>}
    default { …, ttg.warp_yield }
    partition0(%x, %y) num_warps(1) { …, ttg.warp_return }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Block, Region, Value
from tilewright.ir.types import Type, i32
from tilewright.language.values import Structure, flatten, rebuild
from tilewright.semantics.active import active, context, in_specialized
from tilewright.semantics.buffers import require
from tilewright.semantics.constexpr import unwrap_all

Functions = Sequence[tuple[Any, Any]]
Worker = tuple[Any, list[Structure]]


def specialized(functions: Functions, warps: Sequence[int], registers: Sequence[int] | None) -> Any:
    """Call the first function by the present warps, each of the others by warps of its own.

    Args:
        functions: pairs of a kernel function and a tuple of arguments.
        warps: how many warps each of the others has.
        registers: how many registers their threads need, or None.

    Returns:
        the result of the first one.
    """
    _check(functions, warps, registers)
    emitter, default = active(), Block()
    yields: list[Value] = []
    with emitter.recording(default), in_specialized():
        structure = flatten(_called(functions[0][0], unwrap_all(functions[0][1])), yields)
        emitter.emit("ttg.warp_yield", yields)
    captures: list[Value] = []
    workers = [(function, [flatten(value, captures) for value in unwrap_all(args)]) for function, args in functions[1:]]
    regions = _partitions(workers, warps, [value.type for value in captures])
    holder = Block()
    with emitter.recording(holder):
        emitter.emit("ttg.warp_specialize.partitions", captures, (), {}, regions)
    attributes: dict[str, Attribute] = {"partitionNumWarps": DenseArray(i32, tuple(warps))}
    if registers is not None:
        attributes["requestedRegisters"] = DenseArray(i32, tuple(registers))
    types = [value.type for value in yields]
    results = emitter.emit("ttg.warp_specialize", (), types, attributes, [Region([default]), Region([holder])])
    return rebuild(structure, iter(results))


def _check(functions: Functions, warps: Sequence[int], registers: Sequence[int] | None) -> None:
    for _, arguments in functions:
        is_tuple = isinstance(arguments, tuple)
        require(is_tuple, f"function arguments must be a tuple of arguments, but got {type(arguments)}")
    assert functions, "expected at least one function for the default partition"
    count = len(functions) - 1
    assert count == len(warps), f"warp specialize got {count} partitions but {len(warps)} warp counts"
    fits = registers is None or len(registers) == count
    assert fits, f"warp specialize got {count} partitions but {len(registers or ())} register counts"


def _called(function: Any, arguments: Sequence[Any]) -> Any:
    """Call a kernel function as a separate function, so that its code is distinct from that of other warps."""
    call = context().call_apart
    assert call is not None, "Gluon's kernels are compiled"
    return call(function, arguments, {})


def _partitions(workers: Sequence[Worker], warps: Sequence[int], types: list[Type]) -> list[Region]:
    """The regions of the workers, each with all captured values as arguments."""
    emitter = active()
    regions, first = [], 0
    for (function, structures), count in zip(workers, warps, strict=True):
        block = Block(types)
        handles = iter(block.args[first:])
        arguments = [rebuild(structure, handles) for structure in structures]
        first = len(types) - len(list(handles))
        with emitter.recording(block), in_specialized(count):
            _called(function, arguments)
            emitter.emit("ttg.warp_return")
        regions.append(Region([block]))
    return regions
