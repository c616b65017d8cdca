"""The processors, of those that a test names, whose code this machine runs: results are compared on these."""

from __future__ import annotations

from tilewright.backends.llvm.machine import host_target


def run_here(*cpus: str) -> list[str]:
    """The names of those processors and levels of x86-64 that have no instruction which this machine lacks."""
    return [cpu for cpu in cpus if host_target(cpu).runs_here()]
