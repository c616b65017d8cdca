"""The ops of single statements, compared with what Triton's own front end emits. Skipped where Triton is not installed.

Both sides go through our canonicalisation, so that constants and splats of constants look alike.
"""

from __future__ import annotations

import collections
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from tracing import trace

import optional_peers
import tilewright.language as tl
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.cse import cse
from tilewright.transforms.inline import symbol_dce

triton = optional_peers.module("triton")
ir = optional_peers.module("triton._C.libtriton").ir
pytestmark = [
    pytest.mark.needs_triton,
    pytest.mark.skipif(not triton.__version__.startswith("3.5"), reason="compares with Triton 3.5"),
]

PREFIX = """
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    m = i < n
    v = tl.load(x + i, mask=m, other=0.0)
    f = tl.load(h + i)
    z = o.to(tl.pointer_type(tl.int32))
"""
VALUES = """
tl.maximum(v, 0.0) * 2.0 / 3 | f / 3 + f * 2.0 | tl.maximum(f, 0.0) | -v | ~m | v * n | 3.0 - v | 1 << i | n / 3
tl.where(v > 0, v, 0.0) | tl.where(m, 1, 0) | i & m | v % 2.0 | (i * 2 // 3 % 4) / 5 | i.to(tl.uint32) + i
(v != v) & (v == 1) | (i < 3) | i.to(tl.int64) * n | i.to(tl.uint8) >> 2
v.to(tl.float8e5).to(tl.float32) | v.to(tl.float16, fp_downcast_rounding='rtz') | v.to(tl.bfloat16).to(tl.float16)
v.to(tl.int1) | f.to(tl.int32) | tl.softmax(v) | tl.sigmoid(v) | tl.rand(3, i) | tl.randn(n, i) | tl.randint4x(n, i)[3]
tl.rand(3, i.to(tl.int64)) | tl.cumsum(v, 0) | tl.cumprod(f, 0, reverse=True) | tl.math.fma(v, v, v)
tl.abs(v) + tl.abs(i) | tl.clamp(v, 0.0, 1.0) | tl.cdiv(i, 3) | tl.cdiv(3, i) | tl.minimum(i, 3) | tl.umulhi(i, 3)
tl.fdiv(v, 2.0) | tl.math.div_rn(v, v) | tl.sqrt_rn(v) | tl.exp2(v) + tl.log2(v) + tl.erf(v) + tl.floor(v) + tl.rsqrt(v)
tl.join(v, v).sum(1) | tl.interleave(v, v).reshape(2, 64).min(0) | tl.histogram(i, 64) | v[:, None].sum(1)
tl.ravel(v[:, None] + v[None, :]).reshape(64, 64).sum(1) | tl.reshape(tl.trans(tl.reshape(v, 8, 8)), 64)
tl.zeros((64,), tl.float16) | tl.full((64,), n, tl.float16) | tl.load(x + i.to(tl.uint32))
tl.swizzle2d(i, i, 8, 8, 2)[0]
tl.load(x + i, mask=m, eviction_policy='evict_last', cache_modifier='.cg') | tl.gather(v, i, 0) | tl.multiple_of(i, 8)
tl.split(tl.reshape(v, 32, 2))[0].sum(0) | tl.cat(v, v, can_reorder=True).reshape(2, 64).max(0)
tl.atomic_add(o + i, v, mask=m) | tl.atomic_max(o + i, v) | tl.atomic_min(o + i, v, mask=m, sem='relaxed')
"""
STATEMENTS = [
    *(f"tl.store(o + i, {value.strip()})" for line in VALUES.strip().splitlines() for value in line.split(" | ")),
    *(
        "tl.store(o, tl.sum(v, 0))",
        "tl.store(o, tl.max(f, 0))",
        "tl.store(o, tl.argmax(v, 0))",
        "tl.store(o, tl.sum(m))",
    ),
    *("tl.store(o, tl.argmin(f, 0, tie_break_left=False))", "tl.store(o, tl.max(v, 0, return_indices=True)[0])"),
    *("tl.atomic_cas(z, 0, 1)", "tl.atomic_xchg(z, 0)", "tl.device_print('hi', v, i)", "tl.assume(n > 0)"),
    "tl.store(o + i[:, None] * 64 + i[None, :], tl.dot(f[:, None] + f[None, :], f[:, None] + f[None, :]))",
    "tl.store(tl.advance(tl.make_block_ptr(x, (n,), (1,), (0,), (64,), (0,)), (n,)), v, boundary_check=(0,))",
]


def tilewright_ops(statement: str) -> collections.Counter[str]:
    names: dict[str, Any] = {"tl": tl}
    exec(f"def k(x, h, o, n):{PREFIX}    {statement}\n", names)
    types = [tl.pointer_type(tl.float32), tl.pointer_type(tl.float16), tl.pointer_type(tl.float32), tl.int32]
    return counted(trace(names["k"], types))


def triton_ops(statement: str, folder: Path) -> collections.Counter[str]:
    file = folder / "kernel.py"
    header = "import triton\nimport triton.language as tl\n@triton.jit\n"
    file.write_text(f"{header}def k(x, h, o, n):{PREFIX}    {statement}\n")
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = triton_ttir(module.k, {"x": "*fp32", "h": "*fp16", "o": "*fp32", "n": "i32"})
    text = re.sub(r"^#loc.*$", "", text, flags=re.M)
    text = re.sub(r' loc\("\w+"\(#loc\d*\)\)| loc\((callsite\([^()]*\)|#loc\d*)\)', "", text)
    return counted(parse_module(text))


def triton_ttir(kernel: Any, signature: dict[str, str]) -> str:
    """The module that Triton's front end makes of `kernel`, with calls inlined."""
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    backend = triton.compiler.compiler.make_backend(target)
    options = backend.parse_options({"sanitize_overflow": False})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = triton.compiler.ASTSource(kernel, signature)
    functions = backend.get_codegen_implementation(options)
    module = source.make_ir(target, options, functions, backend.get_module_map(), context)
    passes = ir.pass_manager(context)
    triton._C.libtriton.passes.common.add_inliner(passes)
    passes.run(module)
    return str(module)


def counted(module: Op) -> collections.Counter[str]:
    """The count of each kind of op, constants and reshapes to the same shape left out."""
    for _ in range(2):
        symbol_dce(module)
        canonicalize(module)
        cse(module)
    found = re.findall(r"\b(?:arith|math|tt|llvm)\.[\w.]+", print_op(module))
    counts = collections.Counter(name for name in found if name not in ("arith.constant", "tt.ptr"))
    minus = sum(is_minus(op) for op in module.walk())
    idle = sum(is_idle_reshape(op) for op in module.walk())
    left_out = collections.Counter({"arith.subf": minus, "tt.reshape": idle})
    return counts + collections.Counter({"arith.negf": minus}) - left_out


def is_idle_reshape(op: Op) -> bool:
    """Triton reshapes what is reduced as a whole to one dimension, even what has one; we do not."""
    return op.name == "tt.reshape" and op.operands[0].type is op.result.type


def is_minus(op: Op) -> bool:
    """0 - x on floats: how 3.5.1 writes -x, which later versions and we write as arith.negf to keep the zero's sign."""
    left = op.operands[0].op if op.name == "arith.subf" else None
    return left is not None and left.definition.constant and getattr(left.attributes["value"], "value", None) == 0


@pytest.mark.parametrize("statement", STATEMENTS)
def test_same_ops_as_triton(statement: str, tmp_path: Path) -> None:
    assert tilewright_ops(statement) == triton_ops(statement, tmp_path)
