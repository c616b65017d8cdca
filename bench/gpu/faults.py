"""Faults that the simulator reports, provoked on hardware under compute-sanitizer.

python bench/gpu/faults.py build/gpu/agrees.json        # adds its rows to what the part found
python bench/gpu/faults.py --launch "out of bounds"     # provokes one; this is what compute-sanitizer watches

Each fault is a kernel in PTX, which is right but for one line. compute-sanitizer has no check for a fence between a
store and the copy engine: that row says so.
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
RIGHT = {"store": "st.shared.u32 [%r5], %r3;", "barrier": "bar.sync 0;", "distance": "0"}
"""Two warps turn an array round in shared memory; the lines that a fault takes away."""


class Fault(NamedTuple):
    """A fault.

    Attributes:
        lines: of the kernel that are others.
        kind: of the simulator's error.
        tool: of compute-sanitizer; "" where no tool looks for it.
        report: what it prints.
    """

    lines: dict[str, str]
    kind: str
    tool: str
    report: str


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
    "missing fence": Fault({}, "race", "", ""),
    "none": Fault({}, "", "memcheck", ""),
}
"""`none` is the kernel without a fault, of which nothing may be reported."""


def text(name: str) -> str:
    """The kernel of a fault."""
    return REVERSED.format(**(RIGHT | FAULTS[name].lines))


def launch() -> Launch:
    """One program of two warps on one array."""
    parameters, pieces = [["memory", 0, 0]], [["i32", 0]]
    flags = {"dependent": False, "cooperative": False, "exact": True, "has_cubin": False, "has_cpu": False}
    sizes = {"shared": 0, "warps": 2, "ctas": 1, "scratch": 0}
    return Launch("fault", "faults", 75, "reversed", [1, 1, 1], parameters=parameters, pieces=pieces, **sizes, **flags)


def provoke(name: str, device: Any) -> int:
    """Launch the kernel of a fault; gives how many elements are not as they should be without one."""
    x = np.arange(N, dtype=np.int32)
    (found,) = device.repeat(launch(), text(name).encode(), [x.view(np.uint8)])
    return int((found.view(np.int32) != x[::-1]).sum())


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
        return {"skipped": "no tool of compute-sanitizer looks for it"}
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
        print_one(row_of, list(FAULTS))
    else:
        add_rows(Path(sys.argv[1]), [sys.executable, __file__], list(FAULTS), seconds=480)
    return 0


if __name__ == "__main__":
    sys.exit(main())
