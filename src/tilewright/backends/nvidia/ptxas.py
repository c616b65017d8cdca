"""PTX → cubin, by NVIDIA's assembler; and the machine code of a cubin as text, by NVIDIA's disassembler.

    assembled = assemble(ptx, "sm_90a", ptxas="/usr/local/cuda/bin/ptxas", flags=("-lineinfo",))
    assembled.cubin, assembled.registers, assembled.local_bytes
    assemble_kernel(ptx, …)        # the same; a second run where ptxas fails to allocate registers

These programs do not come with this package; `tools.py` finds them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.backends.nvidia.tools import MissingToolError, find_nvdisasm
from tilewright.support import knobs
from tilewright.support.diagnostics import PTXASError
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import is_raised_by_handler

ALWAYS = ("-v", "--regAllocOptLevel=2")
"""Flags: report resources; and, as Triton, let ptxas 13 take its time with registers."""
_REGISTERS = re.compile(r"Used (\d+) registers")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_PLACE = re.compile(r"line (\d+)\s*;?")
_THREADS = re.compile(r"^\.reqntid (\d+).*$", re.M)
MAX_PLACES = 5
MAX_REGISTERS = 255
REGISTERS_OF_BLOCK = 65536


class Assembled(NamedTuple):
    """A cubin, and what its kernel uses.

    Attributes:
        cubin: the machine code.
        registers: per thread.
        spilled_bytes: stored by a thread because it had too few registers.
        local_bytes: of memory of its own that a thread has, spilled registers included.
    """

    cubin: bytes
    registers: int
    spilled_bytes: int
    local_bytes: int


def assemble_kernel(ptx: str, cpu: str, *, ptxas: str, flags: Sequence[str] = ()) -> Assembled:
    """`assemble`; a kernel with far more values than registers is not spilled altogether.

    Where values are twice as many as registers, ptxas may give up, keep everything in memory and use 32 registers.
    `.maxnreg`, which here says nothing new, makes it go on. It is not for other kernels: they may take more registers.
    """
    found = assemble(ptx, cpu, ptxas=ptxas, flags=flags)
    threads = _THREADS.search(ptx)
    if threads is None or not found.spilled_bytes or ".maxnreg" in ptx:
        return found
    limit = min(MAX_REGISTERS, REGISTERS_OF_BLOCK // int(threads[1]))
    if found.registers > limit // 2:
        return found
    limited = f"{ptx[: threads.end()]}\n.maxnreg {limit}{ptx[threads.end() :]}"
    again = assemble(limited, cpu, ptxas=ptxas, flags=flags)
    return min(found, again, key=lambda assembled: assembled.spilled_bytes)


def assemble(ptx: str, cpu: str, *, ptxas: str, flags: Sequence[str] = ()) -> Assembled:
    """The cubin of a PTX module with one kernel.

    Args:
        cpu: the device, as `sm_90a`.
        ptxas: the assembler.
        flags: further arguments.

    Raises:
        PTXASError: the assembler refuses the text; the error shows the lines that it names.
        MissingToolError: the assembler cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [ptxas, *ALWAYS, *flags, f"--gpu-name={cpu}", str(source), "-o", str(target)]
        try:
            run = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
        except OSError as error:
            if is_raised_by_handler(error):
                raise
            raise MissingToolError(f"{ptxas} cannot be started: {error.strerror}") from None
        log = run.stderr + run.stdout
        if knobs.nvidia.dump_ptxas_log:
            sys.stdout.write(log)
        if run.returncode:
            raise PTXASError(_failure(run.returncode, log.replace(str(source), "kernel.ptx"), ptx, command))
        return _measured(target.read_bytes(), log)


def _measured(cubin: bytes, log: str) -> Assembled:
    """The measures of the kernel in the log, where it comes last: functions that it calls come before it."""
    registers = [int(number) for number in _REGISTERS.findall(log)]
    frames = [(int(frame), int(stores)) for frame, stores, _ in _FRAME.findall(log)]
    frame, stores = max(frames, default=(0, 0))
    return Assembled(cubin, max(registers, default=0), stores, frame)


def _failure(status: int, log: str, ptx: str, command: Sequence[str]) -> str:
    """The text of an error: how it ended, what it said, the lines that this is about, and how to repeat it."""
    ended = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
    repeat = " ".join([*command[:-3], "kernel.ptx -o kernel.cubin"])
    return "\n".join([f"ptxas {ended}", *log.strip().splitlines(), *_named_lines(log, ptx), f"command: {repeat}"])


def _named_lines(log: str, ptx: str) -> Iterator[str]:
    lines = ptx.splitlines()
    numbers = dict.fromkeys(int(number) for number in _PLACE.findall(log))
    for number in list(numbers)[:MAX_PLACES]:
        if 0 < number <= len(lines):
            yield f"{number:>6} | {lines[number - 1].strip()}"


def disassemble(cubin: bytes) -> str:
    """The machine code of a cubin as text.

    Raises:
        MissingToolError: nvdisasm is not installed, or fails.
    """
    program = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        run = subprocess.run([program, "-c", path], check=False, capture_output=True, text=True)
    if run.returncode:
        raise MissingToolError(f"{program} failed: {run.stderr.strip()}")
    return run.stdout
