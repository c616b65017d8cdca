"""No lowering needs anything from outside its object, on any target: no libm, no compiler runtime, and no abort."""

import re
import subprocess
import sys

import pytest
from llvm_native import undefined_symbols
from llvm_ops import FP8, INTEGERS, WIDE, make_op, module_for, write_function

from long_runs import LONG
from tilewright.backends.llvm.elementwise import LOWERINGS
from tilewright.backends.llvm.machine import compile_object, emit_assembly, host_target
from tilewright.backends.llvm.mathlib import DIRECTED, FUNCTIONS
from tilewright.backends.llvm.spelling import element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.types import PointerType, f32, f64, i1, i32, i64

CPUS = ("znver4", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "neoverse-v2", "neoverse-v1", "a64fx")
SHARES = [
    ("znver4", 0, 1),
    *(pytest.param(cpu, 0, 2, marks=pytest.mark.slow) for cpu in ("x86-64-v2", "aarch64")),
    *(pytest.param(cpu, 1, 2, marks=pytest.mark.slow) for cpu in ("x86-64-v3", "neoverse-v2")),
    *(pytest.param(cpu, share, 4, marks=pytest.mark.slow) for share, cpu in enumerate(("neoverse-v1", "a64fx"))),
    *(pytest.param(cpu, 0, 1, marks=LONG) for cpu in CPUS[1:]),
]
"""The ops that `make test` compiles: all ops for one CPU, half of them for each of two whose text is mostly one."""
INTEGER_PREDICATES = ["eq", "slt", "uge"]
FLOAT_PREDICATES = ["oeq", "ult", "uno"]
POINTER = PointerType(f32)


def same_type(name, types, arity, **attributes):
    return [make_op(name, [type] * arity, type, **attributes) for type in types]


def conversions(name, sources, targets, fits=None):
    pairs = [(a, b) for a in sources for b in targets if fits is None or fits(a.bits, b.bits)]
    return [make_op(name, [a], b) for a, b in pairs]


FLOATS_ALL = [*WIDE, *FP8]
ARITY = {"atan2": 2, "copysign": 2, "fmod": 2, "fma": 3, "pow": 2, "precise_divf": 2}
ARITY |= {name: {"fma": 3, "sqrt": 1}.get(name.split("_")[0], 2) for name in DIRECTED}
SMALLER, LARGER, EQUAL = int.__lt__, int.__gt__, int.__eq__

# ops whose operand and result types are not all one
MIXED = {
    "arith.bitcast": lambda n: conversions(n, [*INTEGERS, *WIDE], [*INTEGERS, *WIDE], EQUAL),
    "arith.cmpf": lambda n: [make_op(n, [t, t], i1, predicate=p) for t in FLOATS_ALL for p in FLOAT_PREDICATES],
    "arith.cmpi": lambda n: [make_op(n, [t, t], i1, predicate=p) for t in INTEGERS for p in INTEGER_PREDICATES],
    "arith.extf": lambda n: conversions(n, FLOATS_ALL, FLOATS_ALL, SMALLER),
    "arith.extsi": lambda n: conversions(n, INTEGERS, INTEGERS, SMALLER),
    "arith.extui": lambda n: conversions(n, INTEGERS, INTEGERS, SMALLER),
    "arith.fptosi": lambda n: conversions(n, [*WIDE, FP8[0]], INTEGERS),
    "arith.fptoui": lambda n: conversions(n, [*WIDE, FP8[0]], INTEGERS),
    "arith.index_cast": lambda n: conversions(n, [i32, i64], [i32, i64]),
    "arith.select": lambda n: [make_op(n, [i1, t, t], t) for t in [*INTEGERS, *FLOATS_ALL, POINTER]],
    "arith.sitofp": lambda n: conversions(n, INTEGERS, [*WIDE, FP8[0]]),
    "arith.truncf": lambda n: conversions(n, FLOATS_ALL, FLOATS_ALL, LARGER),
    "arith.trunci": lambda n: conversions(n, INTEGERS, INTEGERS, LARGER),
    "arith.uitofp": lambda n: conversions(n, INTEGERS, [*WIDE, FP8[0]]),
    "tt.bitcast": lambda n: conversions(n, [*INTEGERS, *WIDE], [*INTEGERS, *WIDE], EQUAL),
    "tt.clampf": lambda n: [make_op(n, [t] * 3, t, propagateNan=mode) for t in WIDE for mode in ("none", "all")],
    "tt.extern_elementwise": lambda n: [
        make_op(n, [t] * ARITY.get(function, 1), t, symbol=f"__tw_{function}")
        for function in FUNCTIONS
        for t in (WIDE[2:] if function in DIRECTED else WIDE)
    ],
    "tt.fp_to_fp": lambda n: [
        make_op(n, [a], b, rounding=mode) for a in FLOATS_ALL for b in FLOATS_ALL for mode in ("rtne", "rtz")
    ],
    "tt.int_to_ptr": lambda n: [make_op(n, [i64], POINTER)],
    "tt.ptr_to_int": lambda n: [make_op(n, [POINTER], i64)],
}


def ops_of(name):
    """One op per interesting type of each lowering."""
    if name in MIXED:
        return MIXED[name](name)
    dialect, short = name.split(".")
    if dialect == "math" or short.startswith("precise"):
        types = {"absi": INTEGERS[1:], "ctlz": INTEGERS, "ctpop": INTEGERS}.get(short, WIDE)
        return same_type(name, types, ARITY.get(short, 1))
    if short == "negf":
        return same_type(name, FLOATS_ALL, 1)
    return same_type(name, [*WIDE, FP8[0]] if short.endswith("f") else INTEGERS, 2)


def cases(target, names, share=0, shares=1):
    """A share of the ops of these lowerings, four of `shares` times four, as they are and as vectors: `(op, lanes)`."""
    for number, op in enumerate(op for name in names for op in ops_of(name)):
        if number // 4 % shares != share:
            continue
        widths = {value.type.bits for value in (*op.operands, *op.results)}
        yield from ((op, lanes) for lanes in {1, target.lanes(min(32, max(widths)))})


def missing_symbols(cpu, names=LOWERINGS, share=0, shares=1):
    """The undefined symbols of one object with the ops of every lowering; a third of the ops have another's text."""
    target = host_target(cpu)
    w = LlvmWriter(target)
    different = {module_for(op, target, lanes): (op, lanes) for op, lanes in cases(target, names, share, shares)}
    for number, (op, lanes) in enumerate(different.values()):
        write_function(w, f"f{number}", op, lanes)
    return undefined_symbols(compile_object(w.render(), target))


def culprits(cpu, names=LOWERINGS, share=0, shares=1):
    """The same with an object for each op, of which LLVM's last words name the one that it cannot compile."""
    target, missing = host_target(cpu), {}
    for op, lanes in cases(target, names, share, shares):
        case = f"{op.name} {op.operands[0].type} {op.results[0].type} {lanes}"
        sys.stderr.write(f"{case}\n")
        symbols = undefined_symbols(compile_object(module_for(op, target, lanes), target))
        if symbols:
            missing[case] = symbols
    return missing


def in_a_child(function, cpu, share, shares):
    """Call a function of this module in another process, because LLVM aborts where it cannot select an instruction."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_llvm_objects as t; "
    code += f"m = t.{function.__name__}({cpu!r}, t.LOWERINGS, {share}, {shares}); assert not m, m"
    here = __file__.rpartition("/")[0]
    return subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("cpu", "share", "shares"), SHARES)
def test_no_lowering_calls_a_library(cpu, share, shares):
    if in_a_child(missing_symbols, cpu, share, shares).returncode:
        said = in_a_child(culprits, cpu, share, shares).stderr
        pytest.fail(f"all in one object fail; one by one: {said[-2000:]}")


@pytest.mark.spared
def test_a_lowering_that_calls_a_library_is_found(monkeypatch):
    def sine_of_libm(w, op, operands, lanes):
        return w.intrinsic("llvm.sin", vector(element_of(op.results[0].type), lanes), *operands)

    names = ("math.cos", "math.sin")
    assert missing_symbols("x86-64-v3", names) == set()
    monkeypatch.setitem(LOWERINGS, "math.sin", sine_of_libm)
    assert missing_symbols("x86-64-v3", names) >= {"sinf", "sin"}
    assert {case.split()[0] for case in culprits("x86-64-v3", names)} == {"math.sin"}


def test_aarch64_uses_neon():
    target = host_target("neoverse-v2")
    for function in ("exp", "log", "sin", "tanh", "erf"):
        assembly = emit_assembly(module_for(make_op(f"math.{function}", [f32], f32), target, 4), target)
        lanes = "2d" if function == "sin" else "4s"
        assert re.search(rf"\bfmla\s+v\d+\.{lanes}", assembly), function
        assert set(re.findall(r"\bbl\s+(\w+)", assembly)) <= {"tw_sin_far"}


def test_x86_uses_its_registers():
    for cpu, register in (("x86-64-v2", "xmm"), ("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")):
        target = host_target(cpu)
        for type in (f32, f64):
            op = make_op("math.exp", [type], type)
            assembly = emit_assembly(module_for(op, target, target.lanes(type.bits)), target)
            assert register in assembly
            assert "call" not in assembly
