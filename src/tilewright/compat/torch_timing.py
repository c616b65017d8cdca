"""How long Inductor times a kernel's candidates on the CPU.

torch runs each for 25 ms and then for 100 ms, which is meant for products. Triton kernels of a model have a hundred
candidates that take microseconds, and timing them took a third of the time to compile it.

Where Inductor times whether two kernels are faster as one (`max_autotune` has it do so), torch 2.13 writes programs for
CPUs that Python cannot parse.
"""

from __future__ import annotations

from typing import Any

OVERRIDES = "torch._inductor.codegen.cpu_device_op_overrides"
WARMUP, TIMED = 1, 10
"""How long a candidate is run before it is timed, and while it is: milliseconds, and once at least."""


class BriefBenchmarker:
    """torch's benchmarker, but for how long kernels for CPUs run."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def benchmark(self, *arguments: Any, device: Any = None, **settings: Any) -> float:
        """The median time of a function in milliseconds."""
        times = {"warmup": WARMUP, "rep": TIMED} if device == "cpu" else {}
        return float(self._original.benchmark(*arguments, device=device, **times | settings))


def time_briefly(heuristics: Any) -> None:
    """Let the module `triton_heuristics` time kernels for CPUs so; what else torch times keeps its own time."""
    if not isinstance(heuristics.benchmarker, BriefBenchmarker):
        heuristics.benchmarker = BriefBenchmarker(heuristics.benchmarker)


def write_one_line(overrides: Any) -> None:
    """Let the module `OVERRIDES` write in one line what it puts between the lines of a program that times kernels."""
    overrides.CpuDeviceOpOverrides.import_get_raw_stream_as = lambda self, name: f"{name} = lambda device: 0"
