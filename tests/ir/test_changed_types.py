"""Each op with one of its types changed: what the verifier says of it, or that it takes it.

    tt.join operand 1: element: operands must …; extent: …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from test_round_trip import SAMPLES

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.types import MemDescType, PointerType, TensorType, Type, VectorType, f32, i32, i64

Change = Callable[[Type], Type | None]


def other_element(type: Type) -> Type | None:
    """Elements, or scalars, of another type; pointers to another one."""
    if isinstance(type, (TensorType, VectorType)):
        element = other_element(type.element)
        rest = (type.encoding,) if isinstance(type, TensorType) else ()
        return None if element is None else (TensorType if rest else VectorType)(type.shape, element, *rest)
    if isinstance(type, PointerType):
        inner = other_element(type.pointee)
        return None if inner is None else PointerType(inner, type.space)
    if isinstance(type, MemDescType):
        return None
    return f32 if type is not f32 else i32


def other_extent(type: Type) -> Type | None:
    """Twice as long in the last dimension; scalars become tiles."""
    if isinstance(type, TensorType) and type.shape:
        return TensorType((*type.shape[:-1], 2 * type.shape[-1]), type.element, type.encoding)
    return TensorType((4,), type) if type in (i32, i64, f32) else None


CHANGES: dict[str, Change] = {"element": other_element, "extent": other_extent}


def said(op: Op) -> str:
    verify = op.definition.verify
    try:
        if verify is not None:
            verify(op)
    except VerificationError as error:
        return str(error).splitlines()[0].removeprefix(f"{op.name}: ")
    return "taken"


def with_operand(op: Op, index: int, type: Type) -> str:
    old: Value = op.operands[index]
    op.set_operand(index, Block([type]).args[0])
    try:
        return said(op)
    finally:
        op.set_operand(index, old)


def with_result(op: Op, index: int, type: Type) -> str:
    old = op.results[index].type
    op.results[index].type = type
    try:
        return said(op)
    finally:
        op.results[index].type = old


def lines(op: Op) -> Iterator[str]:
    for kind, values, changed in (("operand", op.operands, with_operand), ("result", op.results, with_result)):
        for index, value in enumerate(values):
            found = {name: change(value.type) for name, change in CHANGES.items()}
            answers = [f"{name}: {changed(op, index, type)}" for name, type in found.items() if type is not None]
            if answers:
                yield f"{op.name} {kind} {index}: {'; '.join(answers)}\n"


@pytest.mark.parametrize("sample", ["every_op", "every_gpu_op", "vectors"])
def test_changed_types(sample: str, golden: Callable[[str, str], None]) -> None:
    """The first op of each rule and number of operands."""
    seen: set[tuple[object, int]] = set()
    found = []
    for op in parse_module(SAMPLES[sample]).walk():
        key = op.definition.verify, len(op.operands)
        if key not in seen and op.definition.verify is not None:
            seen.add(key)
            found += lines(op)
    golden("".join(found), f"verification_errors/changed_types/{sample}.txt")
