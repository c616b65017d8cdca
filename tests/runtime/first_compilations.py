"""Forks while another thread compiles for the first time in its process; run as a program by test_threads_and_forks.

    python first_compilations.py 200            prints the statuses of the forked children that are not 0

The compiler is imported when it is needed. This process never needs it, so that each of its children imports it anew.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

import tilewright as tw
import tilewright.language as tl

DEADLINE = 60


@tw.jit
def shift(x, ADDED: tl.constexpr):
    offsets = tl.arange(0, 16)
    tl.store(x + offsets, tl.load(x + offsets) + ADDED)


def check(added: int) -> None:
    x = np.zeros(16, np.float32)
    shift[(1,)](x, added)
    assert (x == added).all()


def in_child(work: Any, *arguments: Any) -> int:
    """The exit status of a forked child that does `work`; below 0 the signal that killed it, SIGALRM if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE)
        try:
            work(*arguments)
        except BaseException as error:  # noqa: BLE001 - the parent must not run twice
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def first_compilation(number: int, delay: float) -> None:
    """A thread compiles; after `delay` seconds there is a fork, and the child compiles, too."""
    thread = threading.Thread(target=check, args=(2 * number,))
    thread.start()
    time.sleep(delay)
    status = in_child(check, 2 * number + 1)
    thread.join()
    assert status == 0, f"the child, forked after {delay:.3f} s, ended with {status}"


def main(count: int) -> None:
    started = time.perf_counter()
    statuses = [in_child(check, -1)]
    whole = time.perf_counter() - started
    statuses += [in_child(first_compilation, number, whole * number / count) for number in range(count)]
    assert "tilewright.compiler.compile" not in sys.modules
    sys.stdout.write(repr([status for status in statuses if status]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
