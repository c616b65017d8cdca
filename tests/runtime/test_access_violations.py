"""A kernel that accesses what it must not: one line names it, and the process dies as it would have without."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.drivers.cpu.launcher import is_native
from tilewright.runtime.drivers.cpu.loader import CodeRanges, host_machine
from tilewright.runtime.drivers.cpu.native.structs import CODE, CODES, TABLE, Memory
from tilewright.runtime.drivers.cpu.native.text import runtime_text

End = Callable[..., tuple[int, str]]

needs_native = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")

PROGRAM = """
import ctypes, faulthandler, mmap, os, signal, sys, threading
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def reads_far(x, first, far, BLOCK: tl.constexpr):
    pid = tl.program_id(0) + 8 * (tl.program_id(1) + 4 * tl.program_id(2))
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i + far * (pid >= first)))

x = np.zeros(4096, np.float32)
def launch(first=64, far=0, threads=1):
    reads_far[8, 4, 2](x, first, far, BLOCK=64, num_threads=threads)

{body}
"""
FAR = "launch(0, 2**40)"
LINE = (
    'tilewright: access violation{where} in the kernel reads_far, launched over the grid (8, 4, 2): sanitize="bounds"'
)


@pytest.fixture(scope="module")
def end(tmp_path_factory: pytest.TempPathFactory) -> End:
    """Exit status of a process that does this, and what it has written on stderr.

    All programs have one name, so the kernel that they begin with is compiled by the first of them.
    """
    file = tmp_path_factory.mktemp("programs") / "program.py"

    def status_and_errors(body: str, **environment: str) -> tuple[int, str]:
        file.write_text(PROGRAM.format(body=body))
        done = subprocess.run(
            [sys.executable, str(file)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env={**os.environ, "TILEWRIGHT_NUM_THREADS": "4", **environment},
        )
        lines = done.stderr.splitlines(keepends=True)
        return done.returncode, "".join(line for line in lines if not line.startswith("qemu: "))  # an emulator's own

    return status_and_errors


QUICK = ("first launch", "on several threads")
WAYS = {
    "first launch": FAR,
    "known launch": f"for _ in range(20): launch()\n{FAR}",
    "on several threads": "launch(0, 2**40, threads=4)",
    "only on a thread of the pool": """
@tw.jit
def reads_far(x, n, far):
    v = tl.load(x)
    if tl.program_id(0) + tl.program_id(1) + tl.program_id(2) == 0:
        for _ in range(n):
            v = v * 5 + 1
        tl.store(x, v)
    else:
        tl.store(x + far, v)
numbers = np.zeros(8, np.int32)
reads_far[8, 4, 2](numbers, 1, 0)
reads_far[8, 4, 2](numbers, 2**31 - 1, 2**40)
""",
    "in another thread of Python": f"thread = threading.Thread(target=lambda: {FAR}); thread.start(); thread.join()",
    "in the child of a fork": f"""
launch()
child = os.fork()
if child == 0:
    {FAR}
signal.raise_signal(os.WTERMSIG(os.waitpid(child, 0)[1]))
""",
}


@needs_native
@pytest.mark.parametrize(
    "body",
    [pytest.param(body, id=way, marks=() if way in QUICK else pytest.mark.slow) for way, body in WAYS.items()],
)
def test_one_line_names_the_kernel_and_the_process_dies_of_the_signal(end: End, body: str) -> None:
    status, text = end(body)
    assert status == -signal.SIGSEGV
    assert len(text.splitlines()) == 1
    assert text.startswith("tilewright: access violation at address 0x")
    assert LINE.format(where="").removeprefix("tilewright: access violation") in text


@pytest.mark.spared
@needs_native
def test_an_address_that_is_none_is_not_shown(end: End) -> None:
    status, text = end("launch(0, 2**60 + 1)")
    assert status in (-signal.SIGSEGV, -signal.SIGBUS)  # which of them depends on the instruction
    assert text.startswith(LINE.format(where=""))


@pytest.mark.spared
@needs_native
def test_memory_behind_the_end_of_a_file(end: End, tmp_path: Path) -> None:
    """SIGBUS: mapped, but there is nothing."""
    body = f"""
path = {str(tmp_path / "short")!r}
with open(path, "wb+") as file:
    file.truncate(65536)
    x = np.frombuffer(mmap.mmap(file.fileno(), 65536), np.float32)
    file.truncate(0)
launch()
"""
    status, text = end(body)
    assert status == -signal.SIGBUS
    assert text.startswith("tilewright: access violation at address 0x")


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler_goes_on_working(end: End, when: str, threads: int) -> None:
    """Whether it was enabled before the first launch or after."""
    enable, known = "faulthandler.enable()", "launch(); launch()"
    first, second = (enable, known) if when == "before" else (known, enable)
    status, text = end(f"{first}\n{second}\nlaunch(63, 2**40, threads={threads})")
    assert status == -signal.SIGSEGV
    assert text.count("Fatal Python error: Segmentation fault") == 1
    assert 'program.py", line' in text
    assert text.count("tilewright: access violation") == 1
    assert LINE.format(where="").removeprefix("tilewright: access violation") in text


@pytest.mark.spared
@needs_native
def test_a_handler_that_was_there_is_called_and_may_repair_the_access(end: End) -> None:
    body = """
memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None)
calls = []

@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def repair(number, info, context):
    calls.append(number)
    libc.mprotect(ctypes.c_void_p(start), 2 * mmap.PAGESIZE, 3)

address = ctypes.cast(repair, ctypes.c_void_p).value
libc.sigaction(11, address.to_bytes(8, "little") + bytes(128) + (4).to_bytes(16, "little"), None)
x = np.frombuffer(memory, np.float32)
for turn in range(3):
    libc.mprotect(ctypes.c_void_p(start), 2 * mmap.PAGESIZE, 0)
    reads_far[(8,)](x, 64, 0, BLOCK=64, num_threads=1)
    assert len(calls) == turn + 1
"""
    status, text = end(body)
    assert (status, text.count("\n")) == (0, 1), text  # the line is wrong here, and is not printed again
    assert "access violation" in text


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("launch(); ctypes.string_at(8)", -signal.SIGSEGV),
        ("launch(); os.kill(os.getpid(), signal.SIGSEGV); threading.Event().wait(60)", -signal.SIGSEGV),
        ("launch(); os.kill(os.getpid(), signal.SIGBUS); threading.Event().wait(60)", -signal.SIGBUS),
        ("launch(0, 2**40) if False else os.abort()", -signal.SIGABRT),
        ("signal.signal(11, signal.SIG_IGN); launch(); os.kill(os.getpid(), 11); sys.exit(7)", 7),
        (
            "launch(); signal.signal(11, lambda *_: sys.exit(9)); os.kill(os.getpid(), 11); threading.Event().wait(60)",
            9,
        ),
    ],
)
def test_what_no_kernel_did_is_not_explained_and_ends_as_before(end: End, body: str, expected: int) -> None:
    assert end(body) == (expected, "")


@pytest.mark.slow
@needs_native
def test_handlers_that_were_installed_later_are_left_alone(end: End) -> None:
    body = (
        f"launch(); faulthandler.enable(); faulthandler.disable(); signal.signal(11, signal.SIG_DFL); launch(); {FAR}"
    )
    assert end(body) == (-signal.SIGSEGV, "")


@tw.jit
def adds_one(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1)


def test_ranges_come_and_go_with_kernels() -> None:
    ranges = CodeRanges()
    places = [ranges.add(0x1000 * n, 0x800, f"kernel {n}") for n in range(1, 40)]
    for place in places[::2]:
        ranges.remove(place)
    again = [ranges.add(0x1000 * n, 0x800, "größe") for n in range(100, 110)]
    assert set(again) <= set(places[::2]), "places are used again"
    assert CODES.read(ranges.address, "count") == len(places)
    first = CODES.read(ranges.address, "entries")
    found = {}
    for place in range(len(places)):
        entry = first + place * CODE.size
        begin, stop = CODE.read(entry, "begin"), CODE.read(entry, "end")
        if stop:
            assert stop == begin + 0x800
            found[begin] = CODE.read(entry, "size")
    assert found == {
        **{0x1000 * n: len(f"kernel {n}") for n in range(2, 40, 2)},
        **{0x1000 * n: len("größe".encode()) for n in range(100, 110)},
    }


@needs_native
def test_code_is_found_by_the_addresses_of_its_bytes_alone() -> None:
    """The handler's own function, with a table of its own: between two kernels, and behind the last, there is none."""
    ranges = CodeRanges()
    for begin in (0x1000, 0x3000, 0x2000):
        ranges.add(begin, 0x800, "a kernel")
    first = CODES.read(ranges.address, "entries")
    table = Memory(TABLE.pack(codes=ranges.address))
    (function,) = re.findall(r"^define internal (ptr @code_at\(.*?^})", runtime_text(host_machine()), re.DOTALL | re.M)
    engine = engine_of(f"@runtime = global ptr null\ndefine {function.replace(' noinline cold #0', '')}")
    ctypes.c_uint64.from_address(engine.get_global_value_address("runtime")).value = table.address
    code_at = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int64)(engine.get_function_address("code_at"))
    for place, begin in enumerate((0x1000, 0x3000, 0x2000)):
        assert [code_at(begin), code_at(begin + 0x7FF)] == [first + place * CODE.size] * 2
        assert [code_at(begin - 1), code_at(begin + 0x800)] == [0, 0]


def engine_of(text: str) -> Any:
    """Machine code of LLVM IR, in this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine


def test_a_kernel_is_known_as_long_as_it_is_mapped() -> None:
    from tilewright.runtime.drivers.cpu.loader import ranges

    kernel = tw.jit(adds_one.fn)[(1,)](np.zeros(16, np.float32), BLOCK=16)
    entries = CODES.read(ranges.address, "entries")
    inside = [
        place
        for place in range(CODES.read(ranges.address, "count"))
        if CODE.read(entries + place * CODE.size, "begin")
        <= kernel.entry
        < CODE.read(entries + place * CODE.size, "end")
    ]
    assert len(inside) == 1
