"""The table of argument specialisation, row by row, as Triton's own code asks for it."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import BaseBackend
from tilewright.compat.core_shims import implicit_cvt
from tilewright.compat.gluon import NVMMASharedLayout
from tilewright.compat.gluon import TensorDescriptor as GluonDescriptor
from tilewright.compat.signatures import get_full_name, mangle_type, native_specialize_impl
from tilewright.compat.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.needs_torch
torch = optional_peers.module("torch")

Strides = namedtuple("Strides", ["x", "y"])


@tw.jit
def helper(x):
    return x


ROWS = [
    (None, ("constexpr", None)),
    (True, ("u1", None)),
    (1, ("constexpr", 1)),
    (0, ("i32", "D")),
    (16, ("i32", "D")),
    (17, ("i32", "")),
    (-(2**31), ("i32", "D")),
    (2**31, ("i64", "D")),
    (2**63 - 1, ("i64", "")),
    (2**63, ("u64", "D")),
    (2**64 - 1, ("u64", "")),
    (1.0, ("fp32", None)),
    (helper, ("constexpr", helper.cache_key)),
    ((1, 32), (("constexpr", "i32"), (1, "D"))),
    ((), ((), ())),
    (Strides(1, (True, 2)), (Strides("constexpr", ("u1", "i32")), Strides(1, (None, "")))),
]


@pytest.mark.parametrize(("value", "expected"), ROWS, ids=[str(row[0])[:20] for row in ROWS])
def test_numbers_and_tuples(value: Any, expected: Any) -> None:
    found = native_specialize_impl(BaseBackend, value, False, True, True)

    assert found == expected
    assert type(found[0]) is type(expected[0])


@pytest.mark.parametrize(("by_value", "align", "keys"), [(1, 1, (1, "D")), (1, 0, (1, "")), (0, 1, (None, None))])
def test_parameters_may_forbid(by_value: bool, align: bool, keys: Any) -> None:
    found = [native_specialize_impl(BaseBackend, value, False, by_value, align) for value in (1, 16)]

    assert tuple(key for _, key in found) == keys
    assert found[0][0] == ("constexpr" if by_value else "i32")


def test_tensors() -> None:
    assert native_specialize_impl(BaseBackend, torch.zeros(4), False, True, True) == ("*fp32", "D")
    assert native_specialize_impl(BaseBackend, torch.zeros(4)[1:], True, True, True) == ("*kfp32", "")
    assert native_specialize_impl(BaseBackend, tw.MockTensor(torch.bfloat16), False, True, True) == ("*bf16", "D")


def test_descriptors() -> None:
    tensor = torch.zeros(16, 64, dtype=torch.float16)
    layout = NVMMASharedLayout(128, 16)

    assert mangle_type(TensorDescriptor.from_tensor(tensor, [16, 64])) == "tensordesc<fp16[16, 64]>"
    found = mangle_type(GluonDescriptor.from_tensor(tensor, [16, 64], layout))
    assert found == f"tensordesc<fp16[16, 64],{layout!r}>"


def test_what_no_kernel_can_take_is_refused() -> None:
    with pytest.raises(tw.ArgumentError, match="a dict cannot be passed"):
        mangle_type({})


def test_what_the_interpreter_makes_of_arguments() -> None:
    flag, (number, array, text) = implicit_cvt((True, (2**40, torch.zeros(4), "text")))

    assert (flag.dtype, flag.handle.data.dtype, flag.handle.data.tolist()) == (tl.int1, bool, [True])
    assert (number.dtype, number.handle.data.tolist()) == (tl.int64, [2**40])
    assert array.dtype == tl.pointer_type(tl.float32)
    assert text == "text"


def test_number_one_is_a_number_unless_asked_otherwise() -> None:
    assert (mangle_type(1), mangle_type(1, specialize=True)) == ("i32", "constexpr")
    assert get_full_name(helper.fn) == f"{__name__}.helper"
