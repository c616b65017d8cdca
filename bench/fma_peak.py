"""The multiply-add peak of one core, measured: what dot kernels are compared with.

    peak = Peak()                     # compiles four loops, a few milliseconds
    peak.fp32()                       # operations per second right now; one sample of 0.1 to 0.2 ms
    python bench/fma_peak.py          # prints all four

Clock frequency and neighbours change from one millisecond to the next, so take a sample next to every measurement and
compare ratios. Times are CPU times of the thread, so being interrupted does not count. Each loop keeps 12 independent
accumulators in registers and touches no memory. Where a multiply-add is two instructions, as that of int16 is, each
accumulator has a factor of its own in memory, which meets another one in the next turn: LLVM computes one product of
two factors that stay, once, in front of the loop.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass

from tilewright.backends.cpu.dot.arithmetic import Arithmetic, select_arithmetic
from tilewright.backends.cpu.dot.spec import operand_element_type
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.llvm.machine import Target, compile_object, host_target
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Block, Value
from tilewright.ir.types import Type, bf16, f32, f64, i8, i16, i32, i64
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.support.executable_memory import map_code

ACCUMULATORS = 12
TRIPS = 30000
KINDS: dict[str, tuple[Type, Type]] = {"fp32": (f32, f32), "fp64": (f64, f64), "bf16": (bf16, f32), "int8": (i8, i32)}


@dataclass(frozen=True)
class Loop:
    """A loop of multiply-adds, ready to run."""

    function: ctypes._CFuncPtr
    operations: int

    def rate(self) -> float:
        """Operations per second (a multiply-add counts as two), from one run."""
        start = time.thread_time()
        self.function(TRIPS, ctypes.addressof(_memory))
        return self.operations / (time.thread_time() - start)


_memory = ctypes.create_string_buffer(4096)


class Peak:
    """Peak rates of the instructions that dots of each kind use on `target`, by default this host."""

    def __init__(self, target: Target | None = None) -> None:
        target = target or host_target()
        self._loops = {kind: _loop(kind, target) for kind in KINDS}

    def sample(self, kind: str) -> float:
        """Operations per second for a key of KINDS, from one short run."""
        return self._loops[kind].rate()

    def best(self, kind: str, samples: int = 200) -> float:
        """The highest of several samples."""
        return max(self.sample(kind) for _ in range(samples))

    def fp32(self) -> float:
        """One sample of the fp32 rate."""
        return self.sample("fp32")


def _loop(kind: str, target: Target) -> Loop:
    operand, accumulator = KINDS[kind]
    by = select_arithmetic(operand_element_type(operand, target), accumulator, target)
    lanes = target.lanes(by.accumulator.bits)
    block = Block((i64, BYTES))
    trips, memory = block.args
    _build_loop(LoopBuilder(block), by, lanes, trips, memory)
    w = LlvmWriter(target)
    with w.function("peak", [("i64", "%trips"), ("ptr", "%memory")]):
        emitter = LoopEmitter(w)
        emitter.bind(trips, "%trips")
        emitter.bind(memory, "%memory")
        emitter.run(block)
    blob = link(compile_object(w.render(), target))
    address = map_code(blob.image).address + blob.symbols["peak"]
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(address)
    return Loop(function, TRIPS * ACCUMULATORS * lanes * by.group * 2)


def _build_loop(ops: LoopBuilder, by: Arithmetic, lanes: int, trips: Value, memory: Value) -> None:
    factors = [ops.load(by.operand(lanes), memory, 64 * at) for at in range(2)]
    totals = [ops.constant(0, by.total(lanes))] * ACCUMULATORS
    if by.element is i16:
        with ops.loop(0, trips, carried=[*factors, *totals], nonempty=True) as loop:
            left, right, *held = loop.carried
            others = [ops.load(by.operand(lanes), memory, 64 * at) for at in range(ACCUMULATORS)]
            sums = [by.accumulate(ops, total, left, other) for total, other in zip(held, others, strict=True)]
            loop.next = [right, left, *sums]
    else:
        with ops.loop(0, trips, carried=totals, nonempty=True) as loop:
            loop.next = [by.accumulate(ops, held, *factors) for held in loop.carried]
    for at, value in enumerate(loop.results[-ACCUMULATORS:]):
        ops.store(value, memory, 64 * (at + 2))


def main() -> None:
    """Print the best of many samples for each kind."""
    peak = Peak()
    for kind in KINDS:
        print(f"{kind:5} {peak.best(kind, 2000) / 1e9:7.1f} G operations/s")


if __name__ == "__main__":
    main()
