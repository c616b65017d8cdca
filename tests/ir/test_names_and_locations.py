"""Names of values, and `loc(…)`: chosen and placed as MLIR does."""

from __future__ import annotations

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.attributes import (
    UNKNOWN,
    CallLocation,
    FileLocation,
    FusedLocation,
    Location,
    NameLocation,
    Number,
    Symbol,
    span_of,
)
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.naming import Names, safe_name
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import Printer, print_op
from tilewright.ir.types import FunctionType, f32, i1, i32, index

HERE = FileLocation("k.py", 3, 4)


def function(block: Block) -> Op:
    types = FunctionType(tuple(arg.type for arg in block.args), ())
    return Op.create("tt.func", attributes={"sym_name": "f", "function_type": types}, regions=[Region([block])])


def test_taken_names_are_counted_once_for_the_whole_function() -> None:
    block = Block([i32])
    block.args[0].name = "x"
    builder = Builder(block)
    for name in ("x", "y", "x", "y", None):
        builder.emit("arith.addi", [block.args[0], block.args[0]], [i32])[0].name = name
    builder.emit("tt.return")
    text = print_op(function(block))
    assert [line.split()[0] for line in text.splitlines()[1:-2]] == ["%x_0", "%y", "%x_1", "%y_2", "%0"]


def test_constants_are_named_by_their_value() -> None:
    block = Block()
    builder = Builder(block)
    for value, type in ((3, i32), (-1, i32), (1, i1), (0, i1), (5, index), (1.5, f32), (2.5, f32)):
        builder.constant(value, type)
    text = print_op(function(block))
    names = [line.split()[0] for line in text.splitlines()[1:-1]]
    assert names == ["%c3_i32", "%c-1_i32", "%true", "%false", "%c5", "%cst", "%cst_0"]


def test_sibling_regions_use_the_same_names() -> None:
    text = """tt.func @f(%c: i1, %x: i32) {
  scf.if %c {
    %y = arith.addi %x, %x : i32
  } else {
    %y = arith.muli %x, %x : i32
  }
  %y = arith.subi %x, %x : i32
  tt.return
}
"""
    lines = print_op(parse_module(text)).splitlines()
    assert [line.split()[0] for line in lines if "arith" in line] == ["%y_0", "%y_0", "%y"]


def test_names_mlir_does_not_allow_are_changed() -> None:
    assert safe_name("x") == "x"
    assert safe_name("0x") == "_0x"
    assert safe_name("größe") == "grF6DFe"


def located(location: Location) -> str:
    block = Block()
    block.append(Op.create("tt.return", location=location))
    return print_op(function(block), locations=True)


def test_every_kind_of_location_survives() -> None:
    named = NameLocation("x", HERE)
    for location in (
        UNKNOWN,
        HERE,
        FileLocation("k.py", 3, 4, 3, 9),
        FileLocation("k.py", 3, 4, 5, 9),
        NameLocation("x", UNKNOWN),
        named,
        CallLocation(HERE, named),
        FusedLocation((HERE, named, CallLocation(named, HERE))),
    ):
        text = located(location)
        module = parse_module(text)
        ret = next(op for op in module.walk() if op.name == "tt.return")
        assert ret.location == location, text


def test_places_in_the_source_of_every_kind_of_location() -> None:
    named, there = NameLocation("x", HERE), FileLocation("k.py", 9, 1)
    for location in (HERE, named, FusedLocation((named, there)), CallLocation(HERE, there)):
        span = span_of(location)
        assert (span.file, span.line, span.column) == ("k.py", 3, 4)
    assert [(span.line, span.column) for span in span_of(CallLocation(named, CallLocation(there, HERE))).chain()] == [
        (3, 4), (9, 1), (3, 4),
    ]  # fmt: skip


def test_aliases_are_ordered_by_depth() -> None:
    assert located(CallLocation(NameLocation("x", HERE), HERE)).splitlines() == [
        "tt.func @f() {",
        "  tt.return loc(#loc3)",
        "} loc(#loc)",
        "#loc = loc(unknown)",
        '#loc1 = loc("k.py":3:4)',
        '#loc2 = loc("x"(#loc1))',
        "#loc3 = loc(callsite(#loc2 at #loc1))",
    ]


def test_locations_of_arguments_stand_in_place_and_before() -> None:
    block = Block([i32])
    block.args[0].name, block.args[0].location = "x", NameLocation("x", HERE)
    block.append(Op.create("tt.return", location=HERE))
    assert print_op(function(block), locations=True).splitlines()[:4] == [
        '#loc1 = loc("k.py":3:4)',
        '#loc2 = loc("x"(#loc1))',
        'tt.func @f(%x: i32 loc("x"(#loc1))) {',
        "  tt.return loc(#loc1)",
    ]


def test_names_come_from_locations_without_their_number() -> None:
    text = """module {
  tt.func @f(%x: i32) {
    %x_0 = arith.addi %x, %x : i32 loc(#loc1)
    tt.return
  }
}
#loc1 = loc("x"("k.py":3:4))
"""
    module = parse_module(text)
    added = next(op for op in module.walk() if op.results)
    assert added.result.name == "x"
    assert added.location == NameLocation("x", HERE)


def test_attribute_texts() -> None:
    text = Printer(Names()).attribute
    assert text('a"b\\\n') == '"a\\22b\\\\\\0A"'
    assert text(Symbol("a.b")) == "@a.b"
    assert text(Symbol("a b")) == '@"a b"'
    assert text((Number(1, i32), True, "x")) == '[1 : i32, true, "x"]'
    assert text({"b-c": Number(1.0, f32), "a": i32}) == '{a = i32, "b-c" = 1.000000e+00 : f32}'


def test_an_op_without_its_operands_is_printed_all_the_same() -> None:
    assert print_op(Op.create("tt.load", [], [f32])) == '%0 = "tt.load"() : () -> f32\n'
