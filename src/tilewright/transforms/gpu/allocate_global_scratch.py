"""Write into each op where its part of a program's scratch memory in global memory is.

%m = ttg.global_scratch_alloc {nbytes = 128, alignment = 128}       {ttg.global_scratch_memory_offset = 0 : i32}

A launch gives every program as many bytes as the module's `ttg.global_scratch_memory_size` says. A function that is
called gets a part of its caller's for each call.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.dialects.tt_function import Call
from tilewright.dialects.ttg_program import GlobalScratchAlloc
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.types import i32
from tilewright.transforms.functions import functions_of, is_public, symbol_name

OFFSET = "ttg.global_scratch_memory_offset"
SIZE, ALIGNMENT = "ttg.global_scratch_memory_size", "ttg.global_scratch_memory_alignment"


def allocate_global_scratch(module: Op) -> bool:
    """Place all allocations, one behind the other; functions and the module get their needs as attributes.

    Returns:
        whether there was anything to place.
    """
    functions = {symbol_name(function): function for function in functions_of(module)}
    for function in functions.values():
        _place(function, functions)
    needs = [function.attributes for function in functions.values() if is_public(function)]
    for name in (SIZE, ALIGNMENT):
        module.attributes[name] = Number(max((_number(own[name]) for own in needs), default=0), i32)
    return _number(module.attributes[SIZE]) > 0


def _place(function: Op, functions: Mapping[str, Op]) -> None:
    """Place what one function allocates; those that it calls come first."""
    if SIZE in function.attributes:
        return
    end, most = 0, 1
    for op in function.walk():
        size, alignment = _need(op, functions)
        if size:
            end = -(-end // alignment) * alignment
            op.attributes[OFFSET] = Number(end, i32)
            end, most = end + size, max(most, alignment)
    function.attributes[SIZE] = Number(-(-end // most) * most, i32)
    function.attributes[ALIGNMENT] = Number(most, i32)


def _need(op: Op, functions: Mapping[str, Op]) -> tuple[int, int]:
    """The bytes that an op takes, and what their address is a multiple of."""
    if isinstance(op, GlobalScratchAlloc):
        return op.size, op.alignment
    if not isinstance(op, Call):
        return 0, 1
    callee = functions[op.callee]
    _place(callee, functions)
    return _number(callee.attributes[SIZE]), _number(callee.attributes[ALIGNMENT])


def _number(attribute: object) -> int:
    assert isinstance(attribute, Number), "sizes are numbers"
    return int(attribute.value)
