"""How many instructions each op of each type becomes on processors of three kinds, before LLVM optimises them.

The number behind them stands for the whole text: constants of approximations, and what operands are.

That results are right is the business of `test_llvm_elementwise.py` and `test_llvm_math.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from zlib import crc32

import pytest
from llvm_ops import FP8, INTEGERS, WIDE, make_op, module_for
from test_llvm_elementwise import FLOAT_OPS, INTEGER_OPS
from test_llvm_math import ARITY

from tilewright.backends.llvm.lanes import LaneType
from tilewright.backends.llvm.machine import host_target
from tilewright.backends.llvm.mathlib import DIRECTED, FUNCTIONS
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Op
from tilewright.ir.types import Type, i1

CPUS = ("x86-64-v2", "x86-64-v3", "znver4")
LEFT_OUT = "ret|br|phi|store|load|getelementptr"
INSTRUCTION = re.compile(rf"^ +(?:%\S+ = )?(?!{LEFT_OUT})([a-z]+)\b(?:.*?@([\w.]+)\()?.*", re.MULTILINE)
TYPE = re.compile(r"<?\d* ?x? ?\b(i\d+|half|bfloat|float|double)\b>?")


def counts(text: str) -> str:
    """Instructions with the type that they work on; calls by what they call; and the text as a number."""
    found: Counter[str] = Counter()
    for match in INSTRUCTION.finditer(text):
        name, called = match.groups()
        type = TYPE.search(match[0])
        found[called or f"{name} {type[1] if type else ''}".strip()] += 1
    found.subtract({"add i64": 1, "icmp i64": 1})  # of the loop
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items()) if count) + f"; {crc32(body(text)):08x}"


def body(text: str) -> bytes:
    """The functions, without what is said about the processor."""
    return "\n".join(re.findall(r"^define.*?^}", text, re.MULTILINE | re.DOTALL)).encode()


def on_all(text_on: Callable[[str], str]) -> str:
    """The counts, once where processors agree."""
    found = {cpu: counts(text_on(cpu)) for cpu in CPUS}
    if len(set(found.values())) == 1:
        return f" {found[CPUS[0]]}\n"
    return "".join(f"\n  {cpu}: {text}" for cpu, text in found.items()) + "\n"


def conversions(sources: list[Type], targets: list[Type]) -> Iterator[Op]:
    for source, target in product(sources, targets):
        if source is target:
            continue
        if source in INTEGERS and target in INTEGERS:
            narrows = source.bits > target.bits
            for name in ("trunci",) if narrows else ("extsi", "extui"):
                yield make_op(f"arith.{name}", [source], target)
        elif source in INTEGERS or target in INTEGERS:
            for name in ("sitofp", "uitofp") if source in INTEGERS else ("fptosi", "fptoui"):
                yield make_op(f"arith.{name}", [source], target)
        else:
            narrows = source.bits > target.bits or {source.bits, target.bits} == {16}
            for rounding in ("rtne", "rtz") if narrows else ("",):
                yield make_op("tt.fp_to_fp", [source], target, **({"rounding": rounding} if rounding else {}))


OPS: dict[str, list[Op]] = {
    "integers": [make_op(f"arith.{name}", [type, type], type) for name in INTEGER_OPS for type in INTEGERS],
    "floats": [make_op(f"arith.{name}", [type, type], type) for name in FLOAT_OPS for type in [*WIDE, FP8[0]]],
    "others": [
        *(make_op("tt.mulhiui", [type, type], type) for type in INTEGERS[3:]),
        *(make_op("math.absi", [type], type) for type in INTEGERS[1:]),
        *(make_op(f"math.{name}", [type], type) for name in ("ctlz", "ctpop") for type in INTEGERS),
        *(make_op("math.fma", [type] * 3, type) for type in WIDE),
        *(make_op(name, [type], type) for name in ("arith.negf", "math.absf") for type in [*WIDE, *FP8]),
        *(make_op("arith.remf", [type, type], type) for type in WIDE[2:]),
        *(make_op("tt.precise_sqrt", [type], type) for type in WIDE[2:3]),
        *(make_op("tt.clampf", [type] * 3, type, propagateNan=mode) for type in WIDE for mode in ("all", "none")),
        *(make_op("arith.select", [i1, type, type], type) for type in (*INTEGERS, *WIDE)),
        *(make_op("arith.cmpf", [type, type], i1, predicate=name) for type in WIDE for name in ("oeq", "une", "ult")),
        *(make_op("arith.cmpi", [type, type], i1, predicate=name) for type in INTEGERS for name in ("eq", "slt")),
    ],
    "between_integers": [*conversions(INTEGERS, INTEGERS)],
    "integers_to_floats": [*conversions(INTEGERS, WIDE)],
    "floats_to_integers": [*conversions(WIDE, INTEGERS)],
    "between_floats": [*conversions(WIDE, WIDE)],
    "to_eighths": [*conversions(WIDE[:3], FP8)],
    "from_eighths": [*conversions(FP8, WIDE[:3])],
}


@pytest.mark.quick
@pytest.mark.parametrize("group", OPS)
def test_ops(group: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for op in OPS[group]:
        types = ", ".join(str(value.type) for value in op.operands)
        words = " ".join(str(getattr(value, "name", value)) for value in op.attributes.values())
        lines.append(f"{op.name} {words} {types} -> {op.results[0].type}:")
        lines.append(on_all(lambda cpu, op=op: module_for(op, host_target(cpu), 8)))
    golden("".join(lines), f"llvm/counts/{group}.txt")


def function_text(name: str, element: str, cpu: str) -> str:
    w = LlvmWriter(host_target(cpu))
    arity = {"fma": 3}.get(name.partition("_")[0], ARITY.get(name, 2 if name in DIRECTED and "sqrt" not in name else 1))
    k = LaneType(w, element, 8)
    with w.function("f", [(k.type, f"%x{number}") for number in range(arity)]):
        FUNCTIONS[name](*(k(f"%x{number}") for number in range(arity)))
    return w.render()


@pytest.mark.parametrize("element", ["float", "double"])
def test_functions(element: str, golden: Callable[[str, str], None]) -> None:
    lines = [f"{name}:{on_all(lambda cpu, name=name: function_text(name, element, cpu))}" for name in sorted(FUNCTIONS)]
    golden("".join(lines), f"llvm/counts/functions_of_{element}.txt")
