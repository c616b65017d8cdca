"""Ops without a module around them, compiled to a function on arrays."""

import ctypes

import numpy as np
from llvm_native import load_all

from machine_levels import run_here
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.spelling import bits_of, element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Block, Op
from tilewright.ir.declare import OPS, OpDefinition
from tilewright.ir.types import FLOATS, i1, i8, i16, i32, i64

KNOWN = ("aarch64", "neoverse-n1", "neoverse-v1", "a64fx", "x86-64-v2", "x86-64-v3", "x86-64-v4")
LEVELS = run_here(*KNOWN)
"""Targets that this host runs, the poorest first."""
INTEGERS = [i1, i8, i16, i32, i64]
WIDE = [FLOATS[name] for name in ("f16", "bf16", "f32", "f64")]
FP8 = [type for name, type in FLOATS.items() if name.startswith("f8")]


def make_op(name, operand_types, result_type, **attributes):
    block = Block(operand_types)
    definition = OPS.get(name) or OpDefinition(name=name)
    marked = {key: Keyword(value) if key != "symbol" else value for key, value in attributes.items()}
    return Op(definition, block.args, [result_type], marked)


def _memory_type(element):
    return "i8" if element == "i1" else element


def module_for(op, target, lanes):
    """IR of `f(ptr out, ptr in0, …, i64 n)`: the op on `n` elements, a multiple of `lanes`."""
    w = LlvmWriter(target)
    write_function(w, "f", op, lanes)
    return w.render()


def write_function(w, name, op, lanes):
    """Add that function, under this name."""
    elements = [element_of(value.type) for value in op.operands]
    parameters = [("ptr", "%out"), *(("ptr", f"%p{i}") for i in range(len(elements))), ("i64", "%n")]
    with w.function(name, parameters), w.loop(0, "%n", lanes) as loop:
        operands = []
        for i, element in enumerate(elements):
            stored = _memory_type(element)
            value = w.load(vector(stored, lanes), w.offset(f"%p{i}", stored, loop.index), align=1)
            operands.append(w.convert("trunc", value, vector(stored, lanes), vector(element, lanes)))
        result = lower_elementwise(w, op, operands, lanes)
        element = element_of(op.results[0].type)
        stored = _memory_type(element)
        result = w.convert("zext", result, vector(element, lanes), vector(stored, lanes))
        w.store(vector(stored, lanes), result, w.offset("%out", stored, loop.index), align=1)


def run_op(op, target, lanes, *arrays):
    """The op on NumPy arrays, compiled for `target` and run here."""
    return run_ops([(op, arrays)], target, lanes)[0]


def run_ops(cases, target, lanes):
    """The results of ops on NumPy arrays, `(op, arrays)`: one module for all, which takes half of the time."""
    w = LlvmWriter(target)
    for number, (op, _) in enumerate(cases):
        write_function(w, f"f{number}", op, lanes)
    types = {f"f{i}": [*[ctypes.c_void_p] * (1 + len(arrays)), ctypes.c_int64] for i, (_, arrays) in enumerate(cases)}
    functions = load_all(w.render(), target, types).values()
    return [_called(f, op, lanes, arrays) for f, (op, arrays) in zip(functions, cases, strict=True)]


def _called(f, op, lanes, arrays):
    size = len(arrays[0])
    padded = -(-size // lanes) * lanes
    inputs = [np.concatenate([a, np.ones(padded - size, a.dtype)]) for a in arrays]
    out = np.zeros(padded, numpy_dtype(op.results[0].type))
    f(out.ctypes.data, *(a.ctypes.data for a in inputs), padded)
    return out[:size]


def samples(type, rng, count):
    """Values of a type: edges first, then bit patterns and ordinary numbers."""
    dtype = numpy_dtype(type)
    bits = bits_of(element_of(type))
    if bits == 1:
        return rng.integers(0, 2, count).astype(bool)
    raw = rng.integers(0, 256, count * bits // 8, dtype=np.uint8).view(dtype).copy()
    if type in INTEGERS:
        edges = np.array([0, 1, -1, 2, -2, 7, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))], dtype)
        small = rng.integers(-9, 10, count // 2).astype(dtype)
    else:
        edges = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan], np.float32).astype(dtype)
        with np.errstate(all="ignore"):
            small = (rng.standard_normal(count // 2) * 3).astype(np.float32).astype(dtype)
    raw[: len(edges)] = edges
    raw[-len(small) :] = small
    return raw
