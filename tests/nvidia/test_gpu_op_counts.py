"""How many instructions each elementwise op of each type becomes on devices of three kinds, and each atomic operation.

The number behind them stands for the whole text.

That results are right is the business of `test_lowered_elementwise.py` and `test_lowered_memory.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import pytest
from element_ops import FP8, INTEGERS, WIDE, Case, case
from test_lowered_elementwise import PREDICATES

from code_counts import shown
from gpu_code import instructions
from tilewright.backends.nvidia.lower.lowerer import Target
from tilewright.backends.nvidia.lower.module import LowerOptions, lower_module
from tilewright.backends.nvidia.targets import find
from tilewright.ir.parser import parse_module
from tilewright.ir.types import Type, f16, f32, f64, i1, i16, i64

DEVICES = (75, 89, 100)
ARITHMETIC = ("addi", "subi", "muli", "andi", "shli", "shrsi", "minsi", "maxui")
ARITHMETIC += ("divsi", "remui", "ceildivsi", "floordivsi")
FLOATING = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf")
FUNCTIONS = ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "tanh", "sqrt", "rsqrt", "floor", "ceil", "absf")
NUMBERS = {"none": "0 : i32", "all": "65535 : i32"}
"""Words that MLIR's generic form writes as numbers."""
LAYOUT = "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"


def conversions() -> Iterator[Case]:
    for source in (*WIDE, *FP8):
        for target in (*WIDE, *FP8):
            if source is not target:
                narrows = source.bits > target.bits or {source.bits, target.bits} == {16}
                for words in ({"rounding": "rtne"}, {"rounding": "rtz"}) if narrows else ({},):
                    yield case("tt.fp_to_fp", [source], target, **words)
        for sign in "su":
            yield from (case(f"arith.fpto{sign}i", [source], target) for target in INTEGERS[1:] if source in WIDE)
            yield from (case(f"arith.{sign}itofp", [target], source) for target in INTEGERS if source in WIDE)
    for source in INTEGERS:
        for target in INTEGERS:
            names = ("trunci",) if source.bits > target.bits else ("extsi", "extui") if source is not target else ()
            yield from (case(f"arith.{name}", [source], target) for name in names)


OPS: dict[str, list[Case]] = {
    "integers": [
        *(case(f"arith.{name}", [type, type], type) for type in INTEGERS for name in ARITHMETIC),
        *(case("arith.cmpi", [t, t], i1, predicate=p) for t in (i1, i16, i64) for p in PREDICATES["i"][::3]),
        *(case(name, [type, type], type) for type in INTEGERS[1:] for name in ("tt.mulhiui",)),
        *(case("math.absi", [type], type) for type in INTEGERS[1:]),
        *(case(f"math.{name}", [type], type) for name in ("ctlz", "ctpop") for type in INTEGERS),
    ],
    "floats": [
        *(case(f"arith.{name}", [type, type], type) for type in WIDE for name in FLOATING),
        *(case("arith.cmpf", [t, t], i1, predicate=p) for t in WIDE for p in PREDICATES["f"][::4]),
        *(case("arith.negf", [type], type) for type in (*WIDE, *FP8)),
        *(case("arith.select", [i1, type, type], type) for type in (*WIDE, *FP8, *INTEGERS)),
        *(case("math.fma", [type] * 3, type) for type in WIDE),
        *(case("tt.clampf", [type] * 3, type, propagateNan=mode) for type in WIDE for mode in ("all", "none")),
    ],
    "functions": [
        *(case(f"math.{name}", [type], type) for type in (f16, f32, f64) for name in FUNCTIONS),
        *(case("tt.precise_divf", [f32, f32], f32), case("tt.precise_sqrt", [f32], f32)),
    ],
    "conversions": list(conversions()),
}


def text_of(each: Case) -> str:
    """A kernel with the op on a tile, four elements in each thread."""

    def tile(type: Type | str) -> str:
        return f"tensor<512x{type}, {LAYOUT}>"

    names = [f"%a{number}" for number in range(len(each.operands))]
    arguments = ", ".join(f"{name}: {type}" for name, type in zip(names, each.operands, strict=True))
    splats = (
        f"{name}t = tt.splat {name} : {type} -> {tile(type)}" for name, type in zip(names, each.operands, strict=True)
    )
    words = ", ".join(f"{key} = {NUMBERS.get(value, value)}" for key, value in each.keywords)
    taken = f"({', '.join(map(tile, each.operands))}) -> {tile(each.result)}"
    pointer = f"!tt.ptr<{each.result}>"
    return kernel(
        f"{arguments}, %out: {pointer}",
        f"""{" ".join(splats)}
        %r = "{each.name}"({", ".join(f"{name}t" for name in names)}) <{{{words}}}> : {taken}
        %i = tt.make_range {{start = 0 : i32, end = 512 : i32}} : {tile("i32")}
        %o = tt.splat %out : {pointer} -> {tile(pointer)}
        %p = tt.addptr %o, %i : {tile(pointer)}, {tile("i32")}
        tt.store %p, %r : {tile(pointer)}""",
    )


def kernel(arguments: str, body: str) -> str:
    facts = '"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32'
    return f"module attributes {{{facts}}} {{ tt.func public @f({arguments}) {{ {body} tt.return }} }}"


def body(lowered: str) -> bytes:
    """The functions, without what is said about the device."""
    return "\n".join(re.findall(r"^define.*?^}", lowered, re.MULTILINE | re.DOTALL)).encode()


def on_all(text: str) -> str:
    """The counts, once where devices agree."""
    found = {}
    for capability in DEVICES:
        options = LowerOptions(Target(capability, find(capability).ptx, 4))
        lowered = lower_module(parse_module(text), options).text
        found[capability] = f"{shown(instructions(lowered))}; {crc32(body(lowered)):08x}"
    if len(set(found.values())) == 1:
        return f" {found[DEVICES[0]]}\n"
    return "".join(f"\n  {capability}: {text}" for capability, text in found.items()) + "\n"


@pytest.mark.quick
@pytest.mark.parametrize("group", OPS)
def test_ops(group: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for each in OPS[group]:
        words = " ".join(value for _, value in each.keywords)
        types = ", ".join(map(str, each.operands))
        lines.append(f"{each.name} {words} {types} -> {each.result}:{on_all(text_of(each))}")
    golden("".join(lines), f"nvidia/counts/ops/{group}.txt")


def atomics(kinds: Sequence[tuple[str, str]]) -> Iterator[str]:
    for op, type in kinds:
        for how in ("acq_rel, gpu", "relaxed, sys", "release, cta"):
            for masked in (False, True):
                mask, mask_type = (", %m", ", i1") if masked else ("", "")
                where = "{allocation.offset = 0 : i32}"
                types = f"(!tt.ptr<{type}>, {type}{mask_type}) -> {type}"
                yield f"%r = tt.atomic_rmw {op}, {how}, %p, %x{mask} {where} : {types}|{type}"


WHOLE = ("and", "or", "xor", "add", "max", "min", "umax", "umin", "exch")
KINDS = [(op, type) for op in WHOLE for type in ("i32", "i64")]
KINDS += [("fadd", type) for type in ("f16", "bf16", "f32", "f64")] + [("exch", "f32")]


def test_atomics(golden: Callable[[str, str], None]) -> None:
    lines = []
    for case_text in atomics(KINDS):
        line, _, element = case_text.partition("|")
        body = f"{line} tt.store %p, %r : !tt.ptr<{element}>"
        name = line.removeprefix("%r = tt.atomic_rmw ").replace(" {allocation.offset = 0 : i32}", "")
        lines.append(f"{name}:{on_all(kernel(f'%p: !tt.ptr<{element}>, %x: {element}, %m: i1', body))}")
    golden("".join(lines), "nvidia/counts/ops/atomics.txt")
