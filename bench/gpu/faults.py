"""Faults that the simulator reports, provoked on hardware under compute-sanitizer.

python bench/gpu/faults.py build/gpu/agrees.json        # adds its rows to what the part found
python bench/gpu/faults.py --launch "out of bounds"     # provokes one; this is what compute-sanitizer watches

Each fault is a kernel in PTX, which is right but for one line. compute-sanitizer has no check for a fence between
stores and the copy engine, and hardware may get such a kernel right by chance. That row runs the kernel both ways, says
how much went wrong without the fence, and is good where all was right with it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from driver import CudaError, Device
from launches import Launch
from processes import add_rows, print_one

FOUND = 86
"""The exit status that compute-sanitizer is asked for where it found something."""
SECONDS = 60
N = 64

REVERSED = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry reversed(.param .u64 x, .param .u64 scratch, .param .u64 profile)
.reqntid 64, 1, 1
{{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<2>;
  .shared .align 16 .b8 tile[256];
  ld.param.u64 %rd1, [x];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  cvt.u64.u32 %rd2, %r2;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r3, [%rd3];
  mov.u32 %r4, tile;
  add.u32 %r5, %r4, %r2;
  {store}
  {barrier}
  sub.u32 %r6, %r4, %r2;
  ld.shared.u32 %r7, [%r6+252];
  st.global.u32 [%rd3+{distance}], %r7;
  ret;
}}
"""
REVERSED_BY_ENGINE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry reversed(.param .u64 x, .param .u64 scratch, .param .u64 profile)
.reqntid 64, 1, 1
{{
  .reg .b32 %r<8>;
  .reg .b64 %rd<6>;
  .reg .pred %p<2>;
  .shared .align 128 .b8 tile[256];
  ld.param.u64 %rd1, [x];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd2, %r2, {stride};
  add.u64 %rd1, %rd1, %rd2;
  shl.b32 %r3, %r1, 2;
  cvt.u64.u32 %rd3, %r3;
  mov.u32 %r4, tile;
  sub.u32 %r5, %r4, %r3;
  mov.u32 %r7, 0;
ROUND:
  add.u64 %rd4, %rd1, %rd3;
  ld.global.u32 %r6, [%rd4];
  st.shared.u32 [%r5+252], %r6;
  {fence}
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra COPIED;
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
COPIED:
  bar.sync 0;
  add.u64 %rd1, %rd1, 256;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, {rounds};
  @%p1 bra ROUND;
  ret;
}}
"""
RIGHT = {
    "store": "st.shared.u32 [%r5], %r3;",
    "barrier": "bar.sync 0;",
    "distance": "0",
    "fence": "fence.proxy.async.shared::cta;",
    "rounds": "1",
    "stride": "256",
}
"""Two warps turn an array round in shared memory; the lines that a fault takes away."""
PROGRAMS, ROUNDS = 1024, 64
"""Programs, and rounds of each through the same memory, for a fault that only shows in results."""


class Fault(NamedTuple):
    """A fault.

    Attributes:
        lines: of the kernel that are others.
        kind: of the simulator's error.
        tool: of compute-sanitizer; "" where no tool looks for it.
        report: what it prints.
        kernel: that is right without the fault.
        needs: the least capability.
    """

    lines: dict[str, str]
    kind: str
    tool: str
    report: str
    kernel: str = REVERSED
    needs: int = 75


FAULTS = {
    "missing barrier": Fault({"barrier": ""}, "race", "racecheck", r"hazard|Race reported"),
    "out of bounds": Fault(
        {"distance": str(1 << 30)}, "out of bounds", "memcheck", r"Invalid __global__ write of size 4"
    ),
    "out of shared memory": Fault(
        {"store": "st.shared.u32 [%r5+1048576], %r3;"}, "out of bounds", "memcheck", r"Invalid __shared__ write"
    ),
    "divergent barrier": Fault(
        {"barrier": "setp.ge.u32 %p1, %r1, 40;\n  @%p1 bra OVER;\n  bar.sync 0;\nOVER:"},
        "divergent warp",
        "synccheck",
        r"[Dd]ivergent",
    ),
    "missing fence": Fault({"fence": ""}, "race", "", "", REVERSED_BY_ENGINE, needs=90),
    "none": Fault({}, "", "memcheck", ""),
}
"""`none` is the kernel without a fault, of which nothing may be reported."""


def text(name: str, **lines: str) -> str:
    """The kernel of a fault; with other lines, where they are given."""
    return FAULTS[name].kernel.format(**(RIGHT | FAULTS[name].lines | lines))


def launch(name: str, programs: int = 1) -> Launch:
    """Programs of two warps on one array."""
    parameters, pieces = [["memory", 0, 0]], [["i32", 0]]
    flags = {"dependent": False, "cooperative": False, "exact": True, "has_cubin": False, "has_cpu": False}
    sizes = {"shared": 0, "warps": 2, "ctas": 1, "scratch": 0}
    grid, lists = [programs, 1, 1], {"parameters": parameters, "pieces": pieces}
    return Launch("fault", "faults", FAULTS[name].needs, "reversed", grid, **lists, **sizes, **flags)


def provoke(name: str, device: Any) -> int:
    """Launch the kernel of a fault; gives how many elements are not as they should be without one."""
    return wrong_elements(launch(name), text(name), device, N)


def wrong_elements(what: Launch, code: str, device: Any, size: int) -> int:
    """The number of wrong elements behind a launch that has to turn round every 64 of so many."""
    x = np.arange(size, dtype=np.int32)
    (found,) = device.repeat(what, code.encode(), [x.view(np.uint8)])
    return int((found.view(np.int32).reshape(-1, N) != x.reshape(-1, N)[:, ::-1]).sum())


def observed(name: str, device: Any, *, programs: int = PROGRAMS, rounds: int = ROUNDS) -> dict[str, Any]:
    """The row of a fault that no tool looks for: what went wrong without the line, and that nothing does with it."""
    if device.capability < FAULTS[name].needs:
        return {"skipped": f"capability {device.capability} has no such fault, {FAULTS[name].needs} has"}
    sizes = {"rounds": str(rounds), "stride": str(4 * N * rounds)}
    size, what = N * programs * rounds, launch(name, programs)
    whole = {line: RIGHT[line] for line in FAULTS[name].lines}
    right = wrong_elements(what, text(name, **sizes, **whole), device, size)
    faulty = wrong_elements(what, text(name, **sizes), device, size)
    found = f"{faulty} of {size} elements wrong, {right} without it"
    return {"good": right == 0, "report": f"no tool looks for it; {found}"}


def command(name: str, sanitizer: str = "compute-sanitizer") -> list[str]:
    """compute-sanitizer watches a process that provokes a fault."""
    options = ["--tool", FAULTS[name].tool, "--error-exitcode", str(FOUND)]
    return [sanitizer, *options, sys.executable, __file__, "--launch", name]


def verdict(name: str, status: int, printed: str) -> dict[str, Any]:
    """The row, from what compute-sanitizer printed."""
    fault, summary = FAULTS[name], re.search(r"(ERROR|RACECHECK) SUMMARY: (.*)", printed)
    if summary is None:
        return {"good": False, "problem": f"compute-sanitizer ended with status {status}: {printed.strip()[-200:]}"}
    row = {"tool": fault.tool, "report": summary[2].strip()}
    if not fault.report:
        return {"good": status == 0 and summary[2].startswith("0 "), **row}
    return {"good": status == FOUND and re.search(fault.report, printed) is not None, **row}


def row_of(name: str) -> dict[str, Any]:
    """Provoke a fault under compute-sanitizer."""
    if not FAULTS[name].tool:
        try:
            return observed(name, Device())
        except CudaError as error:
            return {"good": False, "problem": str(error)}
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if sanitizer is None:
        return {"skipped": "compute-sanitizer is not installed"}
    try:
        done = subprocess.run(command(name, sanitizer), check=False, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"good": False, "problem": f"it took longer than {SECONDS} s"}
    return verdict(name, done.returncode, done.stdout + done.stderr)


def main() -> int:
    if sys.argv[1] == "--launch":
        try:
            print(provoke(sys.argv[2], Device()), "elements are wrong")
        except CudaError as error:
            print(error)
    elif sys.argv[1] == "--skip":
        print_one(row_of, list(FAULTS), int(sys.argv[2]))
    else:
        add_rows(Path(sys.argv[1]), [sys.executable, __file__], list(FAULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
