"""Arguments → signature, row by row of the table in `specialize.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from tilewright.compiler.signature import run_time_arguments
from tilewright.language import core as tl
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.parameters import KernelParam, bind, kernel_params
from tilewright.runtime.specialize import argument_spec, specialize
from tilewright.semantics.constexpr import constexpr

pytestmark = pytest.mark.quick


class Pair(NamedTuple):
    left: Any
    right: Any


def plain(x): ...
def const(x: tl.const): ...
def constant(x: tl.constexpr): ...
def wide(x: i64): ...  # noqa: F821 - a type by its name
def real(x: fp64): ...  # noqa: F821 - a type by its name


def param(fn: Any = plain, **options: Any) -> KernelParam:
    return kernel_params(fn, **options)[0]


def aligned_array(dtype: Any) -> np.ndarray:
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 16
    return memory[start : start + 64].view(dtype)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("value", "kind", "key"),
    [
        (None, "constexpr", None),
        (True, "u1", None),
        (np.bool_(True), "u1", None),
        (1, "constexpr", (int, 1)),
        (0, "i32", "D"),
        (5, "i32", ""),
        (-32, "i32", "D"),
        (np.int32(5), "i32", ""),
        (2**31 - 1, "i32", ""),
        (2**31, "i64", "D"),
        (-(2**31) - 1, "i64", ""),
        (2**63 - 1, "i64", ""),
        (2**63, "u64", "D"),
        (2**64 - 1, "u64", ""),
        (0.5, "fp32", None),
        (np.float64(0.5), "fp32", None),
    ],
)
def test_numbers(value: Any, kind: str, key: Any) -> None:
    assert specialize(value, param())[:2] == (kind, key)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (np.float32, "*fp32"),
        (np.float16, "*fp16"),
        (np.float64, "*fp64"),
        (ml_dtypes.bfloat16, "*bf16"),
        (ml_dtypes.float8_e4m3fn, "*fp8e4nv"),
        (np.int8, "*i8"),
        (np.uint16, "*u16"),
        (np.bool_, "*i1"),
    ],
)
def test_arrays(dtype: Any, kind: str) -> None:
    array = aligned_array(dtype)
    assert specialize(array, param())[:2] == (kind, "D")
    assert specialize(array, param(const)).type == "*k" + kind[1:]
    assert specialize(aligned_array(np.uint8)[1:], param())[:2] == ("*u8", "")


def test_number_too_large_names_the_argument() -> None:
    with pytest.raises(ArgumentError, match=r"'x'.*18446744073709551616"):
        specialize(2**64, param())


@pytest.mark.parametrize(
    "value", [np.zeros(2, np.complex64), np.zeros(2, ">f4"), np.zeros(2, object), "text", object()]
)
def test_what_no_kernel_can_take(value: Any) -> None:
    with pytest.raises(ArgumentError, match="'x'"):
        specialize(value, param())


def test_do_not_specialize() -> None:
    assert specialize(1, param(do_not_specialize=["x"]))[:2] == ("i32", None)
    assert specialize(16, param(do_not_specialize=[0]))[:2] == ("i32", None)
    assert specialize(aligned_array(np.int8), param(do_not_specialize=["x"]))[:2] == ("*i8", None)


def test_do_not_specialize_on_alignment() -> None:
    no_alignment = param(do_not_specialize_on_alignment=["x"])
    assert specialize(16, no_alignment)[:2] == ("i32", "")
    assert specialize(1, no_alignment).type == "constexpr"


def test_annotations_decide() -> None:
    assert specialize(5, param(wide))[:2] == ("i64", "")
    assert specialize(1, param(real)) == ("fp64", None, 1.0)


ANNOTATIONS = [
    *((f"tl.int{bits}", f"i{bits}") for bits in (8, 16, 32, 64)),
    *((f"uint{bits}_t", f"u{bits}") for bits in (8, 16, 32, 64)),
    *((name, "u1") for name in ("bool", "int1", "uint1", "i1", "tl.int1")),
    *(("bfloat16", "bf16"), ("double", "fp64"), ("float", "fp32"), ("float16", "fp16"), ("tl.float64", "fp64")),
    *((f"float8{form}", f"fp8{form}") for form in ("e4b15", "e4b8", "e4nv", "e5", "e5b16")),
    *(("fp32", "fp32"), ("u1", "u1"), ("*fp16", "*fp16"), ("fp32*", "*fp32"), ("*float", "*fp32")),
    *(("int32_t*", "*i32"), ("const fp32*", "*kfp32"), ("const *i8", "*ki8"), ("*kfp32", "*kfp32")),
    *(("'fp32'", "fp32"), (" i64 ", "i64"), (tl.pointer_type(tl.int8), "*i8"), (float, "fp32"), (int, "i32")),
    *((tl.pointer_type(tl.float16, const=True), "*kfp16"), (tl.uint16, "u16")),
    *(("Any", ""), ("tl.constexpr", ""), ("const", ""), ("const x", ""), ("*Any", ""), ("*knobs", ""), (list, "")),
]


@pytest.mark.quick
@pytest.mark.parametrize(("annotation", "kind"), ANNOTATIONS)
def test_types_that_annotations_name(annotation: Any, kind: str) -> None:
    def kernel(x):
        pass

    kernel.__annotations__["x"] = annotation
    found = param(kernel)
    assert found.annotation_type == kind
    if not kind:
        assert found.annotation == (annotation if isinstance(annotation, str) else annotation.__name__)
    assert found.is_const == (kind.startswith("*k") or annotation in ("const", "const x", "*knobs"))
    assert found.is_constexpr == (annotation == "tl.constexpr")


def test_constants_are_told_apart_by_type() -> None:
    keys = {specialize(value, param(constant)).key for value in (1, 1.0, True, (1,), (1.0,), [1], "1", None, 0.0, -0.0)}
    assert len(keys) == 10


def test_constexpr_unwraps() -> None:
    assert specialize(constexpr(8), param(constant)) == specialize(8, param(constant))


def test_unhashable_constant() -> None:
    with pytest.raises(TypeError, match=r"'x'.*hashable.*dict"):
        specialize({}, param(constant))


def test_tuples_keep_class_and_parts() -> None:
    found = specialize(Pair(64, 1), param())
    spec = argument_spec("x", found)
    assert [leaf.type for leaf in spec.elements] == ["i32", "constexpr"]
    assert spec.elements[0].divisibility == 16
    assert spec.sequence is Pair
    assert found.key != specialize((64, 1), param()).key
    assert [leaf.name for leaf in run_time_arguments([spec])] == ["x.0"]


@pytest.mark.needs_torch
def test_torch_tensors() -> None:
    import torch

    assert specialize(torch.zeros(64), param()).type == "*fp32"
    assert specialize(torch.zeros(64, dtype=torch.bfloat16), param()).type == "*bf16"
    assert specialize(torch.zeros(64, dtype=torch.bool), param()).type == "*i1"
    with pytest.raises(ArgumentError, match="meta"):
        specialize(torch.zeros(64, device="meta"), param())
    with pytest.raises(ArgumentError, match="complex64"):
        specialize(torch.zeros(64, dtype=torch.complex64), param())


class Interface:
    """An array of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Dlpack:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrapper", [Interface, Dlpack])
def test_foreign_arrays(wrapper: Any) -> None:
    array = aligned_array(np.int32)
    found = specialize(wrapper(array), param())
    assert found.type == "*i32"
    assert found.value.address == array.ctypes.data


def test_read_only_is_seen() -> None:
    array = aligned_array(np.int32)
    assert specialize(array, param()).value.writable
    array.flags.writeable = False
    assert not specialize(array, param()).value.writable
    assert not specialize(Interface(array), param()).value.writable


def three(a, b, c=3): ...


def test_binding() -> None:
    params = kernel_params(three)
    assert bind("three", params, (1,), {"b": 2, "num_warps": 8}) == ([1, 2, 3], {"num_warps": 8})


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        ((), {"b": 1}, r"missing 1 required argument: 'a'"),
        ((), {}, r"missing 2 required arguments: 'a', 'b'"),
        ((1, 2, 3, 4), {}, r"takes 3 positional arguments but 4 were given"),
        ((1, 2), {"a": 1}, r"multiple values for argument 'a'"),
    ],
)
def test_bad_calls(args: tuple[Any, ...], keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bind("three", kernel_params(three), args, keywords)


def test_star_keywords_are_refused() -> None:
    def keywords(**kwargs): ...

    with pytest.raises(TypeError, match="one by one"):
        kernel_params(keywords)


def test_star_arguments_are_for_calls_from_kernels() -> None:
    def stars(a, *rest, b): ...

    assert [param.name for param in kernel_params(stars)] == ["a", "b"]
