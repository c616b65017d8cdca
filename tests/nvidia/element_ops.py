"""Elementwise ops by the dozen in one kernel, and samples for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from simulated import gpu_stages, run_module

import tilewright.dialects
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import FLOATS, FunctionType, PointerType, TensorType, Type, i1, i8, i16, i32, i64

assert tilewright.dialects.__all__

INTEGERS = [i1, i8, i16, i32, i64]
WIDE = [FLOATS[name] for name in ("f16", "bf16", "f32", "f64")]
FP8 = [FLOATS[name] for name in ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ")]
COUNT = 512
Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """An op, its operands' types, its result's, and its keywords."""

    name: str
    operands: tuple[Type, ...]
    result: Type
    keywords: tuple[tuple[str, str], ...] = ()

    def attributes(self) -> dict[str, Attribute]:
        return {key: Keyword(value) for key, value in self.keywords}

    def alone(self) -> Op:
        """The op without a module, for its reference semantics."""
        return Op.create(self.name, Block(self.operands).args, [self.result], self.attributes())


def case(name: str, operands: Sequence[Type], result: Type, **keywords: str) -> Case:
    return Case(name, tuple(operands), result, tuple(keywords.items()))


def samples(type: Type, position: int) -> Array:
    """Values of a type, others for each operand: edges, bit patterns, ordinary numbers."""
    rng = np.random.default_rng([position, *type.text.encode()])
    dtype = np.dtype(numpy_dtype(type))
    if type is i1:
        return rng.integers(0, 2, COUNT).astype(bool)
    found: Array = rng.integers(0, 256, COUNT * dtype.itemsize, dtype=np.uint8).view(dtype).copy()
    if type in INTEGERS:
        edges = np.array([0, 1, -1, 2, -2, 7, 2 ** (type.bits - 1) - 1, -(2 ** (type.bits - 1))]).astype(dtype)
        small = rng.integers(-9, 10, COUNT // 2).astype(dtype)
    else:
        edges = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan], np.float32).astype(dtype)
        small = (rng.standard_normal(COUNT // 2) * 3).astype(np.float32).astype(dtype)
    found[: len(edges)] = np.roll(edges, position)
    found[-len(small) :] = small
    return found


def results_of(cases: Sequence[Case], inputs: dict[tuple[Type, int], Array], capability: int) -> list[Array]:
    """The result of each op on a GPU; `inputs` has an array per type and position of an operand."""
    made = [np.zeros(COUNT, numpy_dtype(each.result)) for each in cases]
    run_module(_staged(tuple(cases), tuple(inputs)), [*inputs.values(), *made], capability=capability)
    return made


@cache
def _staged(cases: Sequence[Case], inputs: Sequence[tuple[Type, int]]) -> Op:
    """The module with layouts, which for such ops are the same on all devices."""
    module = _module(cases, inputs)
    gpu_stages(module, 90)
    return module


def _module(cases: Sequence[Case], inputs: Sequence[tuple[Type, int]]) -> Op:
    pointers = [PointerType(type) for type, _ in inputs] + [PointerType(each.result) for each in cases]
    block = Block(pointers)

    def add(name: str, operands: Sequence[Value], result: Type | None, attributes: dict[str, Attribute]) -> Op:
        return block.append(Op.create(name, operands, [] if result is None else [result], attributes))

    places = add("tt.make_range", [], _tile(i32), {"start": Number(0, i32), "end": Number(COUNT, i32)}).result

    def tile_of(argument: Value) -> Value:
        tile = add("tt.splat", [argument], _tile(argument.type), {}).result
        return add("tt.addptr", [tile, places], tile.type, {}).result

    loaded = {
        key: add("tt.load", [tile_of(argument)], _tile(key[0]), {}).result
        for key, argument in zip(inputs, block.args, strict=False)
    }
    for each, argument in zip(cases, block.args[len(inputs) :], strict=True):
        operands = [loaded[type, position] for position, type in enumerate(each.operands)]
        result = add(each.name, operands, _tile(each.result), each.attributes()).result
        add("tt.store", [tile_of(argument), result], None, {})
    add("tt.return", [], None, {})
    header: dict[str, Attribute] = {
        "sym_name": "ops",
        "sym_visibility": "public",
        "function_type": FunctionType(tuple(pointers), ()),
        "arg_attrs": tuple({"tt.divisibility": Number(16, i32)} for _ in pointers),
    }
    outer = Block()
    outer.append(Op.create("tt.func", [], [], header, [Region([block])]))
    return Op.create("builtin.module", [], [], {}, [Region([outer])])


def _tile(element: Type) -> TensorType:
    return TensorType((COUNT,), element)
