"""The ops that each function of the language emits, as golden texts.

For every line below, Triton 3.5.1 emits the same ops up to canonicalisation and order (compared through its wheel).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tracing import body_text

import tilewright.language as tl
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.hopper import tma
from tilewright.support.diagnostics import SemanticError


def tile(element: Any, *shape: int) -> Any:
    return tl.block_type(element, shape)


def pointers(element: Any, *shape: int) -> Any:
    return tl.block_type(tl.pointer_type(element), shape)


V, F, INT, M = tile(tl.float32, 64), tile(tl.float16, 64), tile(tl.int32, 64), tile(tl.int1, 64)
U, D = tile(tl.uint32, 64), tile(tl.float64, 64)
P, N = pointers(tl.float32, 64), tl.int32

NAMES = {"v": V, "f": F, "i": INT, "m": M, "u": U, "d": D, "p": P, "n": N}
NAMES |= {"x": tl.pointer_type(tl.float32), "z": tl.pointer_type(tl.int32), "b": tl.pointer_type(tl.int1)}
NAMES |= {"h": pointers(tl.float16, 64), "w": tile(tl.float32, 16, 16), "g": tile(tl.float16, 16, 16)}
NAMES |= {"q": tile(tl.int8, 16, 16), "a": tile(tl.float32, 2, 16, 16), "e": tile(tl.float8e5, 64)}

GROUPS = {
    "arithmetic": [
        *("v + 1", "1.5 - v", "f * 2.0", "i * n", "v * n", "f + v", "i + u", "-v", "-i", "~i", "~m"),
        *("i / 3", "f / 3", "v / f", "i // 3", "u // 3", "i % n", "u % 7", "v % 2.0", "i & m", "i | 1", "i ^ i"),
        *("i << 2", "1 << i", "i >> 1", "u >> 1", "n / 2", "p + i", "i + p", "p - 1", "p + u", "x + n"),
    ],
    "comparison": [
        *("v < 0", "v >= v", "v != v", "i < n", "u < 3", "u > u", "i == 1", "(i < 3) & (i > 1)"),
        *("m.logical_or(m)", "m.__not__()", "tl.where(m, v, 0.0)", "tl.where(i > 0, 1, 0)", "tl.where(n > 0, v, f)"),
        *("tl.where(m, p, p + 1)",),
    ],
    "casts": [
        *("v.to(tl.float16)", "f.to(tl.float32)", "f.to(tl.bfloat16)", "v.to(tl.float8e5)", "e.to(tl.float32)"),
        *("v.to(tl.float16, fp_downcast_rounding='rtz')", "v.to(tl.int32)", "v.to(tl.uint8)", "f.to(tl.int64)"),
        *(
            "v.to(tl.int1)",
            "i.to(tl.int1)",
            "i.to(tl.float32)",
            "u.to(tl.float32)",
            "m.to(tl.float32)",
            "i.to(tl.uint32)",
        ),
        *("i.to(tl.int8)", "i.to(tl.int64)", "u.to(tl.int64)", "v.to(tl.int32, bitcast=True)", "d.to(tl.float32)"),
        *("x.to(tl.int64)", "n.to(tl.pointer_type(tl.float32))", "x.to(tl.pointer_type(tl.int32))"),
    ],
    "shapes": [
        *("tl.program_id(0)", "tl.num_programs(2)", "tl.arange(0, 8)", "tl.zeros((4, 8), tl.float32)"),
        *("tl.full((4,), n, tl.float32)", "tl.full((), 3, tl.int64)", "i[:, None] + i[None, :]", "v[None]"),
        *("tl.broadcast_to(n, (4, 4))", "tl.expand_dims(v, [0, 2])", "tl.reshape(v, 8, 8)", "v.reshape([4, 16])"),
        *("w.T", "tl.permute(a, 2, 0, 1)", "tl.trans(a)", "tl.join(v, v)", "tl.split(v.reshape(32, 2))[1]"),
        *("tl.cat(v, v, can_reorder=True)", "tl.cat(w, w, dim=0)", "tl.interleave(v, v)", "tl.ravel(w)"),
        *("tl.gather(v, i, 0)", "tl.flip(v)", "tl.squeeze(v[None], 0)", "tl.full((1,), 1, tl.int32).item()"),
    ],
    "memory": [
        *("tl.load(p)", "tl.load(p, mask=m)", "tl.load(p, m, 0)", "tl.load(h, m, other=v)", "tl.load(x)", "tl.load(b)"),
        *("tl.load(p, n > 0)", "tl.load(p, volatile=True)", "tl.store(p, v)", "tl.store(p, 0, m)", "tl.store(h, v, m)"),
        *("tl.load(p, cache_modifier='.cg', eviction_policy='evict_first')", "tl.store(x, n)", "tl.store(b, i.sum())"),
        *("tl.store(p, v, cache_modifier='.wt')",),
    ],
    "block_pointers": [
        "tl.make_block_ptr(x, (n, 64), (64, 1), (0, 32), (16, 8), (1, 0))",
        "tl.load(tl.make_block_ptr(x, (n,), (1,), (n,), (16,), (0,)), boundary_check=(0,), padding_option='nan')",
        "tl.store(tl.advance(tl.make_block_ptr(x, (n,), (1,), (0,), (64,), (0,)), (n,)), f, boundary_check=(0,))",
    ],
    "atomics": [
        *("tl.atomic_add(p, v, m)", "tl.atomic_add(z, 1, sem='relaxed', scope='cta')", "tl.atomic_max(z, n)"),
        *("tl.atomic_min(p, v)", "tl.atomic_xchg(z, 0)", "tl.atomic_cas(z, 0, 1)", "tl.atomic_and(z, 3)"),
        *("tl.atomic_min(x, 1.0, sem='acquire')", "tl.atomic_add(h, 1.0)"),
    ],
    "dot": [
        *("tl.dot(w, w)", "tl.dot(g, g, w)", "tl.dot(g, g, out_dtype=tl.float16)", "tl.dot(q, q)", "tl.dot(a, a)"),
        *("tl.dot(w, w, input_precision='ieee')", "tl.dot(w, w, allow_tf32=False)", "w + tl.dot(g, g)"),
    ],
    "reductions": [
        *(
            "tl.sum(v)",
            "tl.sum(w, 1)",
            "w.sum(0, keep_dims=True)",
            "tl.sum(m)",
            "tl.sum(q, 0)",
            "tl.sum(f, 0, dtype=tl.float32)",
        ),
        *("tl.max(f)", "tl.min(i, 0)", "tl.max(v, 0, return_indices=True)", "tl.argmin(w, 1, tie_break_left=False)"),
        *("tl.xor_sum(i)", "tl.reduce_or(m, 0)", "tl.cumsum(v)", "tl.cumprod(v, reverse=True)", "tl.histogram(i, 4)"),
        *("tl.reduce((v, i), 0, lambda a, b, c, d: (a + c, b * d))", "tl.softmax(v)", "tl.softmax(w, 1)"),
    ],
    "functions": [
        *(
            "tl.exp(v)",
            "tl.math.log2(d)",
            "tl.sqrt_rn(v)",
            "tl.div_rn(v, 3.0)",
            "tl.fdiv(f, 2.0)",
            "tl.abs(v) + tl.abs(i)",
        ),
        *("tl.abs(u)", "tl.fma(v, v, 1.0)", "tl.umulhi(i, 3)", "tl.maximum(f, 0.0)", "tl.minimum(i, 3)"),
        *("tl.maximum(v, f, propagate_nan=tl.PropagateNan.ALL)", "tl.clamp(v, 0.0, 1.0)", "tl.clamp(i, 0, n)"),
        *("tl.sigmoid(v)", "tl.cdiv(n, 64)", "tl.cdiv(n, i)", "tl.cdiv(7, 2)", "tl.swizzle2d(n, n, 8, 8, 2)"),
        *("tl.extra.libdevice.pow(v, 2.0)", "tl.extra.libdevice.tanh(v)", "tl.extra.libdevice.isnan(v)"),
        *(
            "tl.extra.libdevice.copysign(v, -1.0)",
            "tl.extra.cuda.libdevice.rint(d)",
            "tl.extra.libdevice.float_as_int(v)",
        ),
    ],
    "sorting": [
        "tl.sort(tl.arange(0, 4))",
        "tl.sort(f.reshape(32, 2), descending=True)",
        "tl.topk(tl.arange(0, 4), 2)",
    ],
    "random": [
        "tl.rand(3, i, 2)",
        "tl.randint(n, i.to(tl.int64), 1)",
        "tl.randn(n, i, 1)",
        "tl.philox(n, i.to(tl.int64), i.to(tl.int64), i.to(tl.int64), i.to(tl.int64), 0)",
    ],
    "debug": [
        *("tl.device_print('x', v, i)", "tl.device_assert(i < 3, 'small', mask=m)", "tl.assume(n > 0)"),
        *("tl.debug_barrier()", "tl.multiple_of(tl.program_id(0), 16)", "tl.max_contiguous(i + 1, 64)"),
    ],
}


@pytest.mark.quick
@pytest.mark.parametrize("group", GROUPS)
def test_emitted_ops(group: str, golden: Callable[[str, str], None]) -> None:
    pieces = []
    for expression in GROUPS[group]:
        names = [name for name in NAMES if name in words(expression)]
        function = eval(f"lambda {', '.join(names)}: {expression}", {"tl": tl})
        types = [NAMES[name] for name in names]
        header = ", ".join(f"{name}: {kind.ir}" for name, kind in zip(names, types, strict=True))
        pieces.append(f"// {expression}    ({header})\n{body_text(function, types, debug=True)}")
    golden("\n".join(pieces), f"language/{group}.ttir")


SCALED = {
    "bytes": "tl.dot_scaled(l, s, 'e5m2', r, t, 'e4m3')",
    "half_bytes": "tl.dot_scaled(h, s, 'e2m1', g, t, 'e2m1')",
    "half_bytes_left": "tl.dot_scaled(h, s, 'e2m1', r, t, 'e5m2')",
    "half_bytes_right": "tl.dot_scaled(l, s, 'e5m2', g, None, 'e2m1')",
    "half_bytes_along_rows": "tl.dot_scaled(o, None, 'e2m1', r, t, 'e5m2', lhs_k_pack=False)",
    "half_bytes_along_columns": "tl.dot_scaled(l, s, 'e5m2', c, t, 'e2m1', rhs_k_pack=False)",
    "floats": "tl.dot_scaled(f, None, 'bf16', g, t, 'e2m1')",
    "other_depths": "tl.dot_scaled(h, s, 'e2m1', c, t, 'e5m2')",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", SCALED)
def test_products_with_scales_are_one_operation_of_gpus(name: str, golden: Callable[[str, str], None]) -> None:
    """Elements of 4 bits are two in a byte, along what is summed or along the other axis."""
    u, kinds = tl.uint8, {"f": tile(tl.bfloat16, 64, 64), "s": tile(tl.uint8, 64, 2), "t": tile(tl.uint8, 32, 2)}
    kinds |= {"l": tile(u, 64, 64), "r": tile(u, 64, 32), "h": tile(u, 64, 32), "g": tile(u, 32, 32)}
    kinds |= {"o": tile(u, 32, 64), "c": tile(u, 64, 16)}
    names = [each for each in kinds if each in words(SCALED[name])]
    function = eval(f"lambda {', '.join(names)}: {SCALED[name]}", {"tl": tl})
    try:
        text = body_text(function, [kinds[each] for each in names], capability=100)
    except SemanticError as error:
        text = f"{error}\n"
    golden(f"// {SCALED[name]}\n{text}", f"language/scaled/{name}.ttir")


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_of_gluon_say_what_is_outside(padding: str) -> None:
    def described(x: Any) -> None:
        tma.make_tensor_descriptor(x, [64, 32], [32, 1], [16, 32], gl.NVMMASharedLayout(128, 32, 2), padding)

    (line,) = (line for line in body_text(described, [NAMES["x"]]).splitlines() if "make_tensor_descriptor" in line)
    assert ("padding" in line, "nan" in line) == (padding == "nan",) * 2


def words(expression: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in expression.replace("'x'", "")).split())
