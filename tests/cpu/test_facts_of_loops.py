"""The facts of an inner loop that the lowering of a nest leaves for the passes that choose the order of loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.backends.cpu.nest import inner
from tilewright.backends.cpu.nest.inner import InnerLoop
from tilewright.dialects.cpu import Read
from tilewright.dialects.tt_memory import Store
from tilewright.ir.attributes import UNIT, Keyword, Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.types import i64

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
    nest = SimpleNamespace(body=given["body"], outer=given["outer"], phases=phases)
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
        ({"programs": 2, "runs": "turn"}, {**ROW, "cpu.runs": Keyword("turn")}),
        ({"outer": (1,)}, ROW),
        ({"outer": (2,)}, TILE),
        ({"outer": ()}, ROW),
        ({"outer": (), "runs": "turn"}, {**TILE, "cpu.runs": Keyword("turn")}),
        ({"body": [READ, STORE]}, ROW),
        ({"body": [READ, STORE], "runs": "turn"}, {**ROW, "cpu.runs": Keyword("turn")}),
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
