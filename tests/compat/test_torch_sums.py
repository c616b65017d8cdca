"""Sums by index in graphs, which are atomics of one launch, and the gradients that need none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]

Run = Callable[..., list[str]]

PROGRAM = """
import torch
from torch._inductor.utils import run_and_get_code
import tilewright as tw, tilewright.language as tl
import tilewright.torch_compile
{again}
@tw.jit
def count(x_ptr, sums_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(sums_ptr + tl.load(x_ptr + i), 1, sem="relaxed")

torch.set_num_threads({threads})
def add(sums, places, x):
    return sums.index_put((places,), x, accumulate=True)
places, x, sums = torch.randint(4, (1 << 18,)), torch.ones(1 << 18), torch.zeros(4)
got, (text,) = run_and_get_code(torch.compile(add, backend="tilewright"), sums, places, x)
print((got == add(sums, places, x)).all().item(), "sem='relaxed', scope='launch')" in text)

def users(places):
    sums = torch.zeros(4, dtype=torch.int32)
    torch.library.wrap_triton(count)[(1,)](places, sums, 64)
    return sums
got, (text,) = run_and_get_code(torch.compile(users, backend="tilewright"), places[:64].int())
print((got == places[:64].bincount(minlength=4)).all().item(), "scope=" in text)
"""


UPSAMPLING = """
import torch
from torch._inductor.utils import run_fw_bw_and_get_code

def doubled(x):
    return 2 * torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")

x = torch.randn(2, 3, 8, 8, requires_grad=True)
for backend in ("tilewright", "inductor"):
    torch.compiler.reset()
    found, (_, backward) = run_fw_bw_and_get_code(lambda: torch.compile(doubled, backend=backend)(x))
    ours, x.grad = x.grad, None
    doubled(x).sum().backward()
    torch.testing.assert_close(found, doubled(x))
    torch.testing.assert_close(ours, x.grad)
    print("aten.upsample_bilinear2d_backward.default(" in backward)
    x.grad = None
"""

WITHOUT_GRADIENTS = """
import torch
from torch._inductor.utils import run_and_get_code

class Doubled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x):
        x = torch.nn.functional.interpolate(self.weight * x, scale_factor=2.0, mode="bilinear")
        return torch.cat((x, x), 1)

def is_whole():
    torch.compiler.reset()
    found, code = run_and_get_code(torch.compile(Doubled(), backend="tilewright"), x)
    torch.testing.assert_close(found, Doubled()(x))
    return "aten.upsample_bilinear2d" in "".join(line for text in code for line in text.splitlines() if "#" not in line)

x = torch.randn(2, 3, 8, 8)
print(is_whole())
with torch.no_grad():
    print(is_whole())
"""


def test_upsampling_without_gradients_is_computed_in_kernels(run: Run) -> None:
    """Torch's own operator leaves a copy to what its result is concatenated with."""
    assert run(WITHOUT_GRADIENTS) == ["True", "False"]


IN_THREADS = """
import torch
from threading import Event, Thread
from torch.fx.experimental.proxy_tensor import make_fx
from torch._dispatch.python import enable_python_dispatcher
import tilewright.torch_compile, torch._inductor.compile_fx
from tilewright.compat.torch_layouts import whole_gradients

def traced():
    def gradient(x):
        found = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        return torch.autograd.grad(found.sum(), x)
    with enable_python_dispatcher():
        text = make_fx(gradient)(torch.randn(2, 3, 8, 8, requires_grad=True)).code
    return "upsample_bilinear2d_backward" in text

inside, done = Event(), Event()
found = []
def other():
    with whole_gradients():
        inside.set()
        done.wait()
        found.append(traced())
before = traced()
thread = Thread(target=other)
thread.start()
inside.wait()
print(before, traced())
with whole_gradients():
    done.set()
    thread.join()
    print(*found, traced())
print(traced())
"""


def test_a_thread_that_traces_changes_nothing_for_another(run: Run) -> None:
    """torch's table of operators changed while a graph was compiled: other threads' graphs came out otherwise, too."""
    assert run(IN_THREADS) == ["False False", "True True", "False"]


RELOADED = "from importlib import reload; reload(tilewright.torch_compile)"


@pytest.mark.parametrize(("threads", "again"), [(1, ""), (2, RELOADED)])
def test_sums_by_index(run: Run, threads: int, again: str) -> None:
    """Kernels of users keep the scope that they say, since other launches may compete with them.

    A notebook that reloads modules changed torch twice: the scope was an argument twice, which Python refuses.
    """
    assert run(PROGRAM.format(threads=threads, again=again)) == ["True True", "True False"]


@pytest.mark.parametrize("ci", ["", "true"])
def test_gradients_of_upsampling_are_torchs_own(run: Run, ci: str) -> None:
    """For other back ends, torch takes them apart as before; where `CI` is set, it is stricter with operators."""
    assert run(UPSAMPLING, CI=ci) == ["True", "False"]


ROWS = """
import torch
from torch._inductor.utils import run_and_get_code
import tilewright.torch_compile

torch.manual_seed(0)
def is_whole(function, *args, backend="tilewright", **settings):
    torch.compiler.reset()
    got, (text,) = run_and_get_code(torch.compile(function, backend=backend, **settings), *args)
    expected = function(*args)
    for mine, eager in zip(got, expected):
        torch.testing.assert_close(mine, eager, equal_nan=True)
        assert mine.stride() == eager.stride()
    return "triton_" not in text

x = torch.randn(7, 48)
x[2, :6] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, float("nan")])
sort = lambda x: torch.sort(x, dim=1, stable=True)
print(
    is_whole(sort, x), is_whole(sort, x.to(torch.int64)), is_whole(sort, x, dynamic=True),
    is_whole(lambda x: torch.sort(x, 0, descending=True), x[torch.arange(7), torch.arange(7)].cumsum(0)),
    is_whole(lambda x: torch.sort(x.sin(), stable=True, dim=0), x),
    is_whole(sort, x, options={"triton.decompose_sort_ops": True}),
)
number = torch.tensor(3.0)
torch.testing.assert_close(torch.compile(torch.sort, backend="tilewright")(number), torch.sort(number))
for running in (torch.cummax, torch.cummin):
    print(
        is_whole(lambda x: running(x, 1), x), is_whole(lambda x: running(x, -1), x, dynamic=True),
        is_whole(lambda x: running(x, 0), x), is_whole(lambda x: running(x, 0), x.t()),
    )
"""


def test_sorts_and_running_extremes_along_rows_are_torchs_own(run: Run) -> None:
    """Kernels take the running extremes of columns, and what is computed in front."""
    assert run(ROWS) == ["True True True True False False", *["True True False True"] * 2]
