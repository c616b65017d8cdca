"""Signals while LLVM works: if a handler raised in between, llvmlite would free a string twice or keep its lock."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import signal, sys, threading
from llvmlite.binding import ffi
from tilewright.backends.llvm.machine import LlvmError, compile_object, emit_assembly, host_target

signal.signal(signal.SIGINT, signal.default_int_handler)
target, text = host_target(), "define i32 @f() { ret i32 7 }"
WAYS = {
    "object": lambda: compile_object(text, target),
    "optimized": lambda: compile_object(text, target, optimize=True),
    "assembly": lambda: emit_assembly(text, target),
    "refused": lambda: compile_object("define nonsense", target),
}
work = WAYS[sys.argv[1]]

def attempt():
    try:
        work()
    except LlvmError:
        pass

attempt()
calls, interrupt_at = 0, 0
plain = ffi._lib_fn_wrapper.__call__

def call(self, *args, **kwargs):
    "As a call during which a signal comes: Python handles it when the call is over."
    global calls
    with self._lock:
        result = self._cfn(*args, **kwargs)
        calls += 1
        if calls == interrupt_at:
            signal.raise_signal(signal.SIGINT)
        return result

ffi._lib_fn_wrapper.__call__ = call
attempt()
number = calls
for interrupt_at in range(1, number + 1):
    calls = 0
    try:
        attempt()
    except KeyboardInterrupt:
        pass
    else:
        sys.exit(f"the signal of call {interrupt_at} got lost")
    done = []
    thread = threading.Thread(target=lambda: (attempt(), done.append(1)), daemon=True)
    calls = number * 2  # no more signals
    thread.start()
    thread.join(60)
    if not done:
        sys.exit(f"nobody else can use LLVM after call {interrupt_at}")
print("calls:", number)
"""


@pytest.mark.parametrize("way", ["object", "optimized", "assembly", "refused"])
def test_a_signal_during_any_call_of_llvm_is_handled_behind_it(way: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, way], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) >= 3
