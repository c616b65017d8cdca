"""Each op with one of its types or attributes changed: what the verifier says of it, or that it takes it.

    tt.join operand 1: element: operands must …; extent: …
    tt.trans attribute order: more: …; fewer: …; next: …
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from test_round_trip import SAMPLES

from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.types import MemDescType, PointerType, TensorType, Type, VectorType, f32, i32, i64

PASSES = Path(__file__).parents[1] / "goldens" / "cpu" / "passes"
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
        inner = other_element(type.element)
        return inner and MemDescType(type.shape, inner, type.encoding, type.space, type.mutable, type.alloc_shape)
    return f32 if type is not f32 else i32


def other_extent(type: Type) -> Type | None:
    """Twice as long in the last dimension; scalars become tiles."""
    shape = getattr(type, "shape", ())
    if shape:
        return with_extents(type, (*shape[:-1], 2 * shape[-1]))
    return TensorType((4,), type) if type in (i32, i64, f32) else None


def first_extent(type: Type) -> Type | None:
    """Half as long in the first dimension."""
    shape = getattr(type, "shape", ())
    return with_extents(type, (max(1, shape[0] // 2), *shape[1:])) if shape else None


def one_more(type: Type) -> Type | None:
    """A further dimension in front."""
    shape = getattr(type, "shape", ())
    return with_extents(type, (1, *shape)) if shape else None


def with_extents(type: Type, shape: tuple[int, ...]) -> Type | None:
    if isinstance(type, TensorType) and not isinstance(type, VectorType):
        return TensorType(shape, type.element, type.encoding)
    if isinstance(type, MemDescType):
        return MemDescType(shape, type.element, type.encoding, type.space, type.mutable)
    return None


def elsewhere(type: Type) -> Type | None:
    """Buffers may be written where they may not, and the other way round; tiles have no layout."""
    if isinstance(type, MemDescType):
        return MemDescType(type.shape, type.element, type.encoding, type.space, not type.mutable, type.alloc_shape)
    return TensorType(type.shape, type.element) if isinstance(type, TensorType) and type.encoding else None


CHANGES: dict[str, Change] = {
    "element": other_element,
    "extent": other_extent,
    "first extent": first_extent,
    "one more": one_more,
    "elsewhere": elsewhere,
}
LAYOUT = re.compile(r"#[\w.]+<\{?[^<>{}]*\}?>")


def said(op: Op) -> str:
    """The words of the verifier, without those inside of layouts."""
    verify = op.definition.verify
    try:
        if verify is not None:
            verify(op)
    except VerificationError as error:
        text, before = str(error).splitlines()[0].removeprefix(f"{op.name}: "), ""
        while text != before:
            text, before = LAYOUT.sub("#", text), text
        return text
    return "taken"


def other_attributes(value: Attribute) -> Iterator[tuple[str, Attribute]]:
    """An attribute changed a little."""
    if isinstance(value, bool):
        yield "not", not value
    elif isinstance(value, Number):
        yield "next", Number(value.value + 1, value.type)
        yield "below zero", Number(-1 - value.value, value.type)
    elif isinstance(value, DenseArray) and value.values:
        first, *rest = value.values
        yield "more", DenseArray(value.element, (*value.values, first))
        yield "fewer", DenseArray(value.element, (*rest,))
        yield "next", DenseArray(value.element, (first + 1, *rest))
    elif isinstance(value, Keyword):
        yield "word", Keyword("other")


def with_attributes(op: Op) -> Iterator[str]:
    for name, old in list(op.attributes.items()):
        answers = []
        for change, value in other_attributes(old):
            op.attributes[name] = value
            answers.append(f"{change}: {said(op)}")
        op.attributes[name] = old
        if answers:
            yield f"{op.name} attribute {name}: {together(answers)}\n"


def together(answers: list[str]) -> str:
    """The answers; one that all changes get stands there once."""
    if len({answer.partition(": ")[2] for answer in answers}) == 1 < len(answers):
        return answers[0].partition(": ")[2]
    return "; ".join(answers)


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
                yield f"{op.name} {kind} {index}: {together(answers)}\n"
    yield from with_attributes(op)


def answers_of(ops: Iterable[Op]) -> str:
    """The answers for the first op of each rule, number of operands and names of attributes."""
    seen: set[tuple[object, int, str]] = set()
    found = []
    for op in ops:
        key = op.definition.verify, len(op.operands), " ".join(op.attributes)
        if key not in seen and op.definition.verify is not None:
            seen.add(key)
            found += lines(op)
    return "".join(found)


@pytest.mark.quick
@pytest.mark.parametrize("sample", ["every_op", "every_gpu_op", "vectors"])
def test_changed_ops(sample: str, golden: Callable[[str, str], None]) -> None:
    golden(answers_of(parse_module(SAMPLES[sample]).walk()), f"verification_errors/changed/{sample}.txt")


def test_changed_ops_of_loops(golden: Callable[[str, str], None]) -> None:
    """The ops between TTIR and vector loops, as passes leave them."""
    texts = (path.read_text() for path in sorted(PASSES.glob("*.ttcir")))
    ops = [op for text in texts for op in parse_module(text).walk() if op.name.startswith("cpu.")]
    golden(answers_of(ops), "verification_errors/changed/cpu.txt")
