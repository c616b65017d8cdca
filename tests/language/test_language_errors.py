"""The language's diagnostics for programs that make no sense: title and label of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_emitted_ops import NAMES, words
from tracing import trace

import tilewright.language as tl
from tilewright.support.diagnostics import Exit, SemanticError

MISTAKES = [
    "v + tl.zeros((32,), tl.float32)",
    "e + i",
    "p + p",
    "p + v",
    "p * 2",
    "x < p",
    "p - p",
    "i // v",
    "v & 1",
    "~v",
    "-x",
    "i / u",
    "u + -1",
    "i.to(tl.int8) + 1000",
    "v + 'one'",
    "v + 2**70",
    "v[0]",
    "v[None, 0:4]",
    "bool(v > 0)",
    "int(n)",
    "tl.program_id(3)",
    "tl.rand(0.5, i)",
    "tl.rand(0, i, 2**33)",
    "tl.rand(p, i)",
    "tl.arange(0, 3)",
    "tl.arange(0, n)",
    "tl.arange(4, 4)",
    "tl.zeros((3, 4), tl.float32)",
    "tl.zeros((n,), tl.float32)",
    "tl.full((4,), 0, 'float')",
    "tl.reshape(v, 32)",
    "tl.broadcast_to(v, (128,))",
    "tl.permute(w, 0, 0)",
    "tl.trans(v)",
    "tl.expand_dims(v, 5)",
    "tl.split(v)",
    "tl.join(v, f)",
    "tl.cat(v, f)",
    "tl.gather(v, v, 0)",
    "tl.load(v)",
    "tl.load(5)",
    "tl.load(p, other=0.0)",
    "tl.load(p, mask=i)",
    "tl.store(x, 1.0, mask=1)",
    "tl.load(x, mask=m)",
    "tl.load(p, boundary_check=(0,))",
    "tl.load(p, cache_modifier='.xx')",
    "tl.load(p, eviction_policy='soon')",
    "tl.store(x, v)",
    "tl.store(c, 1.0)",
    "tl.store(p, w)",
    "tl.load(tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,)), mask=m)",
    "tl.load(tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,)), boundary_check=(1,))",
    "tl.make_block_ptr(x, (n, n), (1,), (0,), (16,), (0,))",
    "tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (1,))",
    "tl.advance(p, (1,))",
    "tl.atomic_add(h.to(tl.pointer_type(tl.int8)), 1)",
    "tl.atomic_max(h, 1.0)",
    "tl.atomic_and(p, 1)",
    "tl.atomic_add(p, 1.0, sem='seq_cst')",
    "tl.dot(w, w.reshape(8, 32))",
    "tl.dot(w, g)",
    "tl.dot(v, v)",
    "tl.dot(g, g, out_dtype=tl.bfloat16)",
    "tl.dot(g, g, g, out_dtype=tl.float32)",
    "tl.dot(w, w, input_precision='fp8')",
    "tl.dot(w, w, input_precision='ieee', allow_tf32=True)",
    "tl.sum(v, 1)",
    "tl.sum(n)",
    "tl.reduce((v, w), 0, lambda a, b, c, d: (a, b))",
    "tl.reduce(v, 0, lambda a, b: a > b)",
    "tl.xor_sum(v)",
    "tl.sort(w, 0)",
    "tl.topk(v, 3)",
    "tl.histogram(v, 4)",
    "tl.exp(f)",
    "tl.sqrt_rn(d)",
    "tl.umulhi(i.to(tl.int8), i.to(tl.int8))",
    "tl.extra.libdevice.pow(f, f)",
    "v.to(tl.float16, fp_downcast_rounding='up')",
    "f.to(tl.float32, fp_downcast_rounding='rtz')",
    "v.to(tl.int64, bitcast=True)",
    "x.to(tl.int32)",
    "tl.static_assert(1 == 2, 'never')",
    "tl.static_assert(n == 2)",
    "tl.device_print(n)",
    "tl.inline_asm_elementwise('fns.b32 $0, $1, 0, 1;', '=r,r', [i], tl.int32, True, 1)",
    "list(tl.range(0, n))",
]

KINDS = NAMES | {"c": tl.pointer_type(tl.float32, const=True)}


def complaint(expression: str) -> SemanticError:
    names = [name for name in KINDS if name in words(expression)]
    function = eval(f"lambda {', '.join(names)}: {expression}", {"tl": tl})
    with pytest.raises(SemanticError) as caught:
        trace(function, [KINDS[name] for name in names])
    return caught.value


def test_messages(golden: Callable[[str, str], None]) -> None:
    pieces = []
    for expression in MISTAKES:
        diagnostic = complaint(expression).diagnostic
        help = diagnostic.fill(diagnostic.help)
        pieces.append(f"{expression}\n    {diagnostic.headline}\n" + (f"    help: {help}\n" if help else ""))
    golden("\n".join(pieces), "language/mistakes.txt")


def test_a_false_static_assertion_is_an_assertion() -> None:
    assert complaint("tl.static_assert(False, 'never')").diagnostic.exit is Exit.ASSERTION


def test_vendor_assembly_is_our_limit() -> None:
    assert complaint("tl.inline_asm_elementwise('', '', [i], tl.int32, True, 1)").diagnostic.exit is Exit.LIMIT


def test_outside_a_kernel() -> None:
    with pytest.raises(RuntimeError, match="only inside a kernel"):
        tl.arange(0, 4)
