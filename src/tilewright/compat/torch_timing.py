"""Which candidates of a kernel Inductor times on the CPU, and how long.

torch runs each for 25 ms and then for 100 ms, which is meant for products. Triton kernels of a model have a hundred
candidates that take microseconds, and timing them took a third of the time to compile it.

Whether two kernels are faster as one (`benchmark_fusion`), torch 2.13 cannot time on a CPU: Python cannot parse the
program that it writes for that, nor has it the device. Kernels are fused without, as those of the C++ back end are.

`max_autotune` offers templates of products in C++ beside ours. They need a C++ compiler, and torch cannot fuse a Triton
kernel to one: where our kernels are asked for, they are no candidates.
"""

from __future__ import annotations

from typing import Any

SCHEDULER = "torch._inductor.scheduler"
CHOICES = "torch._inductor.utils"
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


def fuse_untimed(scheduler: Any) -> None:
    """Let the module `SCHEDULER` fuse kernels for CPUs untimed, but no products whose kernel is yet to choose."""
    times, undecided = scheduler.Scheduler.speedup_by_fusion, scheduler.ir.MultiTemplateBuffer

    def speedup_by_fusion(self: Any, first: Any, second: Any) -> Any:
        if first.get_nodes()[0].get_device().type != "cpu":
            return times(self, first, second)
        if any(node.is_template() and isinstance(node.get_template_node(), undecided) for node in (first, second)):
            return scheduler.FusionResult.fuse(False)
        with scheduler.config.patch(cpu_backend="cpp"):
            return times(self, first, second)

    scheduler.Scheduler.speedup_by_fusion = speedup_by_fusion


def leave_out_cpp(choices: Any) -> None:
    """Let the module `CHOICES` offer no templates in C++ where kernels for CPUs are Triton's."""
    offered = choices._use_template_for_cpu

    def is_offered(layout: Any) -> bool:
        return choices.config.cpu_backend != "triton" and bool(offered(layout))

    choices._use_template_for_cpu = is_offered
