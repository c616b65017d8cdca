"""The answers of types, layouts and constants to names alone, as tables.

    !tt.ptr<fp32>
      is_ptr True
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_layout_values import BLOCKED, LINEAR, SWIZZLED, TILE

from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import TensorMemoryLayout, TensorMemoryScalesLayout
from tilewright.semantics.buffers import buffer_type, tensor_buffer_type
from tilewright.semantics.constexpr import constexpr
from tilewright.semantics.layout_values import AutoLayout, CoalescedLayout
from tilewright.semantics.running_sums import running_type
from tilewright.semantics.tensor_descriptors import descriptor_type
from tilewright.semantics.tma_descriptors import tma_type
from tilewright.semantics.types import block_type, dtype, float16, float32, int8, pointer_type
from tilewright.support.diagnostics import SemanticError

PLAIN = gl.BlockedLayout([1, 4], [4, 8], [2, 1], [1, 0])
MMA = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
NAMES = [*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES, *dtype.OTHER_TYPES]
SUBJECTS: dict[str, list[Any]] = {
    "elements": [dtype(name) for name in NAMES],
    "types": [
        *(pointer_type(float32), pointer_type(float32, const=True), pointer_type(pointer_type(int8))),
        *(block_type(int8, (4, 8)), block_type(pointer_type(float16), (16,))),
        *(descriptor_type(block_type(int8, (4, 16))), TILE, running_type(TILE)),
        tma_type(block_type(float16, (64, 16)), SWIZZLED),
        buffer_type(float16, [64, 16], SWIZZLED, [2, 64, 16]),
        tensor_buffer_type(float32, [128, 64], TensorMemoryLayout([128, 64], 1), [2, 128, 64]),
    ],
    "layouts": [
        *(BLOCKED, LINEAR, PLAIN, MMA, AutoLayout(), CoalescedLayout()),
        *(gl.SliceLayout(1, PLAIN), gl.DotOperandLayout(0, MMA, 2), gl.DotOperandLayout(1, PLAIN, 0)),
        *(SWIZZLED, gl.SwizzledSharedLayout(8, 2, 4, [1, 0]), gl.NVMMASharedLayout(128, 8, 2, transposed=True)),
        gl.NVMMASharedLayout.get_default_for([64, 32], float16),
        gl.NVMMASharedLayout.get_default_for([8, 64], int8, transposed=True),
        gl.PaddedSharedLayout.with_identity_for([[32, 4]], [16, 16], [1, 0]),
        gl.SharedLinearLayout([[0, 1], [0, 2], [1, 0], [2, 0]], [[4, 0]], 32),
        *(TensorMemoryLayout([64, 32], 2), TensorMemoryLayout([128, 64], 1, [[1, 0]], True)),
        TensorMemoryScalesLayout(),
    ],
}


def answers(subject: Any) -> Iterator[str]:
    """Each attribute, and what each method without parameters gives; what does not hold is left out."""
    yield f"{subject}\n"
    for name in sorted(dir(type(subject))):
        if name.startswith("_") or name.isupper():
            continue
        try:
            value = getattr(subject, name)
            value = value() if callable(value) else value
        except (TypeError, AttributeError):
            continue
        except Exception as error:  # noqa: BLE001 - a refusal is an answer
            value = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if value is not False and value != () and value is not None:
            yield f"  {name} {value}\n"


@pytest.mark.quick
@pytest.mark.parametrize("kind", SUBJECTS)
def test_answers(kind: str, golden: Callable[[str, str], None]) -> None:
    golden("".join(line for subject in SUBJECTS[kind] for line in answers(subject)), f"language/answers_of_{kind}.txt")


def test_names_of_elements() -> None:
    assert all(map(dtype.is_dtype, NAMES))
    assert not any(map(dtype.is_dtype, ("float", "int33", "", "pointer")))


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")
BINARY += ("lt", "le", "eq", "ne", "gt", "ge")


@pytest.mark.parametrize("name", ["both", "left", "right"])
def test_constants_compute_as_numbers_do(name: str) -> None:
    sides: dict[str, Callable[[Any], Any]] = {"both": constexpr, "left": constexpr, "right": lambda number: number}
    left, right = sides[name], constexpr if name != "left" else lambda number: number
    for function in (getattr(operator, each) for each in BINARY):
        found = function(left(7), right(3))
        assert (found.value if isinstance(found, constexpr) else found) == function(7, 3), function


def test_constants_answer_as_numbers_do() -> None:
    three, row = constexpr(-3), constexpr((4, 5, 6))
    assert [int(three), float(three), operator.index(three), bool(three), hash(three)] == [-3, -3.0, -3, True, hash(-3)]
    assert [getattr(each, "value", each) for each in (-three, +three, ~three, abs(-3))] == [3, -3, 2, 3]
    assert [len(row), getattr(row[1], "value", row[1])] == [3, 5]
    assert [getattr(each, "value", each) for each in row] == [4, 5, 6]
    called = constexpr(max)(4, 9)
    assert getattr(called, "value", called) == 9


@pytest.mark.quick
@pytest.mark.parametrize(
    ("element", "shape", "layout", "said"),
    [
        (32, [64, 16], SWIZZLED, "'element_ty' to be a dtype but got 32"),
        (float16, [64, 0.5], SWIZZLED, "'shape' must be integers but got [64, 0.5]"),
        (float16, [64, 16], BLOCKED, "'layout' to be a SharedLayout but got"),
    ],
)
def test_types_of_buffers_say_what_they_are_made_of(element: Any, shape: Any, layout: Any, said: str) -> None:
    with pytest.raises(SemanticError, match=re.escape(said)):
        buffer_type(element, shape, layout, [64, 16])
