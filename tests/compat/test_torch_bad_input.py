"""`torch.compile(…, backend="tilewright")` where something is wrong: clear messages, or quiet right results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., list[str]]
pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]


TOO_OLD = (
    'TorchBackendError torch.compile(backend="tilewright") needs torch 2.12 or newer, and 2.4.1+cpu is installed: '
    "pip install 'torch>=2.12'"
)
CHANGED = """
import torch._inductor.scheduler as scheduler
torch.__version__ = '2.99.0'
del scheduler.Scheduler.speedup_by_fusion
"""

WRONG = """
import torch
{before}
try:
    torch.compile(lambda x: x + 1, backend="tilewright", {arguments})(torch.ones(2))
except Exception as error:
    print(type(error).__name__, *str(error).splitlines())
"""


@pytest.mark.parametrize(
    ("before", "arguments", "message"),
    [
        ("", 'mode="fastest"', "Unrecognized mode=fastest"),
        ("", 'options={"max_autotuned": True}', "Unexpected optimization option max_autotuned"),
        ("torch.__version__ = '2.4.1+cpu'", "", TOO_OLD),
        (CHANGED, "", "TorchBackendError torch 2.99.0 is not as this version of Tilewright knows it (type object 'Sch"),
    ],
)
def test_mistakes_are_told(run: Run, before: str, arguments: str, message: str) -> None:
    (line, *_) = run(WRONG.format(before=before, arguments=arguments))
    assert message in line


def test_a_cache_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    program = 'import torch\nprint(torch.compile(lambda x: x * 2, backend="tilewright")(torch.ones(2)).tolist())'
    (tmp_path / "file").write_text("")
    assert run(program, TRITON_CACHE_DIR=str(tmp_path / "file" / "below")) == ["[2.0, 2.0]"]


KILLED = """
import os, signal, torch
from pathlib import Path
from torch._inductor.async_compile import AsyncCompile
torch.compile(lambda x: x + 3, backend="tilewright")(torch.ones(3))
AsyncCompile.wait_pool_ready()
pool = AsyncCompile.process_pool().process.pid
for worker in Path(f"/proc/{pool}/task/{pool}/children").read_text().split():
    os.kill(int(worker), signal.SIGKILL)
print(torch.compile(lambda x: x.tanh() * 2, backend="tilewright")(torch.zeros(3)).tolist())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the workers are looked up in /proc")
def test_killed_compile_workers(run: Run) -> None:
    assert run(KILLED, workers=True) == ["[0.0, 0.0, 0.0]"]


INDEXED = """
import threading, torch

def function(table, index):
    return (table[index] * 2).sum(-1)

compiled = torch.compile(function, backend="tilewright")
table, index = torch.randn(100, 64), torch.randint(100, (50,))
wrong = index.clone()
wrong[7] = 100
compiled(table, index)
for _ in range(3):
    try:
        compiled(table, wrong)
    except Exception as error:
        print(type(error).__name__, "index out of bounds" in str(error))
    torch.testing.assert_close(compiled(table, index), function(table, index))

def call(passed, fails):
    for _ in range(200):
        try:
            compiled(table, passed)
            failed = False
        except Exception:
            failed = True
        if failed is not fails:
            mistakes.append(fails)

mistakes = []
threads = [threading.Thread(target=call, args=(wrong if fails else index, fails)) for fails in (False, True) * 2]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(mistakes)
"""


def test_wrong_indices_are_errors_of_the_launch_that_has_them(run: Run) -> None:
    assert run(INDEXED) == ["DeviceAssertError True"] * 3 + ["[]"]


REFUSED = """
import torch
from torch._inductor.lowering import register_lowering

@torch.library.custom_op("examples::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x + 1

@odd.register_fake
def odd_shape(x):
    return torch.empty_like(x)

@register_lowering(torch.ops.examples.odd.default)
def no_kernel(x):
    raise NotImplementedError("no kernel for it")

def function(x):
    return odd(x.sin()) * 2

try:
    torch.compile(function, backend="tilewright")(torch.zeros(3))
except Exception as error:
    print("no kernel for it" in str(error), "examples.odd.default" in str(error))
torch._dynamo.reset()
torch._dynamo.config.suppress_errors = True
print(torch.compile(function, backend="tilewright")(torch.zeros(3)).tolist())
"""


def test_a_graph_that_cannot_be_compiled_names_the_operator_and_runs_eagerly_only_for_who_asks(run: Run) -> None:
    assert run(REFUSED) == ["True True", "[2.0, 2.0, 2.0]"]


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import tilewright
try:
    import tilewright.torch_compile
except ModuleNotFoundError as error:
    print("torch" in str(error))
"""


def test_without_torch_the_import_of_the_back_end_says_so(run: Run) -> None:
    assert run(WITHOUT_TORCH) == ["True"]


IMPORTED = """
{first}
import torch
print(torch.compile(lambda x: (x * 2).relu(), backend="tilewright")(torch.tensor([-1.0, 1.0])).tolist())
"""


@pytest.mark.parametrize(
    "first",
    [
        "import tilewright",
        "import tilewright.torch_compile",
        "import torch, tilewright.torch_compile",
        "import torch._inductor.compile_fx, torch._inductor.runtime.triton_heuristics, tilewright",
    ],
)
def test_torch_may_be_imported_before_or_after(run: Run, first: str) -> None:
    assert run(IMPORTED.format(first=first)) == ["[0.0, 2.0]"]
