"""Running passes: order, dumps, timings, and who broke the module."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import Pass, run_passes

TEXT = "tt.func @f(%a: i32) {\n  %x = arith.addi %a, %a : i32\n  tt.return\n}"


def erase_sum(module: Op) -> None:
    next(op for op in module.walk() if op.name == "arith.addi").erase()


def erase_return(module: Op) -> None:
    next(op for op in module.walk() if op.name == "tt.return").erase()


def test_passes_run_in_order_and_are_dumped_and_timed() -> None:
    seen: list[tuple[str, int]] = []
    timings: dict[str, float] = {}

    def dump(name: str, module: Op) -> None:
        seen.append((name, sum(1 for _ in module.walk())))

    passes = (Pass("nothing", lambda module: None), Pass("erase", erase_sum), Pass("nothing", lambda module: None))
    run_passes(parse_module(TEXT), passes, dump=dump, timings=timings)
    assert seen == [("nothing", 4), ("erase", 3), ("nothing", 3)]
    assert set(timings) == {"nothing", "erase"}
    assert all(seconds >= 0 for seconds in timings.values())


def test_the_guilty_pass_is_named() -> None:
    with pytest.raises(VerificationError, match="after pass break: ") as caught:
        run_passes(parse_module(TEXT), (Pass("fine", erase_sum), Pass("break", erase_return)))
    assert caught.value.stage == "break"


def test_verification_can_be_left_out() -> None:
    run_passes(parse_module(TEXT), (Pass("break", erase_return),), verify=False)
