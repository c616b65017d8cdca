"""An example of each function of the language; the API reference shows it with the result that it has.

An example is an expression, or statements before one behind the last semicolon, in a kernel where

    x = [1. 2. 3. 4.]    i = [0 1 2 3]    m = [[0. 1. 2. 3.] [4. 5. 6. 7.]]    p → [10. 11. 12. 13.]    q → [4 5 6 7]

`p` and `q` are addresses of arrays. What these hold afterwards is shown where an example has changed it.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
import tilewright.language as tl

INPUTS = (
    "In the examples `x` is `[1. 2. 3. 4.]`, `i` is `[0 1 2 3]`, `m` is `[[0. 1. 2. 3.] [4. 5. 6. 7.]]`, and `p` and "
    "`q` point at `[10. 11. 12. 13.]` and `[4 5 6 7]`. They were run when this page was made."
)
EXAMPLES = {
    "abs": "tl.abs(x - 3)",
    "add": "tl.add(x, 10)",
    "advance": "b = tl.make_block_ptr(p, (4,), (1,), (0,), (2,), (0,)); tl.load(tl.advance(b, (2,)))",
    "arange": "tl.arange(4, 8)",
    "argmax": "tl.argmax(m, axis=1)",
    "argmin": "tl.argmin(m, axis=0)",
    "associative_scan": "tl.associative_scan(x, 0, tl.maximum, reverse=True)",
    "assume": "tl.assume(tl.program_id(0) >= 0)",
    "atomic_add": "tl.atomic_add(p + i, x)",
    "atomic_and": "tl.atomic_and(q + i, 6)",
    "atomic_cas": "tl.atomic_cas(q, 4, 9)",
    "atomic_load": "tl.atomic_load(p + i)",
    "atomic_max": "tl.atomic_max(p + i, 12.0)",
    "atomic_min": "tl.atomic_min(p + i, 12.0)",
    "atomic_or": "tl.atomic_or(q + i, 1)",
    "atomic_poll": "tl.atomic_poll(q, 4)",
    "atomic_store": "tl.atomic_store(p + i, x)",
    "atomic_xchg": "tl.atomic_xchg(p + i, x)",
    "atomic_xor": "tl.atomic_xor(q + i, 1)",
    "bitonic_merge": "tl.bitonic_merge(tl.where(i < 2, x, 5 - x))",
    "broadcast": "tl.broadcast(i[:, None], i[None, :])[0]",
    "broadcast_to": "tl.broadcast_to(i[None, :], 2, 4)",
    "cast": "tl.cast(x * 1.5, tl.int32)",
    "cat": "tl.cat(i, i)",
    "cdiv": "tl.cdiv(i, 2)",
    "ceil": "tl.ceil(x / 2)",
    "clamp": "tl.clamp(x, 2.0, 3.0)",
    "cond": "tl.cond(tl.program_id(0) == 0, lambda: x, lambda: -x)",
    "cos": "tl.cos(x - 1)",
    "cumprod": "tl.cumprod(x)",
    "cumsum": "tl.cumsum(x)",
    "debug_barrier": "tl.debug_barrier()",
    "device_assert": 'tl.device_assert(x > 0, "positive")',
    "device_print": 'tl.device_print("x", x)',
    "div_rn": "tl.div_rn(x, tl.full((4,), 3.0, tl.float32))",
    "dot": "a = tl.broadcast_to(i[:, None], 4, 4).to(tl.float32); tl.dot(a, a)",
    "erf": "tl.erf(x)",
    "exp": "tl.exp(x)",
    "exp2": "tl.exp2(x)",
    "expand_dims": "tl.expand_dims(i, 0)",
    "expect_zero": "tl.expect_zero(tl.where(i < 2, x, 0.0), i >= 2)",
    "fdiv": "tl.fdiv(x, 4.0)",
    "flip": "tl.flip(x)",
    "floor": "tl.floor(x / 2)",
    "fma": "tl.fma(x, x, 1.0)",
    "fori_loop": "tl.fori_loop(0, 3, lambda k, total: total + k, 0)",
    "full": "tl.full((2, 2), 7, tl.int32)",
    "gather": "tl.gather(x, 3 - i, 0)",
    "histogram": "tl.histogram(i // 2, 4)",
    "interleave": "tl.interleave(i, i * 10)",
    "join": "tl.join(i, i * 10)",
    "load": "tl.load(p + i, mask=i < 3, other=0.0)",
    "load_tensor_descriptor": "d = tl.make_tensor_descriptor(p, [4], [1], [4]); tl.load_tensor_descriptor(d, [0])",
    "log": "tl.log(x)",
    "log2": "tl.log2(x)",
    "make_block_ptr": "tl.load(tl.make_block_ptr(p, (2, 2), (2, 1), (0, 0), (2, 2), (1, 0)))",
    "make_tensor_descriptor": "tl.make_tensor_descriptor(p, [4], [1], [4]).load([0])",
    "map_elementwise": "tl.map_elementwise(lambda a: a * 2, x)",
    "max": "tl.max(m, axis=1)",
    "max_constancy": "tl.max_constancy(i // 2, 2)",
    "max_contiguous": "tl.max_contiguous(i, 4)",
    "maximum": "tl.maximum(x, 2.5)",
    "min": "tl.min(x, 0, return_indices=True)",
    "minimum": "tl.minimum(x, 2.5)",
    "mul": "tl.mul(x, 10)",
    "multiple_of": "tl.multiple_of(i * 16, 16)",
    "num_programs": "tl.num_programs(0)",
    "pair_uniform_to_normal": "tl.pair_uniform_to_normal(x / 5, x / 5)[0]",
    "permute": "tl.permute(m, 1, 0)",
    "philox": "tl.philox(1, i, i, i, i)[0]",
    "philox_impl": "u = i.to(tl.uint32); tl.philox_impl(u, u, u, u, u, u)[0]",
    "program_id": "tl.program_id(0)",
    "rand": "tl.rand(7, i)",
    "rand4x": "tl.rand4x(7, i)[0]",
    "randint": "tl.randint(7, i)",
    "randint4x": "tl.randint4x(7, i)[0]",
    "randn": "tl.randn(7, i)",
    "randn4x": "tl.randn4x(7, i)[0]",
    "ravel": "tl.ravel(m)",
    "reduce": "tl.reduce(x, 0, tl.maximum)",
    "reduce_or": "tl.reduce_or(i, 0)",
    "reshape": "tl.reshape(m, 4, 2)",
    "rsqrt": "tl.rsqrt(x)",
    "scan": "tl.scan(lambda total, k: (total + k, total), 0, (1, 2, 3))",
    "sigmoid": "tl.sigmoid(x)",
    "sin": "tl.sin(x - 1)",
    "softmax": "tl.softmax(x)",
    "sort": "tl.sort(x, descending=True)",
    "split": "tl.split(tl.reshape(i, 2, 2))",
    "sqrt": "tl.sqrt(x)",
    "sqrt_rn": "tl.sqrt_rn(x)",
    "squeeze": "tl.squeeze(i[None, :], 0)",
    "static_assert": "tl.static_assert(x.shape[0] == 4)",
    "static_print": "tl.static_print(x.dtype)",
    "store": "tl.store(p + i, x, mask=i < 2)",
    "store_tensor_descriptor": "d = tl.make_tensor_descriptor(p, [4], [1], [4]); tl.store_tensor_descriptor(d, [0], x)",
    "str_to_ty": 'tl.str_to_ty("*fp32")',
    "sub": "tl.sub(x, 1)",
    "sum": "tl.sum(m, axis=0)",
    "swizzle2d": "tl.swizzle2d(0, 2, 4, 4, 2)",
    "to_tensor": "tl.to_tensor(3)",
    "topk": "tl.topk(x, 2)",
    "trans": "tl.trans(m)",
    "uint_to_uniform_float": "tl.uint_to_uniform_float(tl.randint(7, i))",
    "umulhi": "tl.umulhi(i << 30, i)",
    "unsqueeze": "tl.unsqueeze(i, 1)",
    "view": "tl.view(m, 4, 2)",
    "where": "tl.where(i < 2, x, -x)",
    "while_loop": "tl.while_loop(lambda k: k < 100, lambda k: k * 2, 3)",
    "xor_sum": "tl.xor_sum(i, 0)",
    "zeros": "tl.zeros((2, 2), tl.float32)",
    "zeros_like": "tl.zeros_like(i)",
}
"""By name of the function."""
WITHOUT = {"inline_asm_elementwise", "dot_scaled"}
"""Functions that need PTX or packed formats."""


class Shown(NamedTuple):
    """An example with what it gave.

    Attributes:
        code: the statements.
        result: the text of the value, "" for none, and what was printed.
    """

    code: str
    result: str


def shown(name: str) -> Shown:
    """Run the example of a function, as Python."""
    *before, last = EXAMPLES[name].split("; ")
    found: list[Any] = []
    body = [*before, f"found.append({last})"]
    lines = [
        "@tw.jit(interpret=True)",
        "def example(p, q, m_ptr):",
        "    i = tl.arange(0, 4)",
        "    x = (i + 1).to(tl.float32)",
        "    m = tl.load(m_ptr + tl.arange(0, 2)[:, None] * 4 + i[None, :])",
        *(f"    {line}" for line in body),
    ]
    file = f"<example of {name}>"
    linecache.cache[file] = (0, None, [f"{line}\n" for line in lines], file)
    space = {"tw": tw, "tl": tl, "found": found}
    exec(compile("\n".join(lines), file, "exec"), space)
    floats, integers = np.arange(10, 14, dtype=np.float32), np.arange(4, 8, dtype=np.int32)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        space["example"][(1,)](floats, integers, np.arange(8, dtype=np.float32).reshape(2, 4))
    parts = [printed.getvalue().rstrip("\n"), _text(found[0])]
    if floats.tolist() != [10, 11, 12, 13]:
        parts.append(f"p → {floats}")
    if integers.tolist() != [4, 5, 6, 7]:
        parts.append(f"q → {integers}")
    return Shown("\n".join([*before, last]), "\n".join(part for part in parts if part))


def _text(value: Any) -> str:
    """A value without what stands for its type and shape."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    return re.sub(r"(?s)tensor\((.*), (?:<.*>|\w+)\)", lambda found: found[1], str(value))
