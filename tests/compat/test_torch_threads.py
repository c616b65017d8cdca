"""Kernels of torch's graphs on the threads of torch's own OpenMP library."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]

Run = Callable[..., list[str]]

START = """
import os, signal, sys, threading, warnings
import torch
import tilewright.torch_compile
from tilewright.compat import torch_threads
from tilewright.runtime.drivers.cpu.process import native_runtime
from tilewright.runtime.drivers.cpu.native.structs import POOL, TABLE

warnings.simplefilter("error", RuntimeWarning)
runtime = native_runtime()

def own_threads():
    return POOL.read(runtime.pool, "workers") > 0

def function(x, y):
    return (x @ y).sin() + x.cos().sum(0)

def inputs():
    return torch.randn(512, 512), torch.randn(512, 512)

def is_right(compiled, times=5):
    for _ in range(times):
        x, y = inputs()
        torch.testing.assert_close(compiled(x, y), function(x, y))
    return True

def has_shared(compiled, count):
    "Whether `count` threads take part in a kernel before long."
    x, y = inputs()
    most = 0
    for _ in range(3000):
        POOL.write(runtime.pool, "seats", 0)
        compiled(x, y)
        most = max(most, POOL.read(runtime.pool, "seats"))
        if most == count:
            break
    return most == count
"""

NUMBERS = f"""{START}
torch.set_num_threads(2)
compiled = torch.compile(function, backend="tilewright")
for count in (2, 3, 1, 2):
    torch.set_num_threads(count)
    print(is_right(compiled), has_shared(compiled, count if count > 1 else 0), own_threads())
"""


def test_kernels_have_as_many_threads_as_torch_has_now(run: Run) -> None:
    """Also where that changes after a graph was compiled; threads of ours are never started."""
    assert run(NUMBERS) == ["True True False"] * 4


OWN = f"""{START}
{{before}}
torch.set_num_threads(2)
compiled = torch.compile(function, backend="tilewright")
print(is_right(compiled), has_shared(compiled, 2), own_threads(), TABLE.read(runtime.table, "team"))
"""


def test_without_the_function_of_openmp_there_are_threads_of_the_pool(run: Run) -> None:
    before = 'torch_threads.NAMES = ("no_such_function", *torch_threads.NAMES[1:])'
    assert run(OWN.format(before=before)) == ["True True True 0"]


def test_a_number_of_threads_for_tilewright_is_one_of_its_own(run: Run) -> None:
    assert run(OWN.format(before=""), TILEWRIGHT_NUM_THREADS="2") == ["True True True 0"]


THREADS = f"""{START}
torch.set_num_threads(2)
compiled = torch.compile(function, backend="tilewright")
found = [is_right(compiled)]
threads = [threading.Thread(target=lambda: found.append(is_right(compiled, 30))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(240)
print(found, own_threads())
"""


def test_several_threads_of_python_run_graphs_at_once(run: Run) -> None:
    """Each has a team of OpenMP of its own; one of them has the pool's job, the others run alone meanwhile."""
    assert run(THREADS) == ["[True, True, True, True, True] False"]


FORKED = f"""{START}
torch.set_num_threads(2)
compiled = torch.compile(lambda x: x.sin() + x.cos(), backend="tilewright")
x = torch.randn(1 << 20)
wanted = compiled(x)
child = os.fork()
if not child:
    again = torch.compile(lambda x: x.cos() - x.sin(), backend="tilewright") if {{compiles}} else compiled
    with torch._inductor.config.patch(compile_threads=1):
        found = [again(x) for _ in range(3)]
    seen = memoryview(found[-1].numpy()).cast("B")  # torch compares on threads that are gone
    os._exit(0 if {{compiles}} or seen == memoryview(wanted.numpy()).cast("B") else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(bool((compiled(x) == wanted).all()))
"""


@pytest.mark.parametrize("compiles", [False, True])
def test_a_child_of_a_fork_has_threads_of_its_own(run: Run, compiles: bool) -> None:
    """OpenMP would wait in the child for threads that are gone."""
    assert run(FORKED.format(compiles=compiles)) == ["0", "True"]


STOPPED = f"""{START}
import tilewright as tw
import tilewright.language as tl

@tw.jit
def endless(x, first):
    number = tl.program_id(0)
    value = tl.load(x + number)
    if number >= first:
        while value < 2000:
            value = (value * 5 + 1) & 1023
    tl.store(x + number, value)

torch.set_num_threads(2)
torch.compile(function, backend="tilewright")(*inputs())

def stop(number, frame):
    raise InterruptedError

signal.signal(signal.SIGALRM, stop)
x = torch.ones(2, dtype=torch.int32)
endless[(2,)](x, 2)
for _ in range(2):
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        endless[(2,)](x, {{first}})
    except InterruptedError:
        print("stopped", is_right(torch.compile(function, backend="tilewright")), own_threads())
"""


@pytest.mark.parametrize("first", [0, 1])
def test_a_signal_ends_a_launch_on_several_threads(run: Run, first: int) -> None:
    """Also where the caller's own programs have ended, and another thread's have not."""
    assert run(STOPPED.format(first=first)) == ["stopped True False"] * 2
