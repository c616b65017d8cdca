"""The sanitizer's pass, text to text: what it puts around an access, for each check."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.backends.cpu.sanitize.instrument import instrument
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
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


def test_arguments_that_an_access_may_go_to() -> None:
    """A pointer of unknown origin may go to all of them."""
    _, facts = instrumented(SELECTED, "bounds")
    assert [(site[0], site[4]) for site in facts["sites"]] == [("load", [0, 2]), ("atomic", [0, 1, 2])]
    assert facts["sizes"] == [4, 2, 4, None, None]
    assert facts["stored"] == [0, 1, 2]
