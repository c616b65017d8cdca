"""The sanitizer's pass, text to text: what it puts around an access, for each check."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.backends.cpu.sanitize.code import Code
from tilewright.backends.cpu.sanitize.instrument import instrument
from tilewright.backends.cpu.sanitize.intervals import _interval
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import i32
from tilewright.ir.verifier import verify

Golden = Callable[[str, str], None]

LOAD = """module {
  tt.func public @load(%x: !tt.ptr<f32>, %n: i32) {
    %lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %end = tt.splat %n : i32 -> tensor<64xi32>
    %inside = arith.cmpi slt, %lanes, %end : tensor<64xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %places = tt.addptr %base, %lanes : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %places, %inside : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""
STORE = """module {
  tt.func public @store(%x: !tt.ptr<i32>, %n: i32) {
    tt.store %x, %n : !tt.ptr<i32>
    tt.return
  }
}
"""
SELECTED = """module {
  tt.func public @selected(%x: !tt.ptr<i32>, %y: !tt.ptr<i16>, %z: !tt.ptr<i32>, %c: i1, %n: i64) {
    %p = arith.select %c, %x, %z : !tt.ptr<i32>
    %v = tt.load %p : !tt.ptr<i32>
    %q = tt.int_to_ptr %n : i64 -> !tt.ptr<i32>
    %old = tt.atomic_rmw add, relaxed, gpu, %q, %v : (!tt.ptr<i32>, i32) -> i32
    tt.return
  }
}
"""


def instrumented(text: str, *checks: str) -> tuple[Op, dict[str, list[object]]]:
    module = parse_module(text)
    facts = json.loads(instrument(module, checks))
    verify(module)
    return module, facts


@pytest.mark.parametrize(("name", "text"), [("load", LOAD), ("store", STORE)])
@pytest.mark.parametrize("check", ["bounds", "races", "uninit"])
def test_what_is_put_around_an_access(name: str, text: str, check: str, golden: Golden) -> None:
    module, _ = instrumented(text, check)
    golden(print_op(module), f"sanitizer/{name}_{check}.ttir")


OFFSETS = {
    "a range": "",
    "from a scalar on": "%i = arith.addi %lanes, %s : tensor<64xi32>",
    "backwards": "%i = arith.subi %s, %lanes : tensor<64xi32>",
    "strided": "%i = arith.muli %lanes, %s : tensor<64xi32>",
    "a scalar times a range": "%i = arith.muli %s, %lanes : tensor<64xi32>",
    "a product of tiles": "%i = arith.muli %lanes, %lanes : tensor<64xi32>",
    "modulo a scalar": "%i = arith.remsi %lanes, %s : tensor<64xi32>",
    "modulo a constant": "%c = arith.constant dense<9> : tensor<64xi32>\n    %i = arith.remsi %s, %c : tensor<64xi32>",
    "modulo a tile": "%i = arith.remsi %s, %lanes : tensor<64xi32>",
    "unsigned": "%i = arith.remui %lanes, %s : tensor<64xi32>",
    "a constant": "%i = arith.constant dense<-3> : tensor<64xi32>",
    "a choice": "%i = arith.maxsi %lanes, %s : tensor<64xi32>",
    "a sum of what nothing is known of": "%j = arith.maxsi %lanes, %s : tensor<64xi32>\n"
    "    %i = arith.addi %lanes, %j : tensor<64xi32>",
}
NOT_TOLD = {"a product of tiles", "modulo a tile", "unsigned", "a choice", "a sum of what nothing is known of"}
SCALARS = [0, 3, -3, 5, 64, -64]


@pytest.mark.quick
@pytest.mark.parametrize("name", OFFSETS)
def test_the_ends_of_offsets(name: str) -> None:
    """They are the least and the largest one, or further out by what a remainder leaves; None where lanes must tell."""
    line = OFFSETS[name] or "%i = arith.addi %lanes, %zero : tensor<64xi32>"
    text = f"""module {{
  tt.func public @k(%n: i32, %out: !tt.ptr<i64>, %all: !tt.ptr<i32>) {{
    %lanes = tt.make_range {{end = 70 : i32, start = 6 : i32}} : tensor<64xi32>
    %zero = arith.constant dense<0> : tensor<64xi32>
    %s = tt.splat %n : i32 -> tensor<64xi32>
    {line}
    %to = tt.splat %all : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %at = tt.addptr %to, %r : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    tt.store %at, %i : tensor<64x!tt.ptr<i32>>
    tt.return
  }}
}}
"""
    for n in SCALARS if "modulo" not in name else SCALARS[1:]:
        module = parse_module(text)
        function = next(op for op in module.walk() if op.name == "tt.func")
        block = function.regions[0].block
        offsets = next(op for op in block if op.name == "tt.store").operands[1]
        code = Code(block)
        code.move_before(block.last)
        ends = _interval(code, offsets)
        assert (ends is None) == (name in NOT_TOLD)
        for number, end in enumerate(ends or ()):
            out = code.of(block.args[1])
            code.store(code.emit("tt.addptr", (out, code.number(number, i32)), out.type), end)
        found, tile = np.zeros(2, np.int64), np.zeros(64, np.int32)
        run_ir(module, {"n": n, "out": found, "all": tile})
        if "modulo" in name:
            divisor, least = (9, n) if "constant" in name else (abs(n), 6)
            assert ends is None or found.tolist() == [max(min(least, 0), 1 - divisor), divisor - 1]
            assert ends is None or found[0] <= tile.min() <= tile.max() <= found[1]
        else:
            assert ends is None or found.tolist() == [tile.min(), tile.max()]


def test_arguments_that_an_access_may_go_to() -> None:
    """A pointer of unknown origin may go to all of them."""
    _, facts = instrumented(SELECTED, "bounds")
    assert [(site[0], site[4]) for site in facts["sites"]] == [("load", [0, 2]), ("atomic", [0, 1, 2])]
    assert facts["sizes"] == [4, 2, 4, None, None]
    assert facts["stored"] == [0, 1, 2]
