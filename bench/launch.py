"""The cost of a launch: `python bench/launch.py`.

Prints, per way to launch, minimum, quartile and median of many rounds, next to what NumPy and torch (if installed) need
for the same addition. The kernels are written in LLVM, so only launching is measured.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, Specialization, run_grid
from tilewright.runtime.drivers.cpu.records import Parameter, Slot, launch_record
from tilewright.support.executable_memory import map_code

SIGNATURE = "define i64 @kernel(ptr %launch, i64 %begin, i64 %end, ptr %scratch)"
EMPTY = f"{SIGNATURE} {{\n ret i64 %end\n}}"
ADD = f"""{SIGNATURE} {{
  %px = getelementptr i8, ptr %launch, i64 24
  %py = getelementptr i8, ptr %launch, i64 32
  %po = getelementptr i8, ptr %launch, i64 40
  %pn = getelementptr i8, ptr %launch, i64 48
  %x = load ptr, ptr %px
  %y = load ptr, ptr %py
  %o = load ptr, ptr %po
  %n = load i64, ptr %pn
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %ax = getelementptr float, ptr %x, i64 %i
  %ay = getelementptr float, ptr %y, i64 %i
  %ao = getelementptr float, ptr %o, i64 %i
  %vx = load <16 x float>, ptr %ax, align 4
  %vy = load <16 x float>, ptr %ay, align 4
  %sum = fadd <16 x float> %vx, %vy
  store <16 x float> %sum, ptr %ao, align 4
  %next = add i64 %i, 16
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i64 %end
}}
"""
BURN = f"""{SIGNATURE} {{
entry:
  %pw = getelementptr i8, ptr %launch, i64 24
  %work = load i64, ptr %pw
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %burn, label %done
burn:
  %k = phi i64 [ 0, %loop ], [ %k1, %burn ]
  %v = phi i64 [ %i, %loop ], [ %v3, %burn ]
  %v1 = mul i64 %v, 6364136223846793005
  %v2 = add i64 %v1, 1442695040888963407
  %v3 = xor i64 %v2, %k
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, %work
  br i1 %again, label %burn, label %next
next:
  store volatile i64 %v3, ptr %scratch
  %i1 = add i64 %i, 1
  br label %loop
done:
  ret i64 %end
}}
"""
"""A chain of dependent multiplications: work that two threads do in half the time, wherever they run."""


def entry(ir: str) -> int:
    blob = link(compile_object(ir, host_target()))
    return map_code(blob.image).address + blob.symbols["kernel"]


def native(ir: str, types: list[str], constants: list[str]) -> NativeKernel:
    """A kernel with parameters a0, a1 … of these types and these constants, which runs `ir` for whatever it gets."""
    address = entry(ir)
    names = [f"a{index}" for index in range(len(types))]
    parameters = [Parameter(name) for name in names] + [Parameter(name, is_constant=True) for name in constants]

    def slow(grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any], miss: Miss | None) -> object:
        slots = tuple(Slot(index, kind) for index, kind in enumerate(types))
        made.install(miss, Specialization(address, None, slots))
        return None

    made = NativeKernel(parameters, slow)
    return made


def nanoseconds(statement: str, values: dict[str, Any], rounds: int = 40, count: int = 5000) -> list[float]:
    """Sorted costs of one execution, over many rounds."""
    scope = dict(values)
    exec(f"def loop(count):\n for _ in range(count): {statement}", scope)
    loop: Callable[[int], None] = scope["loop"]
    loop(10)
    costs = []
    for _ in range(rounds):
        start = time.perf_counter()
        loop(count)
        costs.append((time.perf_counter() - start) / count * 1e9)
    return sorted(costs)


def show(name: str, costs: list[float], unit: str = "ns") -> None:
    quarter = len(costs) // 4
    print(f"{name:58} min {costs[0]:8.2f}  p25 {costs[quarter]:8.2f}  median {costs[2 * quarter]:8.2f} {unit}")


def launches() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, statement and names it uses."""
    x, y, out = (np.ones(1008, np.float32) for _ in range(3))
    add = native(ADD, ["*fp32", "*fp32", "*fp32", "i32"], ["BLOCK"])
    wide = native(EMPTY, ["*fp32"] * 6 + ["i32"] * 13, [])
    scope = {"add": add, "wide": wide, "x": x, "y": y, "out": out, "np": np, "n": 1000, "grid": lambda meta: (1,)}
    yield "kernel[(1,)](x, y, out, n, BLOCK=1024), NumPy", "add[(1,)](x, y, out, n, BLOCK=1024)", scope
    yield "the same, grid is a function", "add[grid](x, y, out, n, BLOCK=1024)", scope
    yield "the same, num_warps=4 too", "add[(1,)](x, y, out, n, BLOCK=1024, num_warps=4)", scope
    numbers = ", ".join(map(str, range(3, 16)))
    yield "19 arguments", f"wide[(1,)](x, y, out, x, y, out, {numbers})", scope
    yield "np.add(x, y, out=out)", "np.add(x, y, out=out)", scope
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        tensors = {name: torch.from_numpy(scope[name]) for name in ("x", "y", "out")}
        scope = {**scope, **tensors, "torch": torch}
        yield "kernel[(1,)](x, y, out, n, BLOCK=1024), torch", "add[(1,)](x, y, out, n, BLOCK=1024)", scope
        yield "torch.add(x, y, out=out)", "torch.add(x, y, out=out)", scope


@tw.jit
def takes(x, n):
    pass


class Stated:
    """An array that only its `__array_interface__` tells of."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


class Packed:
    """An array that only DLPack tells of."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__dlpack_device__ = array, array.__dlpack_device__
        self.__dlpack__ = array.__dlpack__


def foreign_launches() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Arguments that become others first: at most 1 µs each."""
    x = np.ones(1008, np.float32)
    forms = {"NumPy": x, "an array interface": Stated(x), "DLPack": Packed(x)}
    for name, value in forms.items():
        yield f"takes[(1,)](x, 1000), {name}", "takes[(1,)](x, 1000)", {"takes": takes, "x": value}
    yield "takes[(1,)](x, np.int64(1000))", "takes[(1,)](x, n)", {"takes": takes, "x": x, "n": np.int64(1000)}
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        descriptor = TensorDescriptor(torch.from_numpy(x).reshape(63, 16), [63, 16], [16, 1], [8, 16])
        yield "a descriptor of the host", "takes[(1,)](x, 1000)", {"takes": takes, "x": descriptor}


def microseconds(function: Callable[[], None], count: int = 1000, gap: float = 0.0) -> list[float]:
    costs = []
    for _ in range(count):
        if gap:
            time.sleep(gap)
        start = time.perf_counter()
        function()
        costs.append((time.perf_counter() - start) * 1e6)
    return sorted(costs)


def pool() -> None:
    """Parallel dispatch, through `run_grid`, whose own cost is the first line."""
    nothing, burn = entry(EMPTY), entry(BURN)
    record = launch_record((2,), [0], ["i64"])
    work = launch_record((2,), [9000], ["i64"])
    show("run_grid, 1 program, empty", microseconds(lambda: run_grid(nothing, record, 1)), "µs")
    show("run_grid, 2 programs, empty, pool hot", microseconds(lambda: run_grid(nothing, record, 2)), "µs")
    show("run_grid, 2 programs, empty, after 1 ms", microseconds(lambda: run_grid(nothing, record, 2), 300, 1e-3), "µs")
    for programs in (2, 16):
        for threads in (1, 2):
            run = partial(run_grid, burn, work, programs, scratch_bytes=64, num_threads=threads)
            show(f"run_grid, {programs} programs of ~10 µs, {threads} thread(s)", microseconds(run, 300), "µs")


def loading() -> None:
    """A cached kernel, and the runtime in a new process."""
    blob = link(compile_object(ADD, host_target()))
    show("load_kernel", microseconds(lambda: map_code(blob.image).unmap()), "µs")
    code = (
        "import time, tilewright.runtime.drivers.cpu.launcher as l\n"
        "k = l.NativeKernel([], lambda *_: None)\n"
        "start = time.perf_counter(); k[(1,)](); print((time.perf_counter() - start) * 1e6)"
    )
    costs = sorted(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(8))
    show("first launch of a process: setting up the runtime", costs, "µs")


def main() -> None:
    gc.disable()
    for name, statement, scope in chain(launches(), foreign_launches()):
        show(name, nanoseconds(statement, scope))
    pool()
    loading()


if __name__ == "__main__":
    main()
