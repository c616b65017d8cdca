"""LLVM for GPUs runs in a process of its own: what it cannot compile is an error, and never the end of this process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tilewright.backends.llvm import nvptx
from tilewright.backends.llvm.machine import LlvmError

DOUBLE = """
define ptx_kernel void @double(ptr addrspace(1) %p) "nvvm.reqntid"="128" {
  %v = load float, ptr addrspace(1) %p
  %w = fadd contract float %v, %v
  store float %w, ptr addrspace(1) %p
  ret void
}
"""
ABORTS = DOUBLE.replace("fadd contract float %v, %v", "call float @llvm.log2.f32(float %v)")


def emit(text: str) -> str:
    return nvptx.emit_ptx(text, "sm_90a", "+ptx84")


def test_ptx_of_a_module() -> None:
    text = emit(DOUBLE)
    assert ".target sm_90a" in text
    assert "add.f32" in text


def test_invalid_text_names_its_line() -> None:
    with pytest.raises(LlvmError, match=r"(?s)expected instruction.*in: %w = fxdd"):
        emit(DOUBLE.replace("fadd", "fxdd"))


def test_abort_is_an_error_and_the_next_request_is_served() -> None:
    with pytest.raises(LlvmError, match="no libcall available for flog2"):
        emit(ABORTS)
    assert "add.f32" in emit(DOUBLE)


def test_process_that_was_ended_meanwhile_is_replaced() -> None:
    emit(DOUBLE)
    worker = nvptx._idle[-1]
    worker._process.kill()
    worker._process.wait()
    assert "add.f32" in emit(DOUBLE)


def test_process_is_reused() -> None:
    emit(DOUBLE)
    worker = nvptx._idle[-1]
    emit(DOUBLE)
    assert nvptx._idle[-1] is worker


@pytest.mark.slow
def test_threads_have_a_process_each() -> None:
    with ThreadPoolExecutor(3) as threads:
        assert len(set(threads.map(emit, [DOUBLE] * 6))) == 1


@pytest.mark.slow
def test_forked_child_starts_its_own() -> None:
    emit(DOUBLE)
    child = os.fork()
    if child == 0:
        found = "add.f32" in emit(DOUBLE) and len(nvptx._all) == 1
        nvptx._end_all()
        os._exit(0 if found else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "add.f32" in emit(DOUBLE)


@pytest.mark.slow
def test_process_ends_with_the_one_that_started_it() -> None:
    program = (
        "from tilewright.backends.llvm import nvptx; import os; nvptx.start(); "
        "print(nvptx._idle[0]._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{int(run.stdout)}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{int(run.stdout)}").exists()


@pytest.mark.slow
def test_idle_process_ends_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    nvptx._end_all()
    nvptx._idle.clear()
    monkeypatch.setattr(nvptx, "IDLE_SECONDS", 0.05)
    nvptx.start()
    worker = nvptx._idle[-1]
    worker._process.wait(timeout=60)
    monkeypatch.setattr(nvptx, "IDLE_SECONDS", 600)
    assert "add.f32" in emit(DOUBLE)
    assert nvptx._idle[-1] is not worker


@pytest.mark.slow
def test_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("import no_such_module\n")
    nvptx._end_all()
    nvptx._idle.clear()
    monkeypatch.setattr(nvptx, "WORKER", str(tmp_path / "worker.py"))
    with pytest.raises(LlvmError, match="No module named 'no_such_module'"):
        emit(DOUBLE)
