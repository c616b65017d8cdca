"""A launch: a kernel of a program, a grid, and arguments.

memory = DeviceMemory()
x = memory.copy_in(np.arange(8, dtype=np.float32), name="x")
Launch(load(text), "double", grid=(1, 1, 1), threads=32, shared=0).run(memory, [x, 8])
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Extents, Machine
from tilewright.backends.ptxsim.memory import DeviceMemory
from tilewright.backends.ptxsim.program import Program
from tilewright.backends.ptxsim.shadow import GlobalShadow
from tilewright.backends.ptxsim.value_types import Array
from tilewright.support.ptx_syntax import Variable

BATCH = 4096
"""The approximate number of threads that run at a time; every batch has whole clusters."""


def _print(text: str) -> None:
    sys.stdout.write(text)


@dataclass(frozen=True)
class Launch:
    """A kernel to run, with its grid and its memory.

    Attributes:
        program, kernel: the code; the kernel's name may be None where the program has one.
        grid: extents in CTAs.
        threads: of a CTA, a number or extents; None takes them from `.reqntid`.
        shared: bytes of dynamic shared memory.
        cluster: extents in CTAs; the grid is a multiple of them.
        checks: watch for races.
        output: takes the text that kernels print.
    """

    program: Program
    kernel: str | None = None
    grid: Extents = (1, 1, 1)
    threads: int | Extents | None = None
    shared: int = 0
    cluster: Extents = (1, 1, 1)
    checks: bool = True
    output: Callable[[str], None] = _print

    def run(self, memory: DeviceMemory, arguments: Sequence[Any]) -> None:
        """Run every CTA.

        Args:
            memory: where pointers among the arguments point.
            arguments: one number or bytes per parameter.

        Raises:
            SimulationError: the kernel did something wrong.
        """
        code = self.program.kernel(self.kernel)
        parameters = pack_parameters(code.parameters, arguments, code.name)
        symbols = self.program.place_variables(memory)
        watcher, time = None, 1
        if self.checks:
            watcher = GlobalShadow(memory.used, code.global_unit, self.grid[0] * self.grid[1] * self.grid[2])
        for ctas in self._batches():
            machine = Machine(
                code,
                memory,
                symbols=symbols,
                parameters=parameters,
                grid=self.grid,
                block=self._block(code.threads),
                cluster=self.cluster,
                ctas=ctas,
                shared=code.shared + self.shared,
                checks=self.checks,
                watcher=watcher,
                time=time,
                output=self.output,
            )
            machine.run()
            time = machine.clocks.time

    def _block(self, required: tuple[int, ...] | None) -> Extents:
        block = required if self.threads is None else self.threads
        if block is None:
            raise SimulationError("launch", "the kernel does not say how many threads it wants")
        extents = (block,) if isinstance(block, int) else tuple(block)
        x, y, z = (*extents, 1, 1, 1)[:3]
        if required is not None and (x, y, z) != (*required, 1, 1, 1)[:3]:
            raise SimulationError("launch", f"the kernel wants {required} threads, not {(x, y, z)}")
        return x, y, z

    def _batches(self) -> Iterator[list[Extents]]:
        if any(n % c for n, c in zip(self.grid, self.cluster, strict=True)):
            raise SimulationError("launch", f"the grid {self.grid} is no multiple of the cluster {self.cluster}")
        block = self._block(self.program.kernel(self.kernel).threads)
        clusters = list(self._clusters())
        threads = block[0] * block[1] * block[2] * len(clusters[0]) if clusters else 1
        step = max(1, BATCH // threads)
        for start in range(0, len(clusters), step):
            yield [cta for cluster in clusters[start : start + step] for cta in cluster]

    def _clusters(self) -> Iterator[list[Extents]]:
        """The CTAs of every cluster, x fastest in both."""
        counts = [range(0, n, c) for n, c in zip(self.grid, self.cluster, strict=True)]
        inner = [range(c) for c in self.cluster]
        for z, y, x in product(*reversed(counts)):
            yield [(x + i, y + j, z + k) for k, j, i in product(*reversed(inner))]


def pack_parameters(variables: Sequence[tuple[Variable, int]], arguments: Sequence[Any], kernel: str) -> Array:
    """The bytes of the parameter space.

    Raises:
        SimulationError: there are too many or too few, or bytes have the wrong length.
    """
    if len(variables) != len(arguments):
        raise SimulationError("launch", f"{kernel} takes {len(variables)} arguments, not {len(arguments)}")
    end = max((offset + variable.size for variable, offset in variables), default=0)
    space = bytearray(-(-end // 16) * 16 + 16)
    for (variable, offset), argument in zip(variables, arguments, strict=True):
        content = _argument_bytes(argument, variable.size)
        if len(content) != variable.size:
            raise SimulationError("launch", f"{variable.name} has {variable.size} bytes, not {len(content)}")
        space[offset : offset + variable.size] = content
    return np.frombuffer(bytes(space), np.uint8)


def _argument_bytes(argument: Any, size: int) -> bytes:
    if isinstance(argument, bytes | bytearray):
        return bytes(argument)
    if isinstance(argument, np.generic):
        return argument.tobytes()
    if isinstance(argument, float):
        return np.array(argument, f"f{size}").tobytes()
    return (int(argument) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
