"""Programs made from the left side of an equation: drawn operands in memory, the op that a row takes at the end.

for case in cases(row):
    case.apply(row)          the row is tried on that op only
    case.run()               bits of the result, one program per draw of scalars
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from math import inf, nan, prod
from typing import TypeAlias

import ml_dtypes
import numpy as np

from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.rewriter import Rewriter
from tilewright.ir.types import (
    FloatType,
    IndexType,
    IntType,
    PointerType,
    TensorType,
    Type,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    with_element,
)
from tilewright.ir.verifier import verify
from tilewright.transforms.equations import KNOWN, LITERALS, Equation

INTEGERS, FLOATS, INDEX = (i1, i8, i16, i32, i64), (f16, bf16, f32, f64), IndexType("index")
ELEMENTS = 128
PROGRAMS = 8
LETTERS = 8
SHAPES = ((), (ELEMENTS,), (4, 8), (8, 4), (4, 1), (1, 8), (1, 1), (1,), (32,))
NUMBERS = {
    IntType: (0, 1, -1, 2, -2, 7, -8, 100, 127, -128, 2**15, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 0x5A5A5A5A5A),
    FloatType: (
        0.0,
        -0.0,
        1.0,
        -1.0,
        1.5,
        -3.25,
        inf,
        -inf,
        nan,
        1e-45,
        -6e-8,
        65504.0,
        3e38,
        -1e308,
        0.1,
        1 + 2**-11 + 2**-40,
    ),
}
WIDTHS = {f16: np.float16, bf16: ml_dtypes.bfloat16, f32: np.float32, f64: np.float64}
SKELETON = parse_module(
    f"tt.func public @f({', '.join(f'%m{i}: !tt.ptr<i64>' for i in range(LETTERS))}) {{\n  tt.return\n}}"
)
"""Copied for each program: copies take a third of the time of reading."""
CASTS: dict[str, Callable[[Type, Type], bool]] = {
    "extsi": lambda old, new: old in INTEGERS and new in INTEGERS and old.bits < new.bits,
    "extui": lambda old, new: old in INTEGERS and new in INTEGERS and old.bits < new.bits,
    "trunci": lambda old, new: old in INTEGERS and new in INTEGERS and old.bits > new.bits,
    "extf": lambda old, new: old in FLOATS and new in FLOATS and old.bits < new.bits,
    "truncf": lambda old, new: old in FLOATS and new in FLOATS and old.bits > new.bits,
    "bitcast": lambda old, new: {old, new} <= {*INTEGERS, *FLOATS} and old.bits == new.bits,
    "index_cast": lambda old, new: {old, new} <= {*INTEGERS, INDEX},
    "ptr_to_int": lambda old, new: isinstance(old, PointerType),
    "int_to_ptr": lambda old, new: isinstance(new, PointerType) and old in (i32, i64),
    "fp_to_fp": lambda old, new: old in FLOATS and new in FLOATS,
}
"""Whether a conversion takes one element type to another."""
SHAPE_OPS = ("splat", "unsplat", "broadcast", "expand_dims", "reshape", "trans")


class Unsuitable(Exception):
    """These types do not fit together."""


class Choices:
    """One way through a program that chooses; `every` goes through all of them."""

    def __init__(self, path: Sequence[int]) -> None:
        self.path, self.taken = list(path), list[tuple[int, int]]()

    def of(self, options: Sequence):
        if not options:
            raise Unsuitable
        at = len(self.taken)
        index = self.path[at] if at < len(self.path) else 0
        self.taken.append((index, len(options)))
        return options[index]

    def next(self) -> list[int] | None:
        taken = self.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        return [*(index for index, _ in taken[:-1]), taken[-1][0] + 1] if taken else None


def every(build: Callable[[Choices], Case]) -> Iterator[Case]:
    """The results of `build` with each sequence of choices that fits together."""
    path: list[int] | None = []
    while path is not None:
        choices = Choices(path)
        try:
            case = build(choices)
            verify(case.module)
            yield case
        except (Unsuitable, VerificationError):
            pass
        path = choices.next()


class Case:
    """A module whose last value is the left side of an equation."""

    def __init__(self, row: Equation, left: ast.expr, choices: Choices, seed: int) -> None:
        self.row, self.choices, self.rng = row, choices, random.Random(f"{row.name} {seed}")
        self.left, self.seed, self.programs = left, seed, 1
        self.memory: list[np.ndarray] = []
        self.letters: dict[str, Value] = {}
        self.module = SKELETON.clone()
        self.block = self.module.regions[0].block.first.regions[0].block
        self.end = self.block.first
        result = self.value(left, choices.of(result_types(left, row)))
        self.op = result.op
        self.result = self.letters["result"] = self.kept(result)

    def emit(self, name: str, operands: Sequence[Value], type: Type, **attributes: Attribute) -> Value:
        return self.block.insert(Op.create(name, operands, (type,), attributes), self.end).result

    # The left side

    def value(self, node: ast.expr, type: Type) -> Value:
        """The value of an expression."""
        literal = literal_of(node)
        if literal is not None:
            return self.emit("arith.constant", (), type, value=Number(canonical_number(literal, type), type))
        if not isinstance(node, ast.Name):
            return self.operation(node, type)
        letter = node.id if node.id != "_" else f"_{len(self.letters)}"
        if letter not in self.letters:
            self.letters[letter] = self.known(type) if is_known(letter) else self.drawn(type)
        if self.letters[letter].type is not type:
            raise Unsuitable
        return self.letters[letter]

    def operation(self, node: ast.expr, type: Type) -> Value:
        names, predicates, operands = self.row._parts(node)
        name = self.choices.of(names)
        attributes: dict[str, Attribute] = {}
        if predicates:
            attributes["predicate"] = Keyword(self.choices.of(predicates.split()))
        types, more = self.choices.of(list(operand_types(name, type, len(operands))))
        values = [self.value(operand, each) for operand, each in zip(operands, types, strict=True)]
        return self.emit(name, values, type, **attributes, **more)

    def known(self, type: Type) -> Value:
        """A constant."""
        number = self.rng.choice(NUMBERS[FloatType if isinstance(type.scalar, FloatType) else IntType])
        return self.emit("arith.constant", (), type, value=Number(canonical_number(number, type), type))

    # Memory: integers of 64 bits, each letter and the result by itself

    def drawn(self, type: Type) -> Value:
        """Numbers from memory, each of the interesting ones with each of another letter."""
        if type.shape is None:
            base = self.block.args[len(self.memory)]
            address = self.emit("tt.addptr", (base, self.program()), base.type)
            count = self.programs = PROGRAMS
        else:
            address, count = self.addresses(type.shape), prod(type.shape)
        loaded = self.emit("tt.load", (address,), with_element(type, i64))
        self.memory.append(self.numbers(type.scalar, count))
        bits = integer_of(type.scalar)
        if bits is not i64:
            loaded = self.emit("arith.trunci", (loaded,), with_element(type, bits))
        return self.cast(loaded, type.scalar, "int_to_ptr")

    def numbers(self, scalar: Type, count: int) -> np.ndarray:
        given = np.array([wrapped(number, 64) for number in NUMBERS[IntType]])
        if isinstance(scalar, FloatType):
            with np.errstate(all="ignore"):
                floats = np.array(NUMBERS[FloatType]).astype(WIDTHS[scalar])
            given = floats.view(f"i{scalar.bits // 8}").astype(np.int64)
        each = 1 if len(self.memory) % 2 else len(given) // 2
        start = self.rng.randrange(len(given))
        return given[[(start + i // each + i // 50) % len(given) for i in range(count)]]

    def program(self) -> Value:
        return self.emit("tt.get_program_id", (), i32, axis=Keyword("x"))

    def addresses(self, shape: tuple[int, ...], offset: Value | None = None) -> Value:
        base = self.block.args[len(self.memory)]
        if offset is not None:
            base = self.emit("tt.addptr", (base, offset), base.type)
        flat = (prod(shape),)
        steps = self.emit("tt.make_range", (), TensorType(flat, i32), start=Number(0, i32), end=Number(flat[0], i32))
        steps = self.emit("tt.reshape", (steps,), TensorType(shape, i32))
        pointers = self.emit("tt.splat", (base,), TensorType(shape, base.type))
        return self.emit("tt.addptr", (pointers, steps), pointers.type)

    def cast(self, value: Value, scalar: Type, of_pointer: str) -> Value:
        """The bits of a value as another type."""
        kinds = {value.type.scalar.__class__, scalar.__class__}
        if value.type.scalar is scalar:
            return value
        name = "tt." + of_pointer if PointerType in kinds else "arith.index_cast" if IndexType in kinds else None
        name = name or ("arith.bitcast" if FloatType in kinds else "arith.trunci" if scalar is i1 else "arith.extsi")
        return self.emit(name, (value,), with_element(value.type, scalar))

    def kept(self, value: Value) -> Value:
        """Store a value as integers, behind those of the programs before."""
        type = value.type
        kept = self.cast(self.cast(value, integer_of(type.scalar), "ptr_to_int"), i64, "")
        count = self.emit("arith.constant", (), i32, value=Number(type.numel if type.shape else 1, i32))
        offset = self.emit("arith.muli", (self.program(), count), i32)
        base = self.block.args[len(self.memory)]
        if type.shape:
            address = self.addresses(type.shape, offset)
        else:
            address = self.emit("tt.addptr", (base, offset), base.type)
        self.block.insert(Op.create("tt.store", (address, kept)), self.end)
        self.memory.append(np.zeros(self.programs * prod(type.shape or ()), np.int64))
        return value

    # What tests ask

    def again(self) -> Case:
        """The same once more, as it was in the beginning."""
        return Case(self.row, self.left, Choices([index for index, _ in self.choices.taken]), self.seed)

    def apply(self, row: Equation) -> bool:
        """Try the row on the op; returns whether it applied."""
        rewriter = Rewriter(self.op.block.region)
        for name, attempt in row.attempts():
            if name == self.op.name:
                done = attempt(self.op) if is_fold(row) else attempt(self.op, rewriter)
                if done is not None and done is not False:
                    return rewriter.put(self.op, done) if is_fold(row) else True
        return False

    def run(self) -> np.ndarray:
        """The result, each NaN alike."""
        memory = [array.copy() for array in self.memory]
        unused = [np.zeros(1, np.int64)] * (LETTERS - len(memory))
        run_ir(self.module, [*memory, *unused], (self.programs,))
        found, scalar = memory[-1], self.result.type.scalar
        if isinstance(scalar, FloatType):
            numbers = found.astype(f"i{scalar.bits // 8}").view(WIDTHS[scalar])
            found = np.where(np.isnan(numbers.astype(float)), -1, found)
        return found


def is_fold(row: Equation) -> bool:
    """Whether the right side is a letter or a number; a function that folds takes the op only."""
    if row.by is not None:
        return row.by.__code__.co_argcount == 1
    return isinstance(row.right, ast.Name) or literal_of(row.right) is not None


def is_known(letter: str) -> bool:
    """Whether a letter, which may have a number behind it, is one of known numbers."""
    return letter[0] in KNOWN


def literal_of(node: ast.expr) -> int | float | None:
    match node:
        case ast.UnaryOp(ast.USub(), operand):
            return -literal_of(operand)
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return LITERALS.get(name)
    return None


def wrapped(number: int, bits: int) -> int:
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def canonical_number(number: float, type: Type) -> int | float:
    scalar = type.scalar
    if isinstance(scalar, FloatType) != isinstance(number, float) or (isinstance(number, bool) and scalar is not i1):
        raise Unsuitable
    if isinstance(scalar, FloatType):
        with np.errstate(all="ignore"):
            return float(np.array(number).astype(WIDTHS[scalar]))
    return number & 1 if scalar is i1 else wrapped(number, 64 if isinstance(scalar, IndexType) else scalar.bits)


def integer_of(scalar: Type) -> Type:
    """The integer as wide as a number of this type."""
    widths = {8: i8, 16: i16, 32: i32, 64: i64}
    return scalar if isinstance(scalar, IntType) else i64 if isinstance(scalar, PointerType) else widths[scalar.bits]


def shaped(shape: tuple[int, ...], element: Type) -> Type:
    return TensorType(shape, element) if shape else element


def result_types(left: ast.expr, row: Equation) -> list[Type]:
    """Those to try."""
    names = row._parts(left)[0]
    name = names[0].partition(".")[2]
    if name in SHAPE_OPS:
        return [shaped(shape, element) for shape in SHAPES if shape != (ELEMENTS,) for element in (i32, f16)]
    if name == "cmpi":
        return [i1, TensorType((ELEMENTS,), i1)]
    if name == "addptr":
        return [PointerType(f32), TensorType((ELEMENTS,), PointerType(f32))]
    if name == "ptr_to_int":
        return [i64, i32, TensorType((ELEMENTS,), i64)]
    elements = (*INTEGERS, *FLOATS, INDEX)
    return [*elements, *(TensorType((ELEMENTS,), element) for element in elements if element is not INDEX)]


Operands: TypeAlias = tuple[list[Type], dict[str, Attribute]]
"""Types of operands for a result, with the attributes that make it."""


def operand_types(name: str, type: Type, count: int) -> Iterator[Operands]:
    """The types and attributes that an op may have."""
    shape, element, short = type.shape, type.scalar, name.partition(".")[2]
    if short in SHAPE_OPS:
        yield from shape_operands(short, shape or (), element)
    elif short == "cmpi":
        yield from (([with_element(type, each)] * count, {}) for each in INTEGERS)
    elif short == "select":
        yield from (([condition, type, type], {}) for condition in {i1, with_element(type, i1)})
    elif short == "addptr":
        yield from (([type, with_element(type, offset)], {}) for offset in (i32, i64))
    elif short in CASTS:
        for each in (*INTEGERS, *FLOATS, INDEX, PointerType(f32)):
            if CASTS[short](each, element) and (shape is None or each is not INDEX):
                yield [with_element(type, each)], {}
    else:
        yield [type] * count, {}


def shape_operands(name: str, shape: tuple[int, ...], element: Type) -> Iterator[Operands]:
    tiles = [each for each in SHAPES if each and each != (ELEMENTS,)]
    if name == "splat" and shape:
        yield [element], {}
    elif name == "unsplat" and not shape:
        yield [TensorType((1,), element)], {}
    elif name == "broadcast":
        yield from (([TensorType(each, element)], {}) for each in tiles if len(each) == len(shape))
    elif name == "expand_dims":
        for axis in (axis for axis, extent in enumerate(shape) if extent == 1 and len(shape) > 1):
            yield [TensorType((*shape[:axis], *shape[axis + 1 :]), element)], {"axis": Number(axis, i32)}
    elif name == "reshape":
        for each in tiles:
            if shape and prod(each) == prod(shape):
                yield [TensorType(each, element)], {}
    elif name == "trans" and len(shape) == 2:
        for order in ((0, 1), (1, 0)):
            yield [TensorType((shape[order[0]], shape[order[1]]), element)], {"order": DenseArray(i32, order)}


def forms(text: str) -> list[ast.expr]:
    """The forms on the left of an equation."""
    left = ast.parse(text.partition(" → ")[0], mode="eval").body
    return left.elts if isinstance(left, ast.Tuple) else [left]


def cases(row: Equation, *, left: str = "") -> Iterator[Case]:
    """Programs for every form on the left, in all types that fit; two where constants are drawn."""
    for form in forms(left or row.text):
        draws_constants = any(isinstance(node, ast.Name) and node.id in KNOWN for node in ast.walk(form))
        for seed in range(1 + draws_constants):
            yield from every(lambda choices, form=form, seed=seed: Case(row, form, choices, seed))


def differences(row: Equation, *, left: str = "") -> tuple[int, list[str]]:
    """The number of times that the row applied, and the first case whose result changed or is no IR at all."""
    applied, wrong = 0, []
    for case in cases(row, left=left):
        if not case.apply(row):
            continue
        applied += 1
        try:
            verify(case.module)
            same = np.array_equal(case.again().run(), case.run())
        except (VerificationError, AssertionError):
            same = False
        if not same:
            wrong.append(f"{row.text} : {case.result.type}")
            break
    return applied, wrong
