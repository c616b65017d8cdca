"""Promises about arguments stand on the function."""

from __future__ import annotations

from typing import Any

import tilewright.language as tl
from tilewright.frontends import Parameter, evaluate_kernel, read_function
from tilewright.ir.printer import print_op


def promising(x: Any, n: Any) -> None:
    tl.multiple_of(n, 8)
    tl.store(x, n)


def test_multiple_of_an_argument() -> None:
    parameters = [Parameter("x", tl.pointer_type(tl.int32)), Parameter("n", tl.int32)]
    text = print_op(evaluate_kernel(read_function(promising), parameters, name="promising"))
    assert "%n: i32 {tt.divisibility = 8 : i32}" in text
