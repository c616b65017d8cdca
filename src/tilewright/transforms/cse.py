"""Common subexpression elimination: an op that computes the same as an earlier one is replaced by its results.

    %a = arith.addi %x, %y                  %a = arith.addi %x, %y
    %b = arith.addi %y, %x            ->    tt.store %p, %a
    tt.store %p, %a                         tt.store %q, %a
    tt.store %q, %b

The earlier op must dominate the later one, so it is searched in the same block and in the blocks around it.
`loop_aware_cse` also merges values carried by a loop that have equal initial values and equal updates. Loads are merged
if there is no write between them; a loop that writes invalidates them at its start.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import ControlFlow
from tilewright.ir.builder import constant_key
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import Effect
from tilewright.ir.effects import effect_of, is_dead
from tilewright.ir.rewriter import Rule, apply_rules
from tilewright.transforms import control_flow_rules
from tilewright.transforms.carried_values import merge_alike
from tilewright.transforms.functions import functions_of

LOOP_RULES: dict[str, tuple[Rule, ...]] = {"scf.for": control_flow_rules.RULES["scf.for"]}


def cse(module: Op) -> bool:
    """Merge equal computations in every function of `module`."""
    merged = [_merge_in_function(function) for function in functions_of(module)]
    return any(merged)


def loop_aware_cse(module: Op) -> bool:
    """Merge equal computations in every function of `module`, and equal values that a loop carries."""
    changed = False
    for function in functions_of(module):
        changed |= _merge_in_function(function)
        loops = function.ops_of(For)
        merged = [merge_alike(loop) for loop in reversed(loops)]
        if any(merged):
            changed = True
            _merge_in_function(function)
        if loops:
            changed |= apply_rules(function, LOOP_RULES)
    return changed


def _merge_in_function(function: Op) -> bool:
    merged = [_merge_in_block(block, {}, {}) for block in function.regions[0].blocks]
    return any(merged)


def _merge_in_block(block: Block, known: dict[Hashable, Op], loaded: dict[Hashable, Op]) -> bool:
    """Merge the ops of `block` with `known` ones around it, and reads with those `loaded` since the last write.

    Returns whether there is any, or one that is not needed.
    """
    changed = False
    added: list[Hashable] = []
    for op in block:
        if op.definition.terminator:
            for region in op.regions:  # the code of other warps
                for inner in region.blocks:
                    changed |= _merge_in_block(inner, {}, {})
            continue
        if is_dead(op):
            op.erase()
            changed = True
            continue
        effect = effect_of(op)
        if op.regions:
            changed |= _merge_in_regions(op, effect, known, loaded)
        if isinstance(op, ControlFlow) or effect not in (Effect.NONE, Effect.READ):  # ops with regions are not compared
            if effect not in (Effect.NONE, Effect.READ):
                loaded.clear()
            continue
        key, table = _key(op), known if effect is Effect.NONE else loaded
        if key in table:
            changed |= _merge(op, table[key])
        else:
            table[key] = op
            if effect is Effect.NONE:
                added.append(key)
    for key in added:
        del known[key]
    return changed


def _merge_in_regions(op: Op, effect: Effect, known: dict[Hashable, Op], loaded: dict[Hashable, Op]) -> bool:
    """Merge in the regions of `op`; those of reductions and the like use nothing from outside."""
    sees_outside = isinstance(op, ControlFlow)
    loop_writes = not isinstance(op, If) and effect not in (Effect.NONE, Effect.READ)
    changed = False
    for region in op.regions:
        for block in region.blocks:
            changed |= _merge_in_block(block, known if sees_outside else {}, {} if loop_writes else dict(loaded))
    return changed


def _merge(op: Op, earlier: Op) -> bool:
    """Replace `op` by the op `earlier` that is equal but perhaps for its regions, if those are equal too."""
    if not all(map(_same_region, earlier.regions, op.regions)):
        return False
    op.replace(earlier.results)
    return True


def _key(op: Op) -> Hashable:
    """A key that is equal for ops that compute the same but for their regions."""
    operands: Sequence[int] = [id(value) for value in op.operands]
    if op.definition.commutative:
        operands = sorted(operands)
    attributes = op.attributes
    facts: Hashable = None
    if isinstance(op, Constant):
        facts = constant_key(op.value)
    elif attributes:
        facts = tuple(sorted(attributes.items())) if len(attributes) > 1 else tuple(attributes.items())
    return (op.name, facts, *operands, *(result.type for result in op.results))


def _same_region(a: Region, b: Region) -> bool:
    if len(a.blocks) != len(b.blocks):
        return False
    mapping: dict[Value, Value] = {}
    return all(_same_block(x, y, mapping) for x, y in zip(a.blocks, b.blocks, strict=True))


def _same_block(a: Block, b: Block, mapping: dict[Value, Value]) -> bool:
    """Whether the blocks are equal; `mapping` takes the values of b to those of a."""
    if [v.type for v in a.args] != [v.type for v in b.args]:
        return False
    mapping.update(zip(b.args, a.args, strict=True))
    first, second = list(a), list(b)
    return len(first) == len(second) and all(map(lambda x, y: _same_op(x, y, mapping), first, second))


def _same_op(a: Op, b: Op, mapping: dict[Value, Value]) -> bool:
    if a.name != b.name or a.attributes != b.attributes or a.regions or b.regions or a.successors or b.successors:
        return False
    if a.operands != [mapping.get(v, v) for v in b.operands] or len(a.results) != len(b.results):
        return False
    mapping.update(zip(b.results, a.results, strict=True))
    return all(x.type is y.type for x, y in zip(a.results, b.results, strict=True))
