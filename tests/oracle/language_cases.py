"""One-line kernels that between them use every operation of the language, on operands of every type.

A case is a kernel body with parameters, and the type strings to try for each of these; `=3` is a constant.
`note(value)` takes down the type of a value (`tritons_language.py`).

    Case("a + b", {"a": SCALARS, "b": SCALARS})      361 kernels
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from language_programs import HEADER, PROGRAMS

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("fp16", "bf16", "fp32", "fp64")
FP8 = ("fp8e5", "fp8e4nv", "fp8e4b15", "fp8e4b8", "fp8e5b16")
NUMBERS = ("i1", *INTEGERS, *FLOATS, *FP8)
SCALARS = (*NUMBERS, "*fp32")
FEW = ("i1", "i8", "i32", "i64", "u8", "u64", "fp16", "bf16", "fp32", "fp64", "fp8e5", "*fp32")
MAIN = ("i1", "i32", "u64", "fp16", "fp32", "*fp32")
LIMITS = tuple(
    f"={number}"
    for number in (
        *(0, 1, -1, True, 127, 128, -128, -129, 255, 256, 2**15, -(2**15) - 1, 2**16, 2**31 - 1, 2**31, -(2**31)),
        *(-(2**31) - 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64),
        *(0.0, -0.0, 1.5, 1e-50, 1e300, "1e999"),
    )
)
"""Python numbers where the types end."""
TYPES = {
    **{f"{sign}{bits}": f"tl.{'u' * (sign == 'u')}int{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
    "i1": "tl.int1",
    "fp16": "tl.float16",
    "bf16": "tl.bfloat16",
    "fp32": "tl.float32",
    "fp64": "tl.float64",
    **{name: f"tl.float8{name[3:]}" for name in FP8},
    "*fp32": "tl.pointer_type(tl.float32)",
}
ARITHMETIC = ("a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a & b", "a | b", "a ^ b", "a << b", "a >> b")
COMPARISONS = ("a == b", "a != b", "a < b", "a <= b", "a > b", "a >= b")
MATH = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "cos",
    "sqrt",
    "sqrt_rn",
    "rsqrt",
    "erf",
    "floor",
    "ceil",
    "abs",
    "sigmoid",
)


class Case(NamedTuple):
    """A kernel and the types to try.

    Attributes:
        body: the lines of the kernel; one expression is noted.
        types: the type strings of each parameter.
        header: functions that the kernel calls.
        debug: compile as for debugging, where assertions and overflow checks count.
    """

    body: str
    types: Mapping[str, Sequence[str]]
    header: str = ""
    debug: bool = False

    @property
    def request(self) -> dict[str, object]:
        """The case as `tritons_language.py` wants it."""
        body = self.body if self.header == HEADER or "note(" in self.body else f"note({self.body})"
        signatures = [list(chosen) for chosen in product(*self.types.values())]
        request = {"header": self.header, "body": body, "parameters": list(self.types), "signatures": signatures}
        return request | {"debug": self.debug}


def operators() -> Iterator[Case]:
    """Operators on run-time operands, on Python numbers, and between tiles and scalars."""
    for expression in (*ARITHMETIC, "a < b", "a == b"):
        yield Case(expression, {"a": SCALARS, "b": SCALARS})
        yield Case(expression, {"a": SCALARS, "b": LIMITS})
        yield Case(expression, {"a": LIMITS, "b": FEW})
        wide = expression.replace("a", "tl.broadcast_to(a, [16])")
        yield Case(wide, {"a": MAIN, "b": MAIN})
    for expression in COMPARISONS:
        yield Case(expression, {"a": MAIN, "b": MAIN})
        yield Case(expression, {"a": MAIN, "b": ("=3", "=-1", "=0.5", "=True", "=None", "='x'")})
    for expression in ("-a", "+a", "~a", "not a", "a.logical_and(a)", "a.logical_or(1)", "a.T", "a[None]", "a[:]"):
        yield Case(expression, {"a": SCALARS})
    for expression in ("-w", "+w", "~w", "not w", "w.T", "w[None, :]", "w[:, None]", "w[0]", "w[0:4]", "w[:, :]"):
        yield Case(f"w = tl.broadcast_to(a, [16])\nnote({expression})", {"a": SCALARS})
    for expression in ("a and b", "a or b", "a if b else a", "1 if a else 2", "a is b", "a is None", "a in (1, 2)"):
        yield Case(expression, {"a": MAIN, "b": MAIN})


def functions() -> Iterator[Case]:
    """Functions of one and two operands."""
    for name in MATH:
        yield Case(f"tl.{name}(a)", {"a": (*SCALARS, "=2", "=0.5", "=-1", "=True")})
    for name in ("exp", "floor", "abs", "rsqrt", "sigmoid"):
        yield Case(f"a.{name}()", {"a": MAIN})
    for name in ("maximum", "minimum", "fdiv", "div_rn", "umulhi", "add", "sub", "mul", "cdiv"):
        yield Case(f"tl.{name}(a, b)", {"a": FEW, "b": FEW})
        yield Case(f"tl.{name}(a, b)", {"a": FEW, "b": ("=2", "=-1", "=0.5", "=300", "=True")})
        yield Case(f"tl.{name}(a, b)", {"a": ("=2", "=-1", "=0.5"), "b": FEW})
    for more in ("propagate_nan=tl.PropagateNan.ALL", "propagate_nan=tl.PropagateNan.NONE", "propagate_nan=1"):
        yield Case(f"tl.maximum(a, b, {more})", {"a": MAIN, "b": MAIN})
        yield Case(f"tl.clamp(a, b, a, {more})", {"a": MAIN, "b": MAIN})
    yield Case("tl.clamp(a, b, c)", {"a": FEW, "b": ("i32", "fp32", "=0", "=0.5"), "c": ("i32", "fp32", "=1", "=1.5")})
    yield Case("tl.fma(a, b, c)", {"a": FEW, "b": MAIN, "c": ("i32", "fp32", "fp16", "=1", "=1.5")})
    yield Case("tl.where(c, a, b)", {"c": ("i1", "i32", "fp32", "=True", "=0"), "a": FEW, "b": FEW})
    yield Case("tl.where(c, a, b)", {"c": ("i1", "=True"), "a": SCALARS, "b": LIMITS})
    for more in ("ieee_rounding=True", "approx=True"):
        yield Case(f"tl.fdiv(a, b, {more})", {"a": FEW, "b": MAIN})
    for more in ("True", "False"):
        yield Case(f"tl.add(a, b, sanitize_overflow={more})", {"a": MAIN, "b": MAIN})
    yield Case("min(a, b)", {"a": (*MAIN, "=2"), "b": (*MAIN, "=3", "=0.5")})
    yield Case("max(a, b)", {"a": (*MAIN, "=2"), "b": (*MAIN, "=3", "=0.5")})
    for name in ("abs", "len", "int", "float", "bool", "tl.to_tensor", "round"):
        yield Case(f"{name}(a)", {"a": (*FEW, "=2", "=-0.5", "=True", f"={2**33}", "=1e60", "='x'")})


def debugging() -> Iterator[Case]:
    """Checks while debugging: overflow, assertions."""
    integers = ("i1", *INTEGERS)
    for expression in (
        "a + b",
        "a - b",
        "a * b",
        "tl.add(a, b)",
        "tl.add(a, b, sanitize_overflow=False)",
        "tl.cdiv(a, b)",
    ):
        yield Case(expression, {"a": integers, "b": (*integers, "=3")}, debug=True)
    for expression in ("-a", "a + 1.5", "tl.sum(tl.broadcast_to(a, [8]), 0)", "tl.cumsum(tl.broadcast_to(a, [8]))"):
        yield Case(expression, {"a": integers}, debug=True)
    for statement in (
        *("tl.device_assert(a == a, 'x')", "tl.device_assert(a != a, 'x', mask=a == a)", "tl.device_assert(True)"),
        *("assert a == a, 'text'", "assert True", "tl.expect_zero(a, a == a)"),
    ):
        yield Case(f"{statement}\nnote(a)", {"a": MAIN}, debug=True)


def casts() -> Iterator[Case]:
    """Conversions and bit casts between all types."""
    for name, target in TYPES.items():
        yield Case(f"a.to({target})", {"a": (*SCALARS, "*i8")})
        yield Case(f"a.to({target}, bitcast=True)", {"a": (*SCALARS, "*i8")})
        yield Case(f"tl.cast(a, {target})", {"a": (*LIMITS, "i32")})
        yield Case(f"tl.full([16], a, {target})", {"a": (*LIMITS, *MAIN)})
        yield Case(f"tl.full([], a, {target})", {"a": ("=1", "=0.5", "i32")})
        yield Case(f"tl.zeros([4, 4], {target})", {"a": ("=1",)})
        yield Case("tl.zeros_like(a)", {"a": (name,)})
        for rounding in ("rtne", "rtz", "rtn"):
            yield Case(f"a.to({target}, fp_downcast_rounding='{rounding}')", {"a": ("i32", *FLOATS, "fp8e5")})
    yield Case("a.to(b)", {"a": ("i32",), "b": ("=3", "='fp16'", "=None")})
    yield Case("a.to('int8')", {"a": ("i32",)})
    yield Case("tl.cast(a, tl.float32, bitcast=b)", {"a": ("i32", "fp32"), "b": ("=True", "=False")})


def memory() -> Iterator[Case]:
    """Loads, stores, atomics and what their arguments may be."""
    pointers = tuple(f"*{name}" for name in NUMBERS)
    values = (*FEW, "=1", "=-1", "=300", "=0.5", "=True")
    yield Case("tl.load(p)", {"p": (*pointers, "i32", "*kfp32")})
    yield Case("tl.load(p + tl.arange(0, 16))", {"p": pointers})
    for mask in ("True", "None", "m", "m > 0", "tl.arange(0, 16) < 3", "m != 0, b", "None, b", "True, other=b", "m, 1"):
        yield Case(
            f"tl.load(p, {mask})", {"p": ("*i8", "*fp32", "*i1"), "m": ("i1", "i32"), "b": ("i8", "fp32", "*i8")}
        )
        yield Case(
            f"tl.load(p + tl.arange(0, 16), {mask})",
            {"p": ("*i8", "*fp32", "*i1"), "m": ("i1", "i32"), "b": ("=0", "=1.5", "=300", "fp32")},
        )
    yield Case("tl.store(p, v)\nnote(v)", {"p": (*pointers, "*kfp32", "fp32"), "v": values})
    yield Case(
        "tl.store(p + tl.arange(0, 16), v)\nnote(v)", {"p": pointers, "v": ("i32", "fp32", "=1", "=0.5", "=True")}
    )
    for text in ("tl.arange(0, 16)", "tl.arange(0, 16)[:, None]", "tl.full([1], 1, tl.int8)", "None", "'x'", "(1, 2)"):
        yield Case(f"tl.store(p, {text})\nnote(p)", {"p": ("*i32",)})
        yield Case(f"tl.store(p + tl.arange(0, 16), {text})\nnote(p)", {"p": ("*i32",)})
        yield Case(f"tl.store(p + tl.arange(0, 16), 1, {text} == 0)\nnote(p)", {"p": ("*i32",)})
    for hint in ("cache_modifier", "eviction_policy"):
        for value in ("", ".ca", ".cg", ".cs", ".cv", ".wb", ".wt", "evict_first", "evict_last", "evict_normal", "x"):
            yield Case(f"tl.load(p, {hint}={value!r})", {"p": ("*i32",)})
            yield Case(f"tl.store(p, 1, {hint}={value!r})\nnote(p)", {"p": ("*i32",)})
    yield Case("tl.load(p, volatile=True)", {"p": ("*i32",)})
    for name in ("add", "max", "min", "and", "or", "xor", "xchg", "cas", "load", "store", "poll"):
        yield from atomics(f"tl.atomic_{name}", {"cas": "p, v, v", "load": "p", "poll": "p, v"}.get(name, "p, v"))


def atomics(name: str, arguments: str) -> Iterator[Case]:
    """One atomic function."""
    pointers = tuple(f"*{kind}" for kind in (*NUMBERS, "kfp32"))
    several = arguments.replace("p", "p + tl.arange(0, 16)")
    yield Case(f"{name}({arguments})", {"p": pointers, "v": ("i1", "i32", "i64", "u32", "fp16", "fp32", "=1", "=0.5")})
    yield Case(f"{name}({several})", {"p": ("*i32", "*fp32", "*fp16", "*u64", "*i8"), "v": ("i32", "fp32", "=1")})
    for order in ("relaxed", "acquire", "release", "acq_rel", "seq_cst", ""):
        yield Case(f"{name}({arguments}, sem={order!r})", {"p": ("*i32",), "v": ("i32",)})
    for scope in ("gpu", "cta", "sys", "cluster", ""):
        yield Case(f"{name}({arguments}, scope={scope!r})", {"p": ("*i32",), "v": ("i32",)})
    for mask in ("True", "None", "m", "m > 0", "tl.arange(0, 16) < 3"):
        yield Case(f"{name}({arguments}, mask={mask})", {"p": ("*i32",), "v": ("i32",), "m": ("i1", "i32")})
        yield Case(f"{name}({several}, mask={mask})", {"p": ("*fp32",), "v": ("fp32",), "m": ("i1", "i32")})


def shapes() -> Iterator[Case]:
    """Functions that make tiles and change their shape."""
    tile = "w = tl.broadcast_to(a, [8, 4])\nv = tl.broadcast_to(a, [4, 8])\nu = tl.broadcast_to(a, [8])\n"
    for expression in SHAPES.strip().splitlines():
        yield Case(f"{tile}note({expression})", {"a": ("i32", "fp16", "*fp32", "i1", "fp8e5")})
    for expression in CREATION.strip().splitlines():
        yield Case(expression, {"a": ("=4", "i32", "=3", "=0.5", "=True", "=-4")})
    for expression in REDUCTIONS.strip().splitlines():
        yield Case(f"{tile}note({expression})", {"a": ("i1", *INTEGERS, *FLOATS, "fp8e5", "*fp32")}, header=COMBINE)


def programs() -> Iterator[Case]:
    """Statements of all kinds."""
    for text in PROGRAMS.strip().split("\n---\n"):
        yield Case(text, {"a": ("i32", "fp16", "=3")}, header=HEADER)
    keywords = "@triton.jit\ndef keywords(x, **more):\n    return x"
    yield Case("note(keywords(a, y=3))", {"a": ("i32",)}, header=keywords)


SHAPES = """
w + v
w + u
w + u[:, None]
w + w[:, :, None]
tl.broadcast(w, u)
tl.broadcast(w, a)
tl.broadcast(u, v)
tl.broadcast_to(u, [8, 8])
tl.broadcast_to(u, 8)
tl.broadcast_to(u, 4)
tl.broadcast_to(u[:, None], 8, 16)
tl.broadcast_to(u[:, None], (8, 16))
tl.broadcast_to(a, 8, 16)
tl.broadcast_to(w, 8, 3)
tl.expand_dims(u, 0)
tl.expand_dims(u, -1)
tl.expand_dims(u, (0, -1))
tl.expand_dims(u, (0, 0))
tl.expand_dims(u, 3)
tl.expand_dims(u, [0, 2])
tl.expand_dims(a, 0)
tl.reshape(w, 32)
tl.reshape(w, (32,))
tl.reshape(w, [4, 8])
tl.reshape(w, 4, 2, 4)
tl.reshape(w, 16)
tl.reshape(w, -1)
tl.reshape(w, 3, 8)
tl.reshape(a, 1)
tl.reshape(a, [1, 1])
tl.reshape(tl.reshape(a, 1), ())
tl.reshape(w, 32, can_reorder=True)
w.reshape(32)
w.reshape([32])
w.view(32)
tl.view(w, [4, 8])
tl.ravel(w)
tl.ravel(w, True)
w.ravel()
tl.trans(w)
tl.trans(w, 1, 0)
tl.trans(w, (1, 0))
tl.trans(w, 0)
tl.trans(w, 0, 0)
tl.trans(w, 0, 2)
tl.trans(u)
tl.trans(a)
tl.trans(w[None])
w.trans()
w.T
u.T
tl.permute(w, 1, 0)
tl.permute(w, (1, 0))
tl.permute(w, [1, 0])
tl.permute(w, 1)
tl.permute(w, -1, 0)
tl.permute(w)
tl.permute(w[None], 2, 0, 1)
tl.join(u, u)
tl.join(w, w)
tl.join(w, u)
tl.join(a, a)
tl.join(u, a)
tl.join(u, 1)
tl.split(w)
tl.split(tl.join(w, w))
tl.split(tl.join(a, a))
tl.split(u)
tl.split(a)
tl.interleave(u, u)
tl.interleave(w, w)
tl.interleave(a, a)
tl.interleave(w, u)
tl.cat(u, u, can_reorder=True)
tl.cat(w, w, can_reorder=True)
tl.cat(u, u)
tl.cat(w, w)
tl.cat(w, w, dim=1)
tl.cat(w, w, dim=-1)
tl.cat(w, w, dim=2)
tl.cat(w, v)
tl.cat(u, tl.broadcast_to(a, [4]))
tl.cat(a, a)
tl.squeeze(w[None], 0)
tl.squeeze(w, 0)
tl.squeeze(w, -1)
tl.unsqueeze(w, 0)
tl.unsqueeze(w, -1)
tl.unsqueeze(w, 5)
tl.flip(u)
tl.flip(w, 0)
tl.flip(w, 1)
tl.flip(w, -1)
tl.flip(w, 2)
tl.flip(a)
tl.gather(w, tl.full([8, 4], 0, tl.int32), 0)
tl.gather(w, tl.full([8, 2], 0, tl.int32), 1)
tl.gather(w, tl.full([8, 2], 0, tl.int32), 0)
tl.gather(w, tl.full([8, 4], 0, tl.int64), -1)
tl.gather(w, tl.full([8, 4], 0, tl.float32), 0)
tl.gather(w, tl.full([8], 0, tl.int32), 0)
tl.gather(w, tl.full([8, 4], 0, tl.uint8), 2)
tl.gather(a, a, 0)
w.gather(tl.full([8, 4], 0, tl.int32), axis=0)
w.shape
w.shape[0]
w.shape[-1]
w.numel
w.dtype
w.type
a.shape
a.numel
len(w.shape)
w.shape[0] * 2
w.T.shape
w.item()
u.item()
tl.reshape(a, 1).item()
tl.sort(u)
tl.sort(w)
tl.sort(w, 0)
tl.sort(w, 1, descending=True)
tl.sort(w, descending=1)
tl.topk(u, 2)
tl.topk(w, 2)
tl.topk(w, 2, 0)
tl.topk(w, 3)
tl.topk(u, 16)
tl.topk(u, 2, descending=False)
tl.bitonic_merge(u)
tl.bitonic_merge(w, 1, 1)
tl.swizzle2d(u, u, 8, 8, 2)
tl.swizzle2d(a, a, 8, 8, 2)
tl.histogram(u, 8)
tl.histogram(u, 7)
tl.histogram(w, 8)
tl.histogram(u, 8, mask=u == u)
tl.histogram(u, 8, u)
tl.histogram(a, 8)
tl.softmax(w)
tl.softmax(w, 1)
tl.softmax(w, 1, keep_dims=True)
tl.softmax(u, ieee_rounding=True)
tl.softmax(w, 2)
tl.dot(w, v)
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]))
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [16, 16]))
tl.dot(tl.broadcast_to(a, [2, 16, 32]), tl.broadcast_to(a, [2, 32, 16]))
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), out_dtype=tl.float16)
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), out_dtype=tl.bfloat16)
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), out_dtype=tl.int32)
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), tl.zeros([16, 16], tl.float32))
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), tl.zeros([16, 16], tl.int32))
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), tl.zeros([16, 32], tl.float32))
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), input_precision="ieee")
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), input_precision="bf16x3")
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), input_precision="no")
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), allow_tf32=False)
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), allow_tf32=True, input_precision="ieee")
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a, [32, 16]), max_num_imprecise_acc=16)
tl.dot(tl.broadcast_to(a, [16, 32]), tl.broadcast_to(a.to(tl.float16), [32, 16]))
tl.dot(u, u)
tl.dot(a, a)
tl.multiple_of(u, 8)
tl.multiple_of(u, [8])
tl.multiple_of(w, [8, 4])
tl.multiple_of(w, 8)
tl.multiple_of(u, a)
tl.multiple_of(u, 1.5)
tl.max_contiguous(u, 8)
tl.max_contiguous(w, [8, 4])
tl.max_contiguous(w, (8, 4))
tl.max_constancy(u, [8])
tl.max_constancy(a, 8)
tl.assume(a == a)
tl.assume(a)
tl.assume(u)
tl.assume(True)
tl.expect_zero(u, u == u)
tl.expect_zero(a, True)
tl.debug_barrier()
tl.device_print("x", a)
tl.device_print("x", u, a, 3)
tl.device_print("x: ", u, hex=True)
tl.device_print(a)
tl.device_print("x", "y")
tl.device_print("x", None)
print("x", u)
print(u)
print("x", "y")
tl.device_assert(a == a)
tl.device_assert(a, "text")
tl.device_assert(u == u, "text", mask=u == u)
tl.device_assert(True)
tl.static_assert(True)
tl.static_assert(False)
tl.static_assert(False, "text")
tl.static_assert(a)
tl.static_print(a, u, 3, "x")
tl.to_tensor(u)
"""
CREATION = """
tl.arange(0, a)
tl.arange(a, 8)
tl.arange(0, 16 * a)
tl.arange(a, 2 * a)
tl.arange(0, 1 << 21)
tl.arange(1 << 32, (1 << 32) + 4)
tl.arange(0)
tl.arange(8, end=16)
tl.full([a], 1, tl.int32)
tl.full((a, 4), 1, tl.int32)
tl.full(a, 1, tl.int32)
tl.full([4], a, tl.int32)
tl.full([4], a, None)
tl.full([4], 1.5, tl.int32)
tl.full([4], tl.full([1], 3, tl.int32), tl.int32)
tl.full([4], tl.full([2], 3, tl.int32), tl.int32)
tl.full([4, 4, 4], a, dtype=tl.uint8)
tl.zeros(a, tl.int32)
tl.zeros((a,), tl.int32)
tl.zeros([2048, 1024], tl.int32)
tl.zeros([], tl.int32)
tl.program_id(a)
tl.program_id(0)
tl.program_id(axis=2)
tl.num_programs(a)
tl.num_programs(1)
tl.cdiv(a, 3)
tl.cdiv(7, a)
tl.static_assert(a)
tl.static_assert(a == 4, "text")
tl.constexpr(a)
tl.to_tensor(a)
a ** 2
a @ a
a.value
a.dtype
a + "x"
tl.rand(a, 3)
tl.rand(a, tl.arange(0, 4))
tl.randn(a, tl.arange(0, 4))
tl.randint(a, tl.arange(0, 4))
tl.randint4x(a, tl.arange(0, 4))
tl.rand4x(a, tl.arange(0, 4), 7)
tl.randn4x(a, tl.arange(0, 4))
tl.rand(3, tl.arange(0, 4).to(tl.int64))
tl.rand(3, tl.arange(0, 4).to(tl.uint32))
tl.randint(3, tl.arange(0, 4).to(tl.int64))
tl.philox(a, tl.arange(0, 4), 0, 0, 0)
tl.philox_impl(tl.arange(0, 4).to(tl.uint32), 0, 0, 0, a, 0)
tl.uint_to_uniform_float(tl.arange(0, 4))
tl.uint_to_uniform_float(tl.arange(0, 4).to(tl.uint64))
tl.uint_to_uniform_float(tl.arange(0, 4).to(tl.int16))
tl.pair_uniform_to_normal(tl.zeros([4], tl.float32), tl.zeros([4], tl.float32))
tl.target_info.is_cuda
tl.range(a)
[a, a]
(a, a)
(a,) + (1, 2)
(a,) * 2
(a, 1)[0]
(a, 1)[-1]
(a, 1)[1:]
(a, 1)[a]
(a, 1)[5]
(a, 1) == (a, 1)
(a, (1, 2))[1][0]
len((a, 1))
f"{3}"
f"{a}"
isinstance(a, tl.constexpr)
isinstance(a, tl.tensor)
isinstance(a, (tl.tensor, tl.constexpr))
hasattr(a, "dtype")
getattr(a, "dtype")
getattr(a, "nothing", 3)
str(a)
type(a)
sum((a, a))
range(a)
min(a, 3, 5)
max((a, 3))
min(a)
abs(a)
"""
COMBINE = """
@triton.jit
def plus(a, b):
    return a + b

@triton.jit
def pair(a, i, b, j):
    return a + b, i * j

@triton.jit
def wrong(a, b):
    return a

@triton.jit
def plain(a):
    return a + 1

@triton.jit
def two(a, b):
    return a + b, a
"""
REDUCTIONS = """
tl.sum(w)
tl.sum(w, 0)
tl.sum(w, 1, keep_dims=True)
tl.sum(w, axis=None, keep_dims=True)
tl.sum(w, -1)
tl.sum(w, 2)
tl.sum(w, dtype=tl.float32)
tl.sum(w, 0, dtype=tl.int8)
tl.sum(a)
w.sum()
u.sum(0)
tl.max(w)
tl.max(w, 0)
tl.max(w, 1, keep_dims=True)
tl.max(w, 0, return_indices=True)
tl.max(w, 0, return_indices=True, return_indices_tie_break_left=False)
tl.max(w, return_indices=True)
tl.min(w, 1)
tl.min(w, 0, return_indices=True, keep_dims=True)
tl.argmax(w, 0)
tl.argmax(w, 0, tie_break_left=False)
tl.argmax(w, None)
tl.argmin(w, 1, keep_dims=True)
w.argmin(1)
tl.xor_sum(w, 0)
tl.xor_sum(w)
tl.reduce_or(w, 0)
tl.reduce_or(w, None)
tl.cumsum(w)
tl.cumsum(w, 1, reverse=True)
tl.cumsum(w, 1, dtype=tl.float32)
tl.cumsum(w, 2)
tl.cumprod(w, 0)
tl.cumprod(w, 0, dtype=tl.int64)
w.cumsum(0)
tl.reduce(w, 0, plus)
tl.reduce(w, 0, plus, keep_dims=True)
tl.reduce(w, None, plus)
tl.reduce((w, w), 0, pair)
tl.reduce((w, w), None, pair)
tl.reduce((w, v), 0, pair)
tl.reduce(w, 0, pair)
tl.reduce((w, w), 0, plus)
tl.reduce(w, 0, two)
tl.reduce(a, 0, plus)
tl.reduce(w, 3, plus)
tl.associative_scan(w, 0, plus)
tl.associative_scan(w, 1, plus, reverse=True)
tl.associative_scan((w, w), 0, pair)
tl.associative_scan(w, None, plus)
tl.associative_scan(w, 2, plus)
w.associative_scan(0, plus)
w.reduce(0, plus)
tl.map_elementwise(plain, w)
tl.map_elementwise(plus, w, w)
tl.map_elementwise(plus, w, 1)
tl.map_elementwise(two, w, w)
tl.map_elementwise(two, w, pack=2)
tl.map_elementwise(pair, w, w, pack=2)
tl.map_elementwise(plain, a)
"""
