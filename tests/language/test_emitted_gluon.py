"""The ops that each function of Gluon becomes, or why it refuses its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_emitted_ops import words
from tracing import trace

from tilewright.gluon import language as gl
from tilewright.ir.errors import VerificationError
from tilewright.ir.printer import print_op
from tilewright.language.gluon.buffers import shared_memory_descriptor
from tilewright.language.gluon.nvidia import ampere, blackwell, hopper
from tilewright.language.gluon.nvidia.ampere import async_copy
from tilewright.language.gluon.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    tensor_memory_descriptor,
)
from tilewright.language.gluon.nvidia.hopper import cluster, mbarrier, tma
from tilewright.semantics.buffers import buffer_type, tensor_buffer_type
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.tma_descriptors import tma_type
from tilewright.semantics.types import (
    block_type,
    float8e5,
    float16,
    float32,
    int1,
    int8,
    int32,
    int64,
    pointer_type,
)
from tilewright.support.diagnostics import SemanticError

PLAIN = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
ROWS = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
LINE, DOWN = gl.SliceLayout(1, PLAIN), gl.SliceLayout(0, PLAIN)
MMA2, MMA3 = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8]), gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
SHARED, TURNED = gl.NVMMASharedLayout(128, 16, 2), gl.NVMMASharedLayout(128, 16, 2, transposed=True)
PLAIN_SHARED = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
WORDS = gl.SwizzledSharedLayout(1, 1, 1, [0])
TMEM = TensorMemoryLayout([128, 64], 1)


def operand(index: int, parent: Any) -> Any:
    return gl.DotOperandLayout(index, parent, 2)


NAMES: dict[str, Any] = {
    "v": distributed_type(float16, (64, 32), PLAIN),
    "f": distributed_type(float32, (64, 32), PLAIN),
    "i": distributed_type(int32, (64, 32), PLAIN),
    "m": distributed_type(int1, (64, 32), PLAIN),
    "r": distributed_type(int32, (64,), LINE),
    "q": distributed_type(int8, (64, 32), PLAIN),
    "p": distributed_type(pointer_type(float16), (64, 32), PLAIN),
    "n": int32,
    "x": pointer_type(float16),
    "b": buffer_type(float16, [64, 64], SHARED, [64, 64]),
    "bs": buffer_type(float16, [3, 64, 64], SHARED, [3, 64, 64]),
    "c": buffer_type(float16, [64, 64], TURNED, [64, 64]),
    "w": buffer_type(int32, [64, 32], PLAIN_SHARED, [64, 32]),
    "s": buffer_type(float32, [128], WORDS, [128]),
    "h": buffer_type(float16, [64, 32], PLAIN_SHARED, [64, 32]),
    "k": buffer_type(int64, [1], mbarrier.MBarrierLayout(), [1]),
    "o": distributed_type(float32, (64, 64), MMA3),
    "ks": buffer_type(int64, [2, 1], mbarrier.MBarrierLayout(), [2, 1]),
    "t": tensor_buffer_type(float32, [128, 64], TMEM, [128, 64]),
    "big": buffer_type(float16, [128, 64], SHARED, [128, 64]),
    "ts": tensor_buffer_type(float32, [2, 128, 64], TMEM, [2, 128, 64]),
    "d": tma_type(block_type(float16, (64, 64)), SHARED),
    "y": distributed_type(float32, (64, 64), ROWS),
    "e": distributed_type(float16, (64, 32), operand(0, MMA2)),
    "g": distributed_type(float16, (32, 64), operand(1, MMA2)),
    "a": distributed_type(float32, (64, 64), MMA2),
    "l": distributed_type(float32, (128, 64), PLAIN),
    "j": distributed_type(int32, (64,), gl.SliceLayout(0, ROWS)),
}
SPACE: dict[str, Any] = {
    "V": NAMES["v"],
    "H": NAMES["h"],
    "gl": gl,
    "ampere": ampere,
    "hopper": hopper,
    "blackwell": blackwell,
    "cp": async_copy,
    "bar": mbarrier,
    "tma": tma,
    "cluster": cluster,
    "PLAIN": PLAIN,
    "ROWS": ROWS,
    "LINE": LINE,
    "DOWN": DOWN,
    "MMA2": MMA2,
    "SHARED": SHARED,
    "TURNED": TURNED,
    "TMEM": TMEM,
    "SCALES": TensorMemoryScalesLayout(),
    "HALF": float16,
    "F32": float32,
    "I32": int32,
    "F8": float8e5,
    "PLAIN_SHARED": PLAIN_SHARED,
    "TensorMemoryLayout": TensorMemoryLayout,
}
GROUPS: dict[str, tuple[str, ...]] = {
    "tiles": (
        *("gl.arange(0, 64, LINE)", "gl.arange(0, 64)", "gl.full([64, 32], 3, F32, PLAIN)", "gl.full([64], n, I32)"),
        *("gl.zeros([64, 32], HALF, PLAIN)", "gl.zeros_like(v)", "gl.zeros_like(v, [32, 32])", "gl.full_like(v, 2)"),
        *("gl.full_like(v, 1.5, dtype=F32)", "gl.full_like(v, 1, layout=ROWS)", "gl.full_like(v, 1, [16, 16])"),
        *("gl.load(p)", "gl.load(p, m, 0.0)", "gl.store(p, v)", "gl.store(p, v, m)", "gl.convert_layout(v, ROWS)"),
        *("gl.convert_layout(v, PLAIN, True)", "gl.convert_layout(v, ROWS, True)", "gl.set_auto_layout(v, ROWS)"),
        *(
            "gl.sum(f, 0)",
            "gl.max(f, 1)",
            "gl.expand_dims(r, 1)",
            "gl.broadcast(v, r)",
            "gl.join(v, v)",
            "gl.permute(v, [1, 0])",
        ),
        *("gl.reshape(v, [32, 64])", "gl.histogram(r, 32, layout=LINE)", "gl.gather(f, i, 0)", "gl.where(m, v, 0.0)"),
        *("gl.to_linear_layout(PLAIN, [64, 32])", "gl.to_linear_layout(SHARED, [64, 64])", "gl.fp4_to_fp(q, HALF, 1)"),
        *("gl.dot_fma(e, g, a)", "gl.dot_fma(v, v, f)", "v + f", "v + r", "i * 3", "gl.bank_conflicts(V, H)"),
        *("gl.fp4_to_fp(q, HALF, 0)", "gl.num_warps()", "gl.num_ctas()"),
    ),
    "memory": (
        *(
            "gl.allocate_shared_memory(HALF, [64, 64], SHARED)",
            "gl.allocate_shared_memory(HALF, [64, 32], PLAIN_SHARED, v)",
        ),
        *(
            "h.load(PLAIN)",
            "h.store(v)",
            "b.store(v)",
            "w.gather(i, 0)",
            "h.gather(i, 1)",
            "h.scatter(v, i, 0)",
            "b.slice(16, 32)",
        ),
        *(
            "b.slice(0, 32, 1)",
            "b.slice(n, 8)",
            "bs.index(1)",
            "bs.index(n)",
            "b.index(0)",
            "b.permute([1, 0])",
            "b.permute([0, 0])",
        ),
        *(
            "w.reshape([32, 64])",
            "w.reshape([3, 64])",
            "h.reinterpret(I32, [64, 16], PLAIN_SHARED)",
            "h.reinterpret(F32)",
        ),
        *(
            "h._keep_alive()",
            "b.shape",
            "cp.async_load(h, p)",
            "cp.async_load(h, p, m)",
            "cp.commit_group()",
            "cp.wait_group(1)",
        ),
        *(
            "cp.async_load(b, p)",
            "cp.mbarrier_arrive(k)",
            "cp.mbarrier_arrive(k, False)",
            "w.atomic_scatter_add(i, i, 0)",
        ),
        *(
            "hopper.async_store(s, n, k)",
            "gl.set_auto_layout(i, ROWS)",
            "ampere.mma_v2(e, g, a)",
            "ampere.mma_v2(v, v, f)",
        ),
    ),
    "barriers": (
        *(
            "bar.allocate_mbarrier()",
            "bar.allocate_mbarrier(2)",
            "bar.init(k, 1)",
            "bar.init(ks.index(1), 2)",
            "bar.invalidate(k)",
        ),
        *(
            "bar.wait(k, n)",
            "bar.wait(k, 0, n > 0)",
            "bar.wait(k, 1, True, [b])",
            "bar.arrive(k)",
            "bar.arrive(k, count=2)",
        ),
        *(
            "bar.arrive(k, pred=n > 0)",
            "bar.expect(k, 128)",
            "bar.expect(k, 128, n > 0)",
            "bar.expect(k)",
            "bar.init(b, 1)",
        ),
        *(
            "hopper.fence_async_shared()",
            "hopper.fence_async_shared(True)",
            "cluster.barrier()",
            "cluster.arrive(True)",
        ),
        *("cluster.wait()", "bar.arrive(k, from_cta=0)", "bar.expect(k, 8, from_cta=1)"),
    ),
    "copies": (
        *("tma.async_load(d, [0, n], k, b)", "tma.async_load(d, [n, 0], k, b, n > 0)", "tma.async_load(d, [n], k, b)"),
        *(
            "tma.async_load(d, [0, 0], k, h)",
            "tma.async_store(d, [0, n], b)",
            "tma.store_wait(0)",
            "tma.store_wait(2, False)",
        ),
        *(
            "tma.async_atomic_add(d, [0, n], b)",
            "tma.async_atomic_max(d, [n, 0], b)",
            "tma.async_load(d, [0, 0], k, b, multicast=True)",
        ),
        *("tma.make_tensor_descriptor(x, [64, 64], [64, 1], [64, 64], SHARED)",),
        *("blackwell.tma.async_gather(d, j, n, k, b)", "blackwell.tma.async_scatter(d, j, n, b)", "tma.store_wait(1)"),
    ),
    "products": (
        *(
            "hopper.warpgroup_mma_init(o)",
            "hopper.warpgroup_mma(b, b, o)",
            "hopper.warpgroup_mma(b, c, o, is_async=True)",
        ),
        *("hopper.warpgroup_mma(b, b, o, use_acc=n > 0)", "hopper.warpgroup_mma(b, b, o, max_num_imprecise_acc=32)"),
        *("hopper.warpgroup_mma_wait(0, [o])", "hopper.warpgroup_mma(b, b, y)", "hopper.warpgroup_mma_wait(1)"),
        *(
            "blackwell.allocate_tensor_memory(F32, [128, 64], TMEM)",
            "blackwell.allocate_tensor_memory(F32, [128, 64], TMEM, l)",
        ),
        *(
            "t.load()",
            "t.get_reg_layout()",
            "t.get_reg_layout(8)",
            "t.get_reg_layout(4, '16x256b')",
            "t.store(l)",
            "t.store(v)",
        ),
        *(
            "t.load_min()",
            "t.load_max(propagate_nan=True)",
            "t.load_min(abs=True)",
            "t.slice(0, 32)",
            "t.slice(8, 16)",
            "t.slice(0, 64, 0)",
        ),
        *(
            "t.slice(n, 8)",
            "ts.index(1)",
            "ts.index(n)",
            "t.index(0)",
            "t.reinterpret(HALF, [128, 128], TensorMemoryLayout([128, 128], 1))",
        ),
        *("blackwell.tcgen05_mma(big, b, t)", "blackwell.tcgen05_mma(big, b, t, use_acc=False, mbarriers=[k])"),
        *(
            "blackwell.tcgen05_mma(big, b, t, pred=n > 0, mbarriers=[k], mbarrier_preds=[True])",
            "blackwell.tcgen05_mma(b, b, t)",
        ),
        *(
            "blackwell.tcgen05_commit(k)",
            "blackwell.tcgen05_commit(k, n > 0)",
            "blackwell.tcgen05_copy(s, t)",
            "blackwell.tcgen05_mma_barrier_count([big, b], False, False)",
        ),
        "blackwell.tcgen05_mma_barrier_count([big, b], True, True)",
    ),
}


KINDS: dict[type, Any] = {
    buffer_type: shared_memory_descriptor,
    tensor_buffer_type: tensor_memory_descriptor,
}
"""The classes of arguments of these types."""


def answer(expression: str) -> str:
    names = [name for name in NAMES if name in words(expression)]
    function = eval(f"lambda {', '.join(names)}: {expression}", SPACE)

    def of_buffers(*given: Any) -> Any:
        return function(*(KINDS.get(type(each.type), type(each))(each.handle, each.type) for each in given))

    try:
        text = print_op(trace(of_buffers, [NAMES[name] for name in names], warps=4))
    except (SemanticError, VerificationError, AssertionError, TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}\n"
    lines = text.splitlines()
    aliases = [line for line in lines if line.startswith("#")]
    ops = [line[4:] for line in lines if line.startswith("    ") and line != "    tt.return"]
    return "".join(f"{line}\n" for line in aliases + ops)


@pytest.mark.quick
@pytest.mark.parametrize("group", GROUPS)
def test_emitted_ops(group: str, golden: Callable[[str, str], None]) -> None:
    golden("\n".join(f"// {each}\n{answer(each)}" for each in GROUPS[group]), f"language/gluon/{group}.ttgir")
