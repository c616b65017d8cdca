"""Tokens that order accesses to tensor memory leave when every op has its place: the text's order is the order.

    %m, %t = ttng.tmem_alloc : …                              %m = ttng.tmem_alloc : …
    %u = ttng.tc_gen5_mma %a, %b, %m[%t], %true, %p     ->    ttng.tc_gen5_mma %a, %b, %m, %true, %p
    %x, %v = ttng.tmem_load %m[%u] : …                        %x = ttng.tmem_load %m : …

Loops go on carrying the same token from before them, until canonicalization sees that.
"""

from __future__ import annotations

from tilewright.dialects.assembly import RESULT_SEGMENTS
from tilewright.dialects.builtin import Poison
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op, Value
from tilewright.ir.operands import SEGMENTS, operand_groups
from tilewright.ir.types import async_token, i32
from tilewright.transforms.functions import functions_of

ACCESSES = (TmemAlloc, TmemLoad, TmemStore, TensorCoreMma)


def remove_tensor_memory_tokens(module: Op) -> bool:
    """Take the tokens from the accesses to tensor memory in `module`; whether there were some."""
    found = False
    for function in functions_of(module):
        for op in [op for op in function.walk() if isinstance(op, ACCESSES)]:
            found |= _without_token_operands(op)
            found |= _without_token_results(op, function)
    return found


def _without_token_operands(op: Op) -> bool:
    if not any(value.type is async_token for value in op.operands):
        return False
    groups = {
        name: [value for value in values if value.type is not async_token]
        for name, values in operand_groups(op).items()
    }
    op.set_operands([value for values in groups.values() for value in values])
    if SEGMENTS in op.attributes:
        op.attributes = {**op.attributes, SEGMENTS: DenseArray(i32, tuple(map(len, groups.values())))}
    return True


def _without_token_results(op: Op, function: Func) -> bool:
    kept = [result for result in op.results if result.type is not async_token]
    if len(kept) == len(op.results):
        return False
    attributes = {name: value for name, value in op.attributes.items() if name != RESULT_SEGMENTS}
    if RESULT_SEGMENTS in op.attributes:
        attributes[RESULT_SEGMENTS] = DenseArray(i32, (1, 0, len(kept) - 1))
    made = Op.create(op.name, op.operands, [result.type for result in kept], attributes, location=op.location)
    assert op.block is not None, "an access stands in a block"
    op.block.insert(made, op)
    names = [result.name for result in kept]
    for result, name in zip(made.results, names, strict=True):
        result.name = name
    results = iter(made.results)
    op.replace([_any_token(function) if result.type is async_token else next(results) for result in op.results])
    return True


def _any_token(function: Func) -> Value:
    """A token that stands for none, at the beginning of a function."""
    entry = function.body
    first = entry.first
    if isinstance(first, Poison) and first.result.type is async_token:
        return first.result
    token = Op.create("ub.poison", (), (async_token,), {}, location=function.location)
    entry.insert(token, first)
    return token.result
