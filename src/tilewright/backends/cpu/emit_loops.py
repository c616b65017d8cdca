"""Vector loops within a function whose other code is written as text.

loops = VectorLoops(w, value)
with loops.building(nest) as ops:
    ops.store(ops.load(f32, loops.value("%v7", BYTES)), buffer)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.nest.lane_values import Scalar
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import Type
from tilewright.transforms.matching import integer_of


class VectorLoops:
    """Builds vector loops and writes them where they belong.

    Args:
        w: where their text goes.
        outside: gives the LLVM values of the function's own values.

    Attributes:
        builder: where ops go while something is built.
        names: the LLVM values of what was built.
    """

    def __init__(self, w: LlvmWriter, outside: Callable[[Value], str]) -> None:
        self.builder = LoopBuilder(Block(), entry=Block())
        self._emitter = LoopEmitter(w, outside=outside)
        self.names = self._emitter.names

    @contextmanager
    def building(self, op: Op) -> Iterator[LoopBuilder]:
        """What is built for `op` within the `with` is written at its end."""
        self.builder.location = op.location
        with self.builder.into(Block()) as ops:
            yield ops
            block = ops.block
        self._emitter.run(block)

    def value(self, name: str, type: Type) -> Value:
        """What is written already, as a value."""
        if name.lstrip("-").isdigit():
            return self.builder.constant(int(name), type)
        value = self.builder.later(type)
        self._emitter.bind(value, name)
        return value


def operand_of(value: Value) -> Scalar:
    """A scalar or a buffer as it is in vector loops: a number where it is known now."""
    number = integer_of(value)
    return value if number is None else number
