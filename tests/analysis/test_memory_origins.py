"""Origins of addresses: which accesses of a loop may meet, where pointers come from tables or are numbers."""

from __future__ import annotations

import pytest

from tilewright.analysis.memory_origins import Origin, address_origins, global_accesses, reads_what_is_written
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

FUNCTION = """
tt.func private @pointer(%number: i64) -> !tt.ptr<f32> {{
  %pointer = tt.int_to_ptr %number : i64 -> !tt.ptr<f32>
  tt.return %pointer : !tt.ptr<f32>
}}
tt.func @kernel(%table: !tt.ptr<i64>, %other: !tt.ptr<i64>, %chain: !tt.ptr<!tt.ptr<f32>>, %x: i64, %y: i64, %n: i32,
                %tensor: !tt.ptr<f32>, %tensor_2: !tt.ptr<f32>) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %four = arith.constant 4 : i64
  scf.for %i = %zero to %n step %one : i32 {{
{body}
    %value = tt.load %source : !tt.ptr<f32>
    tt.store %target, %value : !tt.ptr<f32>
  }}
  tt.return
}}
"""


def pointer(name: str, table: str) -> str:
    """Ops that give `%name`, a pointer at place `%i` of a table."""
    return f"""
    %at_{name} = tt.addptr {table}, %i : !tt.ptr<i64>, i32
    %number_{name} = tt.load %at_{name} : !tt.ptr<i64>
    %{name} = tt.int_to_ptr %number_{name} : i64 -> !tt.ptr<f32>"""


def of_number(name: str, number: str) -> str:
    return f"""
    %more_{name} = arith.addi {number}, %four : i64
    %{name} = tt.int_to_ptr %more_{name} : i64 -> !tt.ptr<f32>"""


def from_chain(name: str) -> str:
    return f"""
    %at_{name} = tt.addptr %chain, %i : !tt.ptr<!tt.ptr<f32>>, i32
    %{name} = tt.load %at_{name} : !tt.ptr<!tt.ptr<f32>>"""


def of_argument(name: str, tensor: str = "%tensor") -> str:
    return f"""
    %{name} = tt.addptr {tensor}, %i : !tt.ptr<f32>, i32"""


def returned(name: str, number: str) -> str:
    return f"""
    %{name} = tt.call @pointer({number}) : (i64) -> !tt.ptr<f32>"""


AS_A_DISTANCE = """
    %number = tt.load %table : !tt.ptr<i64>
    %number_of_base = tt.load %other : !tt.ptr<i64>
    %base = tt.int_to_ptr %number_of_base : i64 -> !tt.ptr<f32>
    %source = tt.addptr %base, %number : !tt.ptr<f32>, i64
    %target = tt.int_to_ptr %number : i64 -> !tt.ptr<f32>"""


def loop_of(body: str) -> Op:
    module = parse_module(FUNCTION.format(body=body))
    return next(iter(module.ops_of(For)))


@pytest.mark.parametrize(
    ("body", "meet"),
    [
        pytest.param(pointer("source", "%table") + pointer("target", "%table"), True, id="one table"),
        pytest.param(pointer("source", "%table") + pointer("target", "%other"), False, id="two tables"),
        pytest.param(from_chain("source") + from_chain("target"), True, id="one table of pointers"),
        pytest.param(from_chain("source") + pointer("target", "%table"), False, id="tables of both kinds"),
        pytest.param(of_number("source", "%x") + of_number("target", "%x"), True, id="one number"),
        pytest.param(of_number("source", "%x") + of_number("target", "%y"), False, id="two numbers"),
        pytest.param(of_argument("source") + pointer("target", "%table"), True, id="argument and table"),
        pytest.param(from_chain("source") + of_argument("target"), True, id="table of pointers and argument"),
        pytest.param(of_argument("source") + of_number("target", "%x"), False, id="argument and number"),
        pytest.param(of_argument("source") + of_argument("target", "%tensor_2"), False, id="two arguments"),
        pytest.param(of_argument("source") + returned("target", "%x"), True, id="argument and what a call returns"),
        pytest.param(returned("source", "%x") + returned("target", "%x"), True, id="two calls with one number"),
        pytest.param(AS_A_DISTANCE, False, id="a number of the table as a distance"),
    ],
)
def test_pointers_that_may_be_the_same(body: str, meet: bool) -> None:
    loop = loop_of(body)
    load = [op for op in loop.ops_of(Load) if op.pointer.name == "source"]
    assert (set(load) <= reads_what_is_written(loop)) is meet


def test_a_table_is_not_what_it_leads_to() -> None:
    loop = loop_of(pointer("source", "%table") + pointer("target", "%table"))
    (table, *_) = loop.parent.regions[0].block.args if loop.parent is not None else ()
    read = {access.op.pointer.name: access.origins for access in global_accesses(loop) if isinstance(access.op, Load)}
    assert read["at_source"] == {Origin(table)}
    assert read["source"] == {Origin(table, is_loaded=True)}
    assert not any(op.pointer.name == "at_target" for op in reads_what_is_written(loop) if isinstance(op, Load))


def test_what_a_loop_carries_is_followed() -> None:
    """A list whose places lead to the next ones has two origins: its first place, and all others."""
    module = parse_module("""
tt.func @kernel(%list: !tt.ptr<!tt.ptr<i64>>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %first = tt.load %list : !tt.ptr<!tt.ptr<i64>>
  %last = scf.for %i = %zero to %n step %one iter_args(%at = %first) -> (!tt.ptr<i64>) : i32 {
    %number = tt.load %at : !tt.ptr<i64>
    %next = tt.int_to_ptr %number : i64 -> !tt.ptr<i64>
    tt.store %next, %number : !tt.ptr<i64>
    scf.yield %next : !tt.ptr<i64>
  }
  tt.return
}
""")
    loop = next(iter(module.ops_of(For)))
    store = next(iter(loop.ops_of(Store)))
    (argument, _) = loop.parent.regions[0].block.args if loop.parent is not None else ()
    assert address_origins(loop)[store.pointer] == {Origin(argument, is_loaded=True)}
    assert len(reads_what_is_written(loop)) == 1
