"""Compiled kernels print the same lines as kernels that run in Python, whole and complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels

Capture = pytest.CaptureFixture[str]


def shows(x_ptr, HEX: tl.constexpr, BLOCK: tl.constexpr):
    tl.device_print("x", tl.load(x_ptr + tl.arange(0, BLOCK)), hex=HEX)


def printed_by(function: Callable[..., None], capsys: Capture, *args: Any, **options: Any) -> list[str]:
    """The lines of one launch, after a check that both ways to run the kernel print the same."""
    outputs = []
    for kernel in (tw.jit(function), tw.jit(function, interpret=True)):
        kernel[options.get("grid", (1,))](*args, num_threads=1)
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    return outputs[0].splitlines()


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str, capsys: Capture) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, 1], dtype)
    lines = printed_by(shows, capsys, x, False, 4)
    assert lines == [f"pid (0, 0, 0) idx ({i}) x: {value}" for i, value in enumerate(x.tolist())]
    width = x.dtype.itemsize * 2
    lines = printed_by(shows, capsys, x, True, 4)
    bits = x.view(f"u{x.dtype.itemsize}").tolist()
    assert lines == [f"pid (0, 0, 0) idx ({i}) x: 0x{value:0{width}x}" for i, value in enumerate(bits)]


FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: str, capsys: Capture) -> None:
    x = np.array([0.5, -1.25, 3, 0.109375], np.float32).astype(FLOATS[dtype])
    lines = printed_by(shows, capsys, x, False, 4)
    assert lines == [f"pid (0, 0, 0) idx ({i}) x: {float(value):f}" for i, value in enumerate(x)]
    lines = printed_by(shows, capsys, x, True, 4)
    bits, width = x.view(f"u{x.dtype.itemsize}").tolist(), x.dtype.itemsize * 2
    assert lines == [f"pid (0, 0, 0) idx ({i}) x: 0x{value:0{width}x}" for i, value in enumerate(bits)]


def test_special_numbers(capsys: Capture) -> None:
    lines = printed_by(shows, capsys, np.array([np.inf, -np.inf, np.nan, -0.0]), False, 4)
    assert [line.rpartition(" ")[2] for line in lines] == ["inf", "-inf", "nan", "-0.000000"]


def many_things(x_ptr, n, ratio):
    tl.device_print("no values")
    tl.device_print("", tl.program_id(1))
    tl.device_print("n: ", n, ratio)
    tl.device_print("small", tl.arange(0, 4) < 2)
    tl.device_print(" place ", tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :])
    tl.device_print("constant", 7)


def test_scalars_several_operands_and_axes(capsys: Capture, golden: Callable[[str, str], None]) -> None:
    lines = printed_by(many_things, capsys, np.zeros(4), 5, 0.5, grid=(1, 2))
    golden("\n".join(lines) + "\n", "cpu/prints.txt")


def pointing(x_ptr):
    tl.device_print("ptr", x_ptr + tl.arange(0, 2))


def test_pointers(capsys: Capture) -> None:
    x = np.zeros(4, np.int32)
    lines = printed_by(pointing, capsys, x)
    assert lines[1] == f"pid (0, 0, 0) idx (1) ptr: {hex(x.ctypes.data + 4)}"


def test_large_tiles_of_many_programs_come_whole_from_two_threads(capsys: Capture) -> None:
    @tw.jit
    def kernel():
        tl.device_print("x ", tl.full([64, 128], 1, tl.int32))

    kernel[(4, 2)](num_threads=2)
    lines = Counter(capsys.readouterr().out.splitlines())
    wanted = [
        f"pid ({x}, {y}, 0) idx ({i:2}, {j:3}) x: 1"
        for x in range(4)
        for y in range(2)
        for i in range(64)
        for j in range(128)
    ]
    assert lines == Counter(wanted)


def test_in_loops_branches_and_callees(capsys: Capture) -> None:
    @tw.jit
    def callee(value):
        tl.device_print("callee", value)
        return value * 2

    @tw.jit
    def kernel(x_ptr, n):
        total = tl.zeros([4], tl.float32)
        for i in range(n):
            tile = tl.load(x_ptr + i * 4 + tl.arange(0, 4))
            if i == 1:
                tl.device_print("odd", tile)
            total += tile
        tl.store(x_ptr + tl.arange(0, 4), total)
        tl.device_print("sum", callee(tl.sum(total)))

    x = np.arange(8, dtype=np.float32)
    kernel[(1,)](x, 2)
    shown = [re.sub(r"pid .* idx ", "", line) for line in capsys.readouterr().out.splitlines()]
    assert shown == [*(f"({i}) odd: {i + 4}.000000" for i in range(4)), "() callee: 28.000000", "() sum: 56.000000"]
    assert x[:4].tolist() == [4, 6, 8, 10]


def test_an_empty_grid_prints_nothing(capsys: Capture) -> None:
    tw.jit(shows)[(0,)](np.zeros(4), False, 4)
    assert capsys.readouterr().out == ""


class Closed:
    """An output that fails after some text."""

    def __init__(self) -> None:
        self.left = 3

    def write(self, text: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError("nobody reads")


@pytest.mark.parametrize("threads", [1, 2])
def test_an_output_that_fails_ends_the_launch(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tw.jit(shows)
    output = Closed()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        with pytest.raises(BrokenPipeError, match="nobody reads"):
            kernel[(1000,)](np.zeros(4), False, 4, num_threads=threads)
        assert output.left > -10
    kernel[(1,)](np.zeros(4), False, 4)


@pytest.mark.parametrize("stage", ["ttir", "ttcir", "llir"])
def test_texts_of_stages_print_and_check_too(stage: str, tmp_path: Path, capsys: Capture) -> None:
    def checked(x_ptr, n):
        offsets = tl.arange(0, 2)
        tl.device_print("x", tl.load(x_ptr + offsets))
        tl.device_assert(offsets < n, "few")

    compiled = tw.jit(checked, debug=True).warmup(np.zeros(2), 5, grid=(1,))
    path = tmp_path / f"checked.{stage}"
    path.write_text(str(compiled.asm[stage]))
    again = tw.compile(str(path))
    with pytest.raises(tw.DeviceAssertError, match="few"):
        again[(1,)](np.zeros(2), 1)
    assert capsys.readouterr().out == "".join(f"pid (0, 0, 0) idx ({i}) x: 0.000000\n" for i in range(2))


def test_an_interrupt_ends_a_program_that_prints_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    @tw.jit
    def kernel(n):
        for i in range(n):
            tl.device_print("i", i)

    class Interrupted(Closed):
        def write(self, text: str) -> None:
            if text.endswith(" i: 5\n"):
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            kernel[(1,)](1 << 30)


PROGRAM = """
import sys
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit(debug=True)
def kernel(x_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 2))
    tl.device_print("x", x)
    tl.device_assert(x < n, "small")

kernel[(1,)](np.arange(2.0), 5)
try:
    kernel[(1,)](np.arange(2.0), 1)
except RuntimeError as error:
    print(str(error).splitlines()[0])
print("llvmlite" in sys.modules)
"""


@pytest.mark.slow
def test_the_next_process_needs_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache_without_kernels(tmp_path / "cache"))}
    outputs = [
        subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert outputs[0][:-1] == outputs[1][:-1]
    assert outputs[0][0] == "pid (0, 0, 0) idx (0) x: 0.000000"
    assert outputs[0][4] == "error: device-side assertion failed: small"
    assert [lines[-1] for lines in outputs] == ["True", "False"]
