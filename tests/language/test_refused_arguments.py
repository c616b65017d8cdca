"""Arguments that functions of the language refuse: the message of each, and what is next to it and accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_emitted_ops import NAMES, words
from test_language_errors import complaint
from tracing import body_text

import tilewright.language as tl
from tilewright.language.extra import libdevice
from tilewright.support.diagnostics import SemanticError

pytestmark = pytest.mark.quick

SHORT = {
    "BLOCK": "tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))",
    "ROWS": "tl.make_tensor_descriptor(x, (n, n), (n, 1), (1, 16))",
    "ROW": "tl.make_tensor_descriptor(x, (n,), (1,), (16,))",
    "TALL": "q.reshape(32, 8)",
    "SMALL": "i.reshape(16, 4)",
    "EIGHTHS": "e.reshape(8, 8)",
}
"""Abbreviations for longer parts of the expressions below."""

REFUSED = {
    "arithmetic": [
        "+v",
        "tl.math.fdiv(v, 2.0, True, True)",
        "tl.fdiv(i, i)",
        "tl.fdiv(p, 2.0)",
        "i.logical_and(m)",
        "m.logical_or(v)",
        "tl.maximum(p, 1)",
        "tl.minimum(1, p)",
        "tl.maximum(v, 1.0, propagate_nan=True)",
        "tl.where(m, p, v)",
        "tl.where(m, x, z)",
        "tl.abs(p)",
        "tl.fma(i, i, i)",
        "tl.clamp(p, 0, 1)",
        "tl.clamp(i.to(tl.int8), -300, 300)",
        "tl.clamp(u, -1, 7)",
        "tl.maximum(u, -1)",
        "tl.umulhi(-1, u)",
        "tl.math.rsqrt(i)",
        "tl.umulhi(v, v)",
        "tl.div_rn(d, d)",
        "v == None",
        "v + None",
        "v < 'a'",
        "tl.exp('a')",
        "tl.sin(p)",
        "tl.maximum(v, 'a')",
    ],
    "atomics": [
        "tl.atomic_cas(x.to(tl.pointer_type(tl.int8)), 0, 1)",
        "tl.atomic_load(x.to(tl.pointer_type(tl.int16)))",
        "tl.atomic_poll(x, 1.0)",
        "tl.atomic_poll(x.to(tl.pointer_type(tl.int8)), 1)",
        "tl.atomic_add(x.to(tl.pointer_type(tl.int16)), 1)",
        "tl.atomic_xchg(x.to(tl.pointer_type(tl.int16)), 1)",
        "tl.atomic_max(x.to(tl.pointer_type(tl.int8)), 1)",
        "tl.atomic_xor(x.to(tl.pointer_type(tl.int16)), 1)",
        "tl.atomic_add(x, v)",
        "tl.atomic_cas(x, v, 1.0)",
        "tl.atomic_cas(x, 1.0, v)",
        "tl.atomic_add(c, 1.0)",
        "tl.atomic_add(BLOCK, 1.0)",
        "tl.atomic_add(x, 1.0, sem='seq_cst')",
        "tl.atomic_add(x, 1.0, scope='warp')",
        "tl.atomic_load(x, sem='release')",
        "tl.atomic_store(x, 1.0, sem='acquire')",
    ],
    "block_pointers": [
        "tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,))",
        "tl.make_block_ptr(v, (n,), (1,), (0,), (16,), (0,))",
        "tl.make_block_ptr(BLOCK, (n,), (1,), (0,), (16,), (0,))",
        "tl.make_block_ptr(x, (i,), (1,), (0,), (16,), (0,))",
        "tl.make_block_ptr(x, (n,), (1.5,), (0,), (16,), (0,))",
        "tl.make_block_ptr(x, (n,), (1,), (None,), (16,), (0,))",
        "tl.cast(BLOCK, tl.int64)",
        "BLOCK.to(tl.pointer_type(tl.int32))",
        "tl.make_block_ptr(x, (n,), (1,), (n.to(tl.float32),), (16,), (0,))",
        "tl.make_block_ptr(x, (n,), (1,), (n.to(tl.int64),), (16,), (0,))",
        "tl.make_block_ptr(x, (n,), (1,), (0,), (16, 16), (0, 0))",
        "tl.advance(BLOCK, (1, 2))",
        "tl.load(BLOCK, other=0.0)",
        "tl.load(BLOCK, boundary_check=(0, 0))",
        "tl.load(BLOCK, boundary_check=(0,), padding_option='one')",
        "tl.load(tl.make_block_ptr(z, (n,), (1,), (0,), (16,), (0,)), boundary_check=(0,), padding_option='nan')",
        "tl.store(BLOCK, 1.0, mask=m)",
        "tl.store(BLOCK, v)",
    ],
    "casts": [
        "x.to(tl.float32)",
        "e.to(tl.int32)",
        "i.to(tl.float8e5)",
        "v.to(tl.float64, fp_downcast_rounding='rtne')",
        "v.to(tl.int32, fp_downcast_rounding='rtz')",
        "v.to(tl.float16, bitcast=True)",
    ],
    "control_and_hints": [
        "tl.assume(v > 0)",
        "tl.assume(n)",
        "tl.device_assert('x')",
        "tl.multiple_of(v, (1, 2))",
        "tl.multiple_of(w, 4)",
        "tl.multiple_of(v, n)",
        "tl.max_contiguous(w, (1, 2, 4))",
        "tl.max_constancy(n, 4)",
        "tl.static_assert(1)",
        "tl.static_assert(v > 0)",
        "tl.range(0, n, num_stages=n)",
        "tl.range(0, n, num_stages='2')",
        "tl.cond(n > 0, lambda: v, lambda: i)",
        "tl.cond(n > 0, lambda: v, lambda: (v, v))",
        "tl.fori_loop(0, n, lambda k, s: s.to(tl.float16), v)",
        "tl.fori_loop(0.5, n, lambda k, s: s, v)",
        "tl.device_print(1, v)",
    ],
    "descriptors": [
        "tl.make_tensor_descriptor(x, (n, n), (1,), (16,))",
        "tl.make_tensor_descriptor(p, (n,), (1,), (16,))",
        "tl.make_tensor_descriptor(1, (n,), (1,), (16,))",
        "tl.make_tensor_descriptor(x, (n,), (1,), (16, 16))",
        "tl.make_tensor_descriptor(x, (n, n), (n, 2), (16, 16))",
        "tl.make_tensor_descriptor(x, (n,), (1,), (2,))",
        "tl.make_tensor_descriptor(x, (n,), (1,), (16,), padding_option='one')",
        "tl.make_tensor_descriptor(z, (n,), (1,), (16,), padding_option='nan')",
        "ROW.load([0, 0])",
        "ROW.store([0], v)",
        "ROW.load([n.to(tl.int64)])",
        "tl.make_tensor_descriptor(x.to(tl.pointer_type(tl.int8)), (n,), (1,), (16,)).atomic_add([0], 1)",
        "tl.make_tensor_descriptor(x.to(tl.pointer_type(tl.float16)), (n,), (1,), (16,)).atomic_min([0], 1)",
        "ROW.atomic_and([0], 1)",
        "ROW.gather(i, 0)",
        "tl.make_tensor_descriptor(x, (n, n), (n, 1), (2, 16)).gather(i, 0)",
        "ROWS.gather(w.to(tl.int32), 0)",
        "ROWS.gather(i.to(tl.int64), 0)",
        "ROWS.gather(tl.arange(0, 4), 0)",
        "tl.make_tensor_descriptor(x, (n, n), (n, 1), (1, 4)).gather(i, 0)",
    ],
    "dot": [
        "tl.dot(g, v)",
        "tl.dot(p, p)",
        "tl.dot(a, w)",
        "tl.dot(a, a.reshape(1, 16, 32))",
        "tl.dot(a.reshape(2, 1, 16, 16), a.reshape(1, 2, 16, 16))",
        "tl.dot(i.reshape(8, 8), i.reshape(8, 8))",
        "tl.dot(g, g, out_dtype=tl.int32)",
        "tl.dot(w, g.to(tl.bfloat16))",
        "tl.dot(g, g, w.reshape(32, 8))",
        "tl.dot(EIGHTHS, EIGHTHS, max_num_imprecise_acc=16)",
        "tl.dot(w, w, input_precision='TF32')",
        "tl.dot_scaled(q, None, 'e4m4', q, None, 'e4m3')",
        "tl.dot_scaled(q, None, 'e4m3', q, None, 'e4m3', lhs_k_pack=False)",
        "tl.dot_scaled(q, None, 'e4m3', q, None, 'e4m3', rhs_k_pack=False)",
        "tl.dot_scaled(v, None, 'e4m3', q, None, 'e4m3')",
        "tl.dot_scaled(q, None, 'e4m3', a.to(tl.int8), None, 'e4m3')",
        "tl.dot_scaled(q, None, 'e4m3', q, None, 'e4m3', out_dtype=tl.float16)",
        "tl.dot_scaled(q, q.reshape(32, 8), 'e4m3', q, None, 'e4m3')",
        "tl.dot_scaled(q, SMALL, 'e4m3', q, None, 'e4m3')",
        "tl.dot_scaled(q, SMALL.to(tl.uint8), 'e4m3', q, q, 'e4m3')",
        "tl.dot_scaled(q, SMALL.to(tl.int8), 'e4m3', q, SMALL.to(tl.int16), 'e4m3')",
    ],
    "memory": [
        "tl.load(p, padding_option='zero')",
        "tl.load(p, mask=m, other=w)",
        "tl.store(p, v, cache_modifier='.cv')",
        "tl.store(x.to(tl.pointer_type(tl.float8e5)), 1)",
    ],
    "reductions_and_random": [
        "tl.sum(v, -2)",
        "tl.sum(w, (0, 1))",
        "tl.topk(v, 128)",
        "tl.histogram(i, 0)",
        "tl.map_elementwise(lambda: 1)",
        "tl.map_elementwise(lambda x: x, v, pack=3)",
        "tl.map_elementwise(lambda x: x, v, pack=128)",
        "tl.map_elementwise(lambda y, u: (y, u.to(tl.int32)), v, pack=2)",
        "tl.philox_impl(i, i, i, i, i, i)",
        "tl.philox(1.0, i, i, i, i)",
        "tl.philox(1, q, q, q, q)",
        "tl.uint_to_uniform_float(v)",
        "tl.uint_to_uniform_float(q)",
    ],
    "shapes": [
        "tl.full(4, 0.0, tl.float32)",
        "tl.full((4,), v, tl.float32)",
        "tl.full((4,), 1.5, tl.int32)",
        "tl.full((4,), -1, tl.uint8)",
        "tl.full((4,), 2**63, tl.int64)",
        "tl.full((4,), 2**64, tl.uint64)",
        "tl.full((4,), float('inf'), tl.int32)",
        "tl.zeros((2.0,), tl.float32)",
        "tl.zeros((0,), tl.float32)",
        "tl.arange(0, 2**21)",
        "tl.arange(2, 1)",
        "tl.arange(2**31, 2**32)",
        "tl.program_id(-1)",
        "tl.num_programs(3)",
        "v.reshape(())",
        "tl.expand_dims(v, (0, 0))",
        "tl.expand_dims(v, 2)",
        "tl.expand_dims(v, -3)",
        "tl.permute(w, 0)",
        "tl.permute(w, 0, 2)",
        "tl.cat(w, w, can_reorder=True)",
        "tl.cat(n, n)",
        "tl.cat(v, v, dim=1)",
        "tl.gather(w, i, 0)",
        "tl.gather(w, i.reshape(8, 8), 0)",
        "tl.gather(v, i, 1)",
        "tl.flip(p)",
        "tl.sort(p)",
        "tl.flip(v, 1)",
    ],}

ACCEPTED = {
    "arithmetic": [
        *("tl.math.fdiv(v, 2.0, True)", "tl.math.fdiv(v, 2.0, approx=True)", "tl.fdiv(i, 2.0)", "m.logical_and(p)"),
        *("m.logical_or(x)", "tl.maximum(f, 1)", "tl.minimum(2.5, i)", "tl.maximum(h.to(tl.int64), 1)"),
        *("tl.fma(v, f, 2)", "tl.clamp(u, 0, 7)", "tl.clamp(f, -1, v)"),
        *("tl.clamp(i.to(tl.int8), -128, 127)", "tl.abs(u)", "tl.umulhi(u, 3)"),
        *("tl.where(m, p, p)", "tl.where(i, 1, v)", "tl.where(m, e, e)"),
    ],
    "atomics": [
        *("tl.atomic_cas(h, f, f)", "tl.atomic_cas(x.to(tl.pointer_type(tl.int64)), 0, n)", "tl.atomic_load(z)"),
        *("tl.atomic_load(p, m, sem='relaxed')", "tl.atomic_store(p, v, m)", "tl.atomic_store(x, 1.0, sem='relaxed')"),
        *("tl.atomic_poll(x.to(tl.pointer_type(tl.int16)), 1)", "tl.atomic_poll(z, 1, sem='relaxed')"),
        *("tl.atomic_add(x.to(tl.pointer_type(tl.bfloat16)), 1)", "tl.atomic_or(p.to(tl.pointer_type(tl.int64)), i)"),
        *("tl.atomic_add(p, 1.0, n > 0)", "tl.atomic_min(z, n, scope='sys')", "tl.atomic_max(x, 1.0)"),
    ],
    "block_pointers": [
        "tl.make_block_ptr(b, (n,), (1,), (0,), (16,), (0,))",
        "tl.make_block_ptr(x, (n.to(tl.int64),), (n.to(tl.int8),), (n.to(tl.int16),), (16,), (0,))",
        "tl.make_block_ptr(x, (n, n), (1, n), (0, 0), (16, 8), (0, 1))",
        "tl.load(tl.make_block_ptr(x, (n, n), (1, n), (0, 0), (16, 8), (0, 1)), boundary_check=(1, 0))",
        "tl.load(BLOCK, boundary_check=(0,), padding_option='zero')",
        "tl.store(BLOCK, 1, boundary_check=(0,), cache_modifier='.cs')",
    ],
    "casts": [
        *("p.to(tl.int1)", "x.to(tl.uint64)", "v.to(tl.float8e5, fp_downcast_rounding='rtz')", "d.to(tl.int1)"),
        *("f.to(tl.uint8)", "v.to(tl.uint32, bitcast=True)", "d.to(tl.float16)", "m.to(tl.int8)", "u.to(tl.int16)"),
    ],
    "control_and_hints": [
        *("tl.assume(n > 0)", "tl.multiple_of(v + 1, 4)"),
        *("tl.multiple_of(w + 1, (4, 4))", "tl.max_constancy(i + 1, 8)"),
        *("tl.multiple_of(n + 1, 16)", "tl.max_contiguous(w + 1, (1, 4))", "tl.device_assert(v > 0, 'low', mask=m)"),
        *("tl.device_assert(n, 'zero')", "tl.cond(n > 0, lambda: (v, n), lambda: (v + 1, n))"),
        *("tl.fori_loop(0, n, lambda k, s: s + k, v)", "tl.while_loop(lambda s: s < n, lambda s: s + 1, n)"),
    ],
    "descriptors": [
        *("tl.make_tensor_descriptor(x, (n,), (1,), (4,)).load([n])", "ROW.store([n], v.reshape(4, 16).sum(0))"),
        "tl.make_tensor_descriptor(x, (n, n), (n, 1), (4, 16), padding_option='nan').load([n, 0])",
        *("ROW.atomic_add([0], tl.zeros((16,), tl.float32))", "ROWS.gather(tl.arange(0, 8), n)"),
        "tl.make_tensor_descriptor(z, (n,), (1,), (16,)).atomic_max([n], tl.arange(0, 16))",
        "tl.make_tensor_descriptor(x, (n, n), (n, 1), (1, 8), 'nan').gather(i.to(tl.int16), 0)",
        "ROWS.scatter(w.reshape(16, 16), tl.arange(0, 16), n)",
    ],
    "dot": [
        *("tl.dot(EIGHTHS, EIGHTHS, max_num_imprecise_acc=8)", "tl.dot(w, w, max_num_imprecise_acc=64)"),
        *("tl.dot(a.reshape(2, 1, 16, 16), a.reshape(2, 1, 16, 16))", "tl.dot(d.reshape(8, 8), d.reshape(8, 8))"),
        *("tl.dot(EIGHTHS, EIGHTHS.to(tl.float8e4nv))", "tl.dot(g.to(tl.bfloat16), g.to(tl.bfloat16))"),
        *("tl.dot_scaled(q, None, 'e4m3', q, None, 'e5m2')", "tl.dot_scaled(g, None, 'fp16', g, None, 'fp16')"),
        "tl.dot_scaled(q, SMALL.to(tl.uint8), 'e4m3', q.reshape(8, 32), None, 'e2m1', tl.zeros((16, 32), tl.float32))",
        "tl.dot_scaled(TALL.T, None, 'e2m1', TALL, None, 'e2m1', lhs_k_pack=False, rhs_k_pack=False)",
    ],
    "memory": [
        *("tl.load(p, cache_modifier='.cv')",),
        *("tl.store(p, v, eviction_policy='evict_last')", "tl.load(x + n, n > 0, 1)"),
        *("tl.load(p, eviction_policy='evict_normal')", "tl.store(x.to(tl.pointer_type(tl.float8e5)), 1.0)"),
    ],
    "reductions_and_random": [
        *("tl.map_elementwise(lambda y: y + 1, v)", "tl.map_elementwise(lambda y: y + 1, n)"),
        *("tl.map_elementwise(lambda y, z: (z, y), v, pack=2)", "tl.map_elementwise(lambda y, z: (y, z > y), v, n)"),
        *("tl.topk(tl.arange(0, 4), 4)", "tl.histogram(u, 2)"),
        *("tl.uint_to_uniform_float(i)", "tl.histogram(i, 8, mask=m)"),
        *("tl.uint_to_uniform_float(u.to(tl.uint64))",),
        *("tl.philox(1, i, i, i, i, 1)", "tl.philox_impl(u, u, u, u, u, u, 1)"),
    ],
    "shapes": [
        *("tl.full((4,), 2**63 - 1, tl.int64)",),
        *("tl.full((4,), -(2**63), tl.int64)", "tl.full((), 2**64 - 1, tl.uint64)"),
        *("tl.full((4,), 0.0, tl.uint8)", "tl.full((4,), 300, tl.uint8)", "tl.full((2,), -1, tl.int1)"),
        *("tl.full((4,), 4096, tl.pointer_type(tl.float32))", "tl.full((), 0, tl.pointer_type(tl.float32))"),
        *("tl.full((), n, tl.float32)", "tl.arange(0, 2**20)", "tl.arange(8, 16)", "tl.program_id(2)"),
        *("tl.expand_dims(v, (0, 2))", "tl.expand_dims(v, -2)", "tl.expand_dims(n, (0, 1))", "tl.reshape(n, (1, 1))"),
        *("tl.join(n, n)", "tl.join(v, n.to(tl.float32))"),
        *("tl.split(tl.join(n, n))", "tl.full((1, 1), 1, tl.int32).item()"),
        *("tl.broadcast_to(n, (1, 4))", "tl.permute(w, 0, 1)"),
        *("tl.cat(w, w, dim=1)", "tl.gather(w, w.to(tl.int32), -1)"),
        *("tl.flip(w, 0)", "v.reshape(64)", "tl.broadcast_to(n, ())"),
    ],
}

CHECKED = ["n + n", "i - 1", "u * u", "i.to(tl.int8) * i.to(tl.int8)", "n.to(tl.int64) + 1", "v + v", "i // 2", "-i"]
"""Integer arithmetic, some of which says when it does not fit."""


def spelt_out(expression: str) -> str:
    for name, text in SHORT.items():
        expression = expression.replace(name, text)
    return expression


def ops(expression: str, **options: object) -> str:
    names = [name for name in NAMES if name in words(expression)]
    function = eval(f"lambda {', '.join(names)}: {expression}", {"tl": tl})
    return f"// {expression}\n{body_text(function, [NAMES[name] for name in names], **options)}"


@pytest.mark.quick
@pytest.mark.parametrize("topic", REFUSED)
def test_messages(topic: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for expression in REFUSED[topic]:
        lines.append(f"{expression}\n    {complaint(spelt_out(expression)).diagnostic.headline}\n")
    golden("\n".join(lines), f"language/refused/{topic}.txt")


@pytest.mark.parametrize("topic", ACCEPTED)
@pytest.mark.filterwarnings("ignore:tl.where")
def test_what_is_next_to_it(topic: str, golden: Callable[[str, str], None]) -> None:
    golden("\n".join(ops(spelt_out(text), debug=True) for text in ACCEPTED[topic]), f"language/accepted/{topic}.ttir")


def test_arithmetic_that_says_when_it_does_not_fit(golden: Callable[[str, str], None]) -> None:
    assert "tt.assert" not in ops("n + n")
    golden("\n".join(ops(text, checks_overflow=True) for text in CHECKED), "language/accepted/overflow.ttir")


@pytest.mark.parametrize("name", ["popc", "clz", "brev", "mul24", "mulhi", "hadd", "rhadd"])
def test_functions_of_bits_may_wrap(name: str) -> None:
    function, kind = getattr(libdevice, name), tl.block_type(tl.int32, (16,))
    count = 1 if name in ("popc", "clz", "brev") else 2
    assert "tt.assert" not in body_text(lambda *tiles: function(*tiles), [kind] * count, checks_overflow=True)


@pytest.mark.parametrize(
    ("kind", "least"), [(tl.int8, 32), (tl.float16, 16), (tl.float32, 8), (tl.float64, 4)], ids=str
)
def test_products_of_gpus_have_a_least_depth(kind: tl.dtype, least: int) -> None:
    def product(depth: int, **options: object) -> str:
        left, right = tl.block_type(kind, (16, depth)), tl.block_type(kind, (depth, 16))
        return body_text(lambda a, b: tl.dot(a, b), [left, right], **options)

    assert product(least, capability=90) == product(least)
    assert product(least // 2)
    with pytest.raises(SemanticError, match=f"{least}"):
        product(least // 2, capability=90)
