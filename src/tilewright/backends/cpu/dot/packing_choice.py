"""Whether packing B pays off, by the run-time distance of its rows: some share a set of the L1 cache.

Rows of 256 bytes 4096 bytes apart: all in the same four of 64 sets, from which they evict each other.
Rows of 256 bytes 4112 bytes apart: each is one quarter of a line further, so 16 of them have a set in common.
Rows of 256 bytes 4160 bytes apart: each is one line further, and four have a set in common.
"""

from __future__ import annotations

from tilewright.backends.cpu.dot.plan import Plan, plan_of
from tilewright.backends.cpu.dot.spec import DotSpec, Offset, times
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.cpu_costs import CACHE_LINE, PAGE, WAYS
from tilewright.backends.llvm.machine import Target
from tilewright.ir.core import Value


def packing_pays_off(ops: LoopBuilder, spec: DotSpec, target: Target) -> Value | None:
    """An i1: whether a product with panels packs its B, where that depends on the launch; None: it does."""
    plan = plan_of(spec, target)
    assert plan is not None, "it has panels"
    return _packing_pays_off(ops, plan) if plan.reads_vectors else None


def _packing_pays_off(ops: LoopBuilder, plan: Plan) -> Value | None:
    """Whether B is read often, whole, from rows that collide in the cache; or has to be packed. None: certainly.

    Where `packs_far_rows` holds, rows that do not follow one another are enough.
    """
    spec, shape = plan.spec, plan.shape
    if isinstance(spec.b_step, int) and spec.b_step != 1:
        return None
    apart = None if spec.b_step == 1 else ops.compare("ne", ops.number(spec.b_step), 1)
    if not plan.rereads_b:
        return apart
    far = ops.compare("ne", ops.number(spec.b_stride), spec.n)
    if not plan.costs.packs_far_rows:
        far = ops.and_(far, _rows_collide(ops, plan))
    if spec.rows is not None:
        far = ops.and_(far, ops.compare("sgt", ops.number(spec.rows), shape.rows))
    if spec.columns is not None:
        far = ops.and_(far, ops.compare("sgt", ops.number(spec.columns), spec.n - plan.column_step))
    return far if apart is None else ops.or_(far, apart)


def _rows_collide(ops: LoopBuilder, plan: Plan) -> Value:
    """Whether `WAYS` rows of B or more lie on one set of the L1 cache, an i1.

    So they do at a distance that makes whole pages of a part of them, and where `WAYS` rows are no further from whole
    pages, together, than a row is long.
    """
    spec = plan.spec
    bytes = times(ops, spec.b_stride, plan.by.element_bytes)
    found = are_apart(ops, bytes, max(PAGE * WAYS // spec.k, CACHE_LINE))
    near = spec.n * plan.by.element_bytes // WAYS
    if spec.k >= WAYS and 2 * near < PAGE:
        over = ops.and_(ops.add(ops.number(bytes), near), PAGE - 1)
        found = ops.or_(found, ops.compare("sle", over, 2 * near))
    return found


def are_apart(ops: LoopBuilder, bytes: Offset, unit: int) -> Value:
    """Whether a distance is a multiple of `unit`, a power of two."""
    return ops.compare("eq", ops.and_(ops.number(bytes), unit - 1), 0)
