"""The facts of an inner loop that the lowering of a nest leaves for the passes that choose the order of loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.backends.cpu.loop_facts import InvariantBuilder
from tilewright.backends.cpu.nest import inner
from tilewright.backends.cpu.nest.inner import InnerLoop
from tilewright.dialects.cpu import Read
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Store
from tilewright.ir.attributes import UNIT, Keyword, Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.types import i64
from tilewright.ir.verifier import verify

(STORE,) = parse_module("""
module {
  tt.func @kernel(%p: tensor<64x!tt.ptr<f32>>, %v: tensor<64xf32>) {
    tt.store %p, %v : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
""").ops_of(Store)
READ = Read.__new__(Read)
"""Something that reads a buffer; only its class is looked at."""


def facts(monkeypatch: pytest.MonkeyPatch, *, moves: bool = False, **differences: Any) -> Any:
    """The facts of a loop by rows, of one program, that stores once for each of eight rows, but for `differences`."""
    given = {
        "by_rows": True, "optimize_size": False, "runs": "program", "programs": 1, "outer": (8,), "phase": 0,
        "sinks": [STORE], "body": [STORE], **differences,
    }  # fmt: skip
    monkeypatch.setattr(inner, "is_bound_by_memory", lambda nest, ops: moves)
    phases = dict.fromkeys(given["sinks"], given["phase"])
    body = SimpleNamespace(ops_of=lambda kind: [op for op in given["body"] if isinstance(op, kind)])
    nest = SimpleNamespace(body=body, outer=given["outer"], phases=phases)
    c = SimpleNamespace(optimize_size=given["optimize_size"], runs=given["runs"], programs=given["programs"])
    loop: Any = SimpleNamespace(c=c, nest=nest, by_rows=given["by_rows"], sinks=given["sinks"])
    return InnerLoop._facts(loop)


BYTES = Number(256, i64)
TILE = {"cpu.runs": Keyword("program"), "cpu.stored": BYTES, "cpu.tile": UNIT}
ROW = {"cpu.runs": Keyword("program"), "cpu.stored": BYTES}
OTHER_SINK = next(op for op in STORE.block or () if op is not STORE)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("differences", "wanted"),
    [
        ({}, TILE),
        ({"by_rows": False}, {}),
        ({"optimize_size": True}, {}),
        ({"runs": ""}, {}),
        ({"programs": 2}, ROW),
        ({"programs": 2, "runs": "iteration"}, {**ROW, "cpu.runs": Keyword("iteration")}),
        ({"outer": (1,)}, ROW),
        ({"outer": (2,)}, TILE),
        ({"outer": ()}, ROW),
        ({"outer": (), "runs": "iteration"}, {**TILE, "cpu.runs": Keyword("iteration")}),
        ({"body": [READ, STORE]}, ROW),
        ({"body": [READ, STORE], "runs": "iteration"}, {**ROW, "cpu.runs": Keyword("iteration")}),
        ({"phase": 1}, {**TILE, "cpu.phase": Number(1, i64)}),
        ({"phase": 2}, {**TILE, "cpu.phase": Number(2, i64)}),
        ({"sinks": [STORE, OTHER_SINK]}, {"cpu.runs": Keyword("program"), "cpu.tile": UNIT}),
        ({"moves": True}, {**TILE, "cpu.moves": UNIT}),
        ({"moves": True, "outer": (1,)}, {**ROW, "cpu.moves": UNIT}),
    ],
)
def test_facts(differences: dict[str, Any], wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts(monkeypatch, **differences) == wanted


def test_all_stores_of_a_loop_count(monkeypatch: pytest.MonkeyPatch) -> None:
    again: Op = STORE.clone()
    assert facts(monkeypatch, sinks=[STORE, again])["cpu.stored"] == Number(512, i64)


BEHIND = """
tt.func public @f(%n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %row = tt.get_program_id x : i32
  %start = arith.extsi %row : i32 to i64
  %late = arith.constant 5 : i64
  %other = arith.addi %n, %late : i64
  scf.for %i = %c0 to %n step %c1 : i64 {
    %inside = arith.addi %i, %i : i64
  }
  tt.return
}
"""


@pytest.mark.parametrize("operands", [("%n", "%late"), ("%start", "%late"), ("%late", "%late"), ("%n", "%c1")])
def test_what_is_built_in_front_of_a_loop_stands_behind_all_that_it_uses(operands: tuple[str, str]) -> None:
    """A constant in the middle of the block is used like any other op."""
    module = parse_module(BEHIND)
    (function,), (loop,) = module.ops_of(Func), module.ops_of(For)
    values = {f"%{value.name}": value for op in function.body for value in op.results} | {"%n": function.body.args[0]}
    builder = InvariantBuilder(function)
    builder.in_front_of(loop)
    made = builder.emit("arith.muli", [values[name] for name in operands], i64)
    verify(module)
    assert made.block is function.body
