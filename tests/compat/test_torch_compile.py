"""`torch.compile(backend="tilewright")` in processes of their own: with no Triton installed, or beside the real one."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import pytest

pytestmark = pytest.mark.needs_torch

Run = Callable[..., list[str]]


def test_torch_finds_the_back_end_by_its_entry_point() -> None:
    (found,) = entry_points(group="torch_dynamo_backends", name="tilewright")
    assert found.value == "tilewright.torch_compile:tilewright"


MODEL = """
import sys, torch
from importlib.util import find_spec
print(find_spec("triton") is not None)
{before}
model = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.LayerNorm(40), torch.nn.Linear(40, 3))
compiled = torch.compile(model, backend="tilewright", fullgraph=True, dynamic={dynamic})
for rows in (5, 7, 11):
    x = torch.randn(rows, 24, requires_grad=True)
    for function in (compiled, model):
        model.zero_grad()
        function(x).square().sum().backward()
        gradients = [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
        x.grad = None
        if function is compiled:
            ours = gradients
    for mine, theirs in zip(ours, gradients, strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(compiled(x), model(x))
from torch._dynamo.utils import counters
print(counters["inductor"]["fxgraph_cache_miss"] > 0, counters["inductor"]["fxgraph_cache_hit"] > 0)
print("triton" in sys.modules and "tilewright" in sys.modules["triton"].__spec__.origin)
from torch._inductor.async_compile import AsyncCompile
{after}
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "torch.compile(lambda x: x.relu() + 1)(torch.ones(4))"], ids=["", "after C++"])
def test_a_model_without_triton(run: Run, before: str) -> None:
    program = MODEL.format(before=before, dynamic=None, after="")
    assert run(program, workers=True) == ["False", "True False", "True"]
    assert run(program, workers=True) == ["False", "False True", "True"]  # what workers compiled is loaded


@pytest.mark.slow
@pytest.mark.needs_triton
def test_a_model_beside_the_real_triton(run: Run) -> None:
    after = "import triton.language as tl\nprint('tilewright' in tl.__spec__.origin)"
    program = MODEL.format(before="", dynamic=True, after=after)
    assert run(program, triton=True, workers=True) == ["True", "True False", "False", "False"]
    assert run(program, triton=True, workers=True) == ["True", "False True", "False", "False"]


@pytest.mark.needs_triton
def test_kernels_from_compile_workers_are_read_before_any_kernel_is_made_here(run: Run) -> None:
    """A worker's kernel names its class by the module of the copy, which this process has not imported."""
    program = """
import pickle
import tilewright.torch_compile
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
name = "tilewright.compat.beside_triton.triton_heuristics"
theirs = pickle.loads(f"c{name}\\nCachingAutotuner\\n.".encode())
print(theirs.__module__ == name, theirs is not CachingAutotuner, theirs.__name__)
"""
    assert run(program, triton=True) == ["True True CachingAutotuner"]


CACHED = """
import torch
from torch._dynamo.utils import counters
x = torch.linspace(-1, 1, 300, requires_grad=True)
y = torch.compile(lambda x: x.tanh().sum(), backend="tilewright")(x)
(gradient,) = torch.autograd.grad(y, x)
torch.testing.assert_close(gradient, 1 - x.tanh() ** 2)
print(counters["inductor"]["fxgraph_cache_hit"])
"""


@pytest.mark.slow
@pytest.mark.needs_triton
def test_environments_with_and_without_triton_share_a_cache_folder(run: Run) -> None:
    """Kernels of one import a Triton that the other has not, or has another one of."""
    for found in ("0", "2"):
        assert run(CACHED, workers=True) == [found]
        assert run(CACHED, triton=True, workers=True) == [found]


UNCHANGED = """
import torch
import tilewright
functions = torch.cuda.synchronize, torch.cuda.get_device_properties
folder = tilewright.knobs.cache.dir
print(torch.compile(lambda x: x * 2 + 1, backend="tilewright")(torch.ones(3)).tolist())
print(functions == (torch.cuda.synchronize, torch.cuda.get_device_properties))
print(folder == tilewright.knobs.cache.dir)
import triton
print(triton.jit is tilewright.jit)
"""


@pytest.mark.slow
def test_nothing_else_changes_in_the_process(run: Run) -> None:
    assert run(UNCHANGED) == ["[3.0, 3.0, 3.0]", "True", "True", "True"]


NUMBERS = """
import torch
x, y = torch.tensor(3.5), torch.tensor(-1.25, requires_grad=True)
compiled = torch.compile(torch.copysign, backend="tilewright")
(gradient,) = torch.autograd.grad(compiled(y, x), y)
print(gradient.item(), torch.compile(lambda v: v.add_(2).mul(v), backend="tilewright")(x).item(), x.item())
print(torch.compile(lambda a, b: a * b + x, backend="tilewright")(torch.ones(2), torch.tensor(2.0)).tolist())
"""


@pytest.mark.slow
def test_tensors_without_axes(run: Run) -> None:
    assert run(NUMBERS) == ["-1.0 30.25 5.5", "[7.5, 7.5]"]


SUMS = """
import torch

def accumulated(x, index):
    return x.index_put((index,), x[:3], accumulate=True), x.scatter_add(0, index, x[:3])

def reduced(x):
    return x.var((1, 3, 0)), x.amax((0, 2, 3)), (x[0] * 2).sum()

torch.set_num_threads(1)  # else torch computes scatter_add itself
compiled = torch.compile(accumulated, backend="tilewright")
for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.float16):
    inputs = torch.arange(100, 113).to(dtype), torch.tensor([4, 1, 4])
    torch.testing.assert_close(compiled(*inputs), accumulated(*inputs))
for shape in ((9, 9, 9, 9), (3, 4, 5, 6, 17)):
    x = torch.randn(*(2 * extent for extent in shape))[tuple(slice(extent) for extent in shape)]
    found, expected = torch.compile(reduced, backend="tilewright")(x), reduced(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)  # sums of thousands
print("equal")
"""


@pytest.mark.slow
def test_sums_by_index_of_narrow_integers_and_over_several_axes_of_slices(run: Run) -> None:
    assert run(SUMS) == ["equal"]


SHORT_ROWS = """
import torch
from torch._inductor.utils import run_and_get_code

x = torch.randn(30, 12)[:, :7]
for options in ({}, {"triton.max_tiles": 2}):
    torch._dynamo.reset()
    found, (code,) = run_and_get_code(torch.compile(torch.sigmoid, backend="tilewright", options=options), x)
    torch.testing.assert_close(found, torch.sigmoid(x))
    print("YBLOCK" in code)
"""


@pytest.mark.slow
def test_short_rows_have_an_axis_of_their_own_only_for_who_asks(run: Run) -> None:
    assert run(SHORT_ROWS) == ["False", "True"]


TIMED = """
import torch
from torch._inductor.runtime.benchmarking import Benchmarker, benchmarker
original = Benchmarker.benchmark_cpu
def benchmark_cpu(self, function, warmup, rep, **settings):
    seen.add((warmup, rep))
    return original(self, function, warmup, rep)
seen = set()
type(benchmarker).benchmark_cpu = benchmark_cpu
torch.compile(lambda x: x.cos() + 1, backend="tilewright")(torch.ones(5000))
print(*seen)
seen.clear()
benchmarker.benchmark(lambda: None, device="cpu")
print(*seen)
"""


FUSIONS = """
import torch

def function(x, y, a, b):
    first = (x + y).relu()
    return (first @ a + b).sin().sum(-1), first.cos()

inputs = [torch.ones(64, 64).cumsum(0).sin() + number for number in range(3)] + [torch.arange(64.0)]
for settings in ({"mode": "max-autotune-no-cudagraphs"}, {"options": {"benchmark_fusion": True}}):
    torch._dynamo.reset()
    for found, expected in zip(torch.compile(function, backend="tilewright", **settings)(*inputs), function(*inputs)):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)  # sums of 64
    print(list(settings))
"""


@pytest.mark.slow
def test_modes_that_time_fusions_fuse_without(run: Run) -> None:
    """torch's own program for that cannot be parsed."""
    assert run(FUSIONS) == ["['mode']", "['options']"]


PRODUCTS = """
import os
import torch

os.environ["CXX"] = "there-is-no-such-compiler"
inputs = torch.randn(4, 32, 32), torch.randn(4, 32, 32)
compiled = torch.compile(lambda a, b: torch.bmm(a, b).relu(), backend="tilewright", options={"max_autotune": True})
torch.testing.assert_close(compiled(*inputs), torch.bmm(*inputs).relu(), atol=1e-4, rtol=1e-4)
print("compiled")
"""


@pytest.mark.slow
def test_products_have_no_candidates_in_cpp(run: Run) -> None:
    assert run(PRODUCTS) == ["compiled"]


@pytest.mark.slow
@pytest.mark.parametrize("triton", [False, pytest.param(True, marks=pytest.mark.needs_triton)])
def test_candidates_are_timed_briefly_and_all_else_as_before(run: Run, triton: bool) -> None:
    assert run(TIMED, triton=triton) == ["(1, 10)", "(25, 100)"]


HOOKED = """
import torch

@torch.compile(backend="tilewright")
def function(x):
    return x.exp() + 1

x = torch.ones(64)
function(x)
from triton import knobs
seen = []
knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata.get()["name"]))
for _ in range(2):
    function(x)
print(len(seen), "exp" in seen[0])
"""


@pytest.mark.slow
def test_hooks_of_launches_are_called(run: Run) -> None:
    assert run(HOOKED) == ["2 True"]


THREADS = """
import torch
from tilewright.runtime.drivers.cpu.process import native_runtime
torch.set_num_threads(3)
for count in (3, 1):
    torch.set_num_threads(count)
    torch.compile(lambda x: x + count, backend="tilewright")(torch.ones(4))
    print(native_runtime().threads())
"""


@pytest.mark.slow
def test_as_many_threads_as_torch_has(run: Run) -> None:
    assert run(THREADS) == ["3", "1"]
    assert run(THREADS, TILEWRIGHT_NUM_THREADS="2") == ["2", "2"]


LAYOUTS = """
import torch
from torch._inductor.utils import run_and_get_code

def kernels(function, *inputs):
    with torch.no_grad():
        found, code = run_and_get_code(torch.compile(function, backend="tilewright"), *inputs)
        torch.testing.assert_close(found, function(*inputs), atol=1e-4, rtol=1e-4)  # sums of 576
    return [line for line in "".join(code).splitlines() if not line.startswith("#")]

def added(x, bias):
    return x + bias[:, None]

def chained(x, bias):
    mean = (x * 2).mean(-1, keepdim=True)  # kernels of several axes, of which torch asks whether they can be one
    return ((x - mean).relu() + bias[:, None]).permute(0, 2, 1).contiguous().sum(1), added(x[..., :3], bias[:, :1])

print(any("%" in line for line in kernels(added, torch.randn(3, 5, 32), torch.randn(3, 32))))
kernels(chained, torch.randn(3, 5, 32), torch.randn(3, 32))
for channels, side in ((64, 4), (3, 32)):
    convolution = torch.nn.Conv2d(channels, channels, 3, padding=1)
    print(any("triton_poi" in line for line in kernels(convolution, torch.randn(2, channels, side, side))))
"""


@pytest.mark.slow
def test_loops_have_axes_and_small_images_stay_as_they_are(run: Run) -> None:
    """Over one flat index, the first kernel would take remainders; `channels_last` images are made by kernels."""
    assert run(LAYOUTS) == ["False", "False", "True"]


UNBATCHED = """
import torch

convolution = torch.nn.Conv2d(3, 4, 3, stride=2, padding=2).double()
compiled = torch.compile(convolution, backend="tilewright", dynamic=True)
for sides in ((4, 4), (7, 5), (1, 9)):
    x = torch.randn(3, *sides, dtype=torch.float64, requires_grad=True)
    found, expected = compiled(x), convolution(x)
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(y.cos().sum(), x)[0] for y in (found, expected))
    torch.testing.assert_close(ours, theirs)
    print(found.stride() == expected.stride())
"""


@pytest.mark.slow
def test_convolutions_of_images_without_a_batch_for_any_size(run: Run) -> None:
    """The result is a view, whose strides are symbols; torch compared them as numbers."""
    assert run(UNBATCHED) == ["True", "True", "True"]


ROLLED = """
import torch

def rolled(x):
    return torch.nn.functional.pad(x.cumsum(-1), (1, 0)).roll(3, -1)

compiled = torch.compile(rolled, backend="tilewright", dynamic=True)
for side in (24, 36):
    x = torch.randn(33, side)
    torch.testing.assert_close(compiled(x), rolled(x))
"""


@pytest.mark.slow
def test_rows_of_any_size_are_rolled(run: Run) -> None:
    """The index has a remainder of `size - 2`, which is negative where a size stands for 1: torch asserts otherwise."""
    assert run(ROLLED) == []


LISTS = """
import torch

def step(weights, gradients):
    moments = torch._foreach_mul(gradients, 0.1)
    torch._foreach_add_(weights, moments, alpha=-2.0)
    return moments, torch._foreach_norm(weights)

weights = [torch.randn(7, 11), torch.randn(3), torch.randn(2, 5, 4)]
gradients = [torch.randn_like(each) for each in weights]
copies = [each.clone() for each in weights]
for ours, theirs in zip(torch.compile(step, backend="tilewright")(copies, gradients), step(weights, gradients)):
    torch.testing.assert_close(ours, theirs)
torch.testing.assert_close(copies, weights)
"""


@pytest.mark.slow
@pytest.mark.parametrize("triton", [False, pytest.param(True, marks=pytest.mark.needs_triton)])
def test_operators_on_lists_of_tensors_are_one_kernel(run: Run, triton: bool) -> None:
    program = f"{LISTS}\nprint(torch._inductor.metrics.generated_kernel_count)"
    (kernels,) = run(program, triton=triton)
    assert int(kernels) < 7  # twice three, and the norms


SIGNS = """
import torch

for dtype in (torch.float64, torch.float32, torch.float16, torch.int32):
    x = torch.tensor([-0.0, 0.0, -1.0, 2.0]).to(dtype)
    print(torch.compile(torch.signbit, backend="tilewright")(x).tolist() == torch.signbit(x).tolist())
"""


@pytest.mark.slow
def test_zeros_have_their_signs(run: Run) -> None:
    assert run(SIGNS) == ["True"] * 4
