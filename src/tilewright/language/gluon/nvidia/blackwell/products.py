"""Matrix products with accumulators in tensor memory: `tcgen05`."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import UNIT, Attribute, Keyword
from tilewright.ir.types import async_token
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.nvidia.blackwell.tensor_memory import tensor_memory_descriptor
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.buffers import Buffer
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.named_ops import emit_named

__all__ = ["tcgen05_commit", "tcgen05_copy", "tcgen05_mma", "tcgen05_mma_barrier_count", "tcgen05_mma_scaled"]
FORMATS = ("e2m1", "e4m3", "e5m2")


def tcgen05_copy(src: Any, dst: Any) -> None:
    """Begin to copy a buffer in shared memory to tensor memory; `tcgen05_commit` signals its completion."""
    in_shared = isinstance(src, Buffer) and not isinstance(src, tensor_memory_descriptor)
    assert in_shared, "source must be a shared memory descriptor"
    assert isinstance(dst, tensor_memory_descriptor), "destination must be a tensor memory descriptor"
    emit_named("ttng.tmem_copy", {"src": src, "dst": dst})


def _barriers(mbarriers: Any, predicates: Any) -> dict[str, Any]:
    """The barriers of a product, and what each depends on."""
    if unwrap(mbarriers) is None:
        assert unwrap(predicates) is None, "predicates are those of barriers"
        return {"barriers": (), "barrier_preds": ()}
    told = tuple(unwrap(mbarriers))
    if unwrap(predicates) is None:
        return {"barriers": told, "barrier_preds": (to_tensor(True),) * len(told)}
    return {"barriers": told, "barrier_preds": tuple(to_tensor(predicate) for predicate in unwrap_all(predicates))}


def _attributes(barriers: dict[str, Any], multicast: Any, acc: Any) -> dict[str, Attribute]:
    marks: dict[str, Attribute] = {}
    if barriers["barriers"]:
        marks["is_async"] = UNIT
    if unwrap(multicast):
        marks["multicast"] = UNIT
    if getattr(acc.layout, "two_ctas", False):
        marks["two_ctas"] = UNIT
    return marks


def tcgen05_mma(
    a: Any,
    b: Any,
    acc: Any,
    *,
    use_acc: Any = True,
    pred: Any = True,
    multicast: Any = False,
    mbarriers: Any = None,
    mbarrier_preds: Any = None,
) -> None:
    """Add `a @ b` to `acc`.

    Args:
        a: a buffer in shared or tensor memory.
        b: a buffer in shared memory.
        acc: the sum, in tensor memory.
        use_acc: whether it adds; else the product alone is stored.
        pred: whether to multiply at all.
        multicast: the barriers of all CTAs that share operands are signalled.
        mbarriers: barriers that are signalled when it is done; without any the program waits.
        mbarrier_preds: which of them are signalled.
    """
    barriers = _barriers(mbarriers, mbarrier_preds)
    operands = {"a": a, "b": b, "d": acc, "useD": to_tensor(use_acc), "pred": to_tensor(pred), **barriers}
    emit_named("ttng.tc_gen5_mma", operands, (async_token,), _attributes(barriers, multicast, acc))


def tcgen05_mma_scaled(
    a: Any,
    b: Any,
    acc: Any,
    a_scale: Any,
    b_scale: Any,
    a_type: Any,
    b_type: Any,
    *,
    use_acc: Any = True,
    pred: Any = True,
    multicast: Any = False,
    mbarriers: Any = None,
    mbarrier_preds: Any = None,
) -> None:
    """Add the product of scaled operands to `acc`.

    Args:
        a, b, acc: as for `tcgen05_mma`.
        a_scale, b_scale: the scales, in tensor memory.
        a_type, b_type: the formats of the elements: `e2m1`, `e4m3` or `e5m2`.
        use_acc, pred, multicast, mbarriers, mbarrier_preds: as for `tcgen05_mma`.
    """
    assert acc.layout.block[0] != 64, "tcgen05_mma_scaled does not support blockM=64"
    kinds = unwrap(a_type), unwrap(b_type)
    for side, kind in zip(("lhs", "rhs"), kinds, strict=True):
        assert kind in FORMATS, f"Unsupported {side}_format: {kind}"
    barriers = _barriers(mbarriers, mbarrier_preds)
    operands = {"a": a, "b": b, "d": acc, "a_scale": a_scale, "b_scale": b_scale, "useD": to_tensor(use_acc)}
    attributes = _attributes(barriers, multicast, acc) | {"a_type": Keyword(kinds[0]), "b_type": Keyword(kinds[1])}
    emit_named("ttng.tc_gen5_mma_scaled", {**operands, "pred": to_tensor(pred), **barriers}, (async_token,), attributes)


def tcgen05_mma_barrier_count(smems: Any, multicast: Any, two_ctas: Any) -> int:
    """The number of CTAs that signal a barrier when a product is done.

    Args:
        smems: the buffers that it reads.
        multicast: whether the barriers of all CTAs that share them are signalled.
        two_ctas: pairs of CTAs compute together.
    """
    buffers = unwrap(smems)
    assert len(buffers) <= 4, "tcgen05_mma_barrier_count supports 0 to 4 descriptors"
    if not buffers or not unwrap(multicast):
        return 1
    layouts = [buffer.layout.cga_layout for buffer in buffers]
    assert len(set(map(len, layouts))) == 1, "the buffers have layouts for different numbers of CTAs"
    ctas = range(0, 1 << len(layouts[0]), 2 if unwrap(two_ctas) else 1)
    return sum(any(_shares(rows, cta) for rows in layouts) for cta in ctas)


def _shares(rows: list[list[int]], cta: int) -> bool:
    """Whether a CTA has the same part of a buffer as the first one."""
    return all(not any(row) or not cta >> bit & 1 for bit, row in enumerate(rows))


def tcgen05_commit(barrier: Any, pred: Any = True, descs: Any = ()) -> None:
    """Signal a barrier when all previous products and copies are done.

    Args:
        pred: whether to.
        descs: buffers that they read: the barriers of all CTAs that share them are signalled.
    """
    operands = {"barrier": barrier, "pred": to_tensor(pred), "descs": tuple(unwrap(descs))}
    emit_named("ttng.tc_gen5_commit", operands)


accept_semantic(globals())
