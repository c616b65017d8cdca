"""Vector loops within a function whose other code is written as text.

loops = VectorLoops(w, value)
with loops.building() as ops:
    ops.store(ops.load(f32, loops.value("%v7", BYTES)), buffer)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.cpu.emit_scalars import SCALARS
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder, offset_of
from tilewright.backends.cpu.nest.copy_elision import Matrix
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Block, Value
from tilewright.ir.types import Type, i64


class VectorLoops:
    """Builds vector loops and writes them where they belong.

    Args:
        w: where their text goes.
        outside: gives the LLVM values of the function's own values.
    """

    def __init__(self, w: LlvmWriter, outside: Callable[[Value], str]) -> None:
        self.builder = LoopBuilder(Block(), entry=Block())
        self._emitter = LoopEmitter(w, outside=outside, scalars=SCALARS)

    @contextmanager
    def building(self) -> Iterator[LoopBuilder]:
        """What is built within the `with` is written at its end."""
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

    def matrix(self, tile: Matrix) -> tuple[Value, Offset, Offset, Value | None]:
        """The pointer, stride, step and depth of a tile."""
        stride, step = (offset_of(self.value(distance, i64)) for distance in (tile.stride, tile.step))
        depth = None if tile.depth is None else self.value(tile.depth, i64)
        return self.value(tile.pointer, BYTES), stride, step, depth
