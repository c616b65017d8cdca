"""Functions and models that torch.compile compiles for a GPU, with Tilewright in Triton's place; needs torch.

python bench/gpu/torch_compiled.py build/gpu/right.json       # adds its rows to what the part found

The rows are made under `tilewright run`, one after the other in one process, behind a failure in the next one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from processes import add_rows, print_rows

DEVICE = "cuda"
TOLERANCES = {"rtol": 2e-3, "atol": 2e-3}
GRADIENT_TOLERANCES = {"rtol": 1e-2, "atol": 1e-3}
Row = dict[str, Any]


def _normal(torch: Any, *shape: int, **options: Any) -> Any:
    return torch.randn(*shape, device=DEVICE, **options)


def functions(torch: Any) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions by the names of their rows, with arguments."""
    of, halves = torch.nn.functional, {"dtype": torch.float16}
    convolution = (torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    classes, places = (torch.randint(0, 1000, shape, device=DEVICE) for shape in ((128,), (32, 10)))
    return {
        "gelu": (lambda x: of.gelu(x * 2 + 1), (_normal(torch, 1000, 777),)),
        "softmax": (lambda x: torch.softmax(x, -1), (_normal(torch, 512, 3000),)),
        "layer norm": (lambda x: of.layer_norm(x, (1024,)), (_normal(torch, 256, 1024, **halves),)),
        "sums of columns": (lambda x: x.sum(0), (_normal(torch, 4096, 512),)),
        "variance": (torch.var, (_normal(torch, 100_000),)),
        "cross entropy": (of.cross_entropy, (_normal(torch, 128, 1000), classes)),
        "running sums": (lambda x: x.cumsum(-1), (_normal(torch, 64, 1000),)),
        "sort": (lambda x: x.sort(-1)[0], (_normal(torch, 64, 200),)),
        "embedding": (lambda table, rows: table[rows].sum(1), (_normal(torch, 1000, 64), places)),
        "convolution": (torch.nn.Sequential(*convolution).to(DEVICE), (_normal(torch, 4, 3, 64, 64),)),
        "transformer": (layer.to(DEVICE), (_normal(torch, 2, 64, 128),)),
        "product, tuned": (_product, (_normal(torch, 512, 256, **halves), _normal(torch, 256, 384, **halves))),
    }


def _product(a: Any, b: Any) -> Any:
    return (a @ b).relu()


TRAINED, AS_GRAPH = "transformer, trained", "softmax, in a CUDA graph"
NAMES = (
    *("gelu", "softmax", "layer norm", "sums of columns", "variance", "cross entropy", "running sums", "sort"),
    *("embedding", "convolution", "transformer", "product, tuned", TRAINED, AS_GRAPH),
)


def check(torch: Any, name: str) -> None:
    """Compare a compiled function with the same function as torch runs it.

    Raises:
        AssertionError: it gives something else.
    """
    torch.manual_seed(0)
    torch._dynamo.reset()
    if name == TRAINED:
        model, (x,) = functions(torch)["transformer"]
        found, expected = (_gradients(torch, run, model, x) for run in (torch.compile(model), model))
        torch.testing.assert_close(found, expected, **GRADIENT_TOLERANCES)
        return
    if name == AS_GRAPH:
        function, arguments = functions(torch)["softmax"]
        compiled = torch.compile(function, mode="reduce-overhead")
        for _ in range(3):  # the second call is captured, the third one is a replay
            torch.testing.assert_close(compiled(*arguments), function(*arguments), **TOLERANCES)
        return
    function, arguments = functions(torch)[name]
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"} if name == "product, tuned" else {}
    compiled = torch.compile(function, options=options)
    torch.testing.assert_close(compiled(*arguments), function(*arguments), **TOLERANCES)


def _gradients(torch: Any, run: Any, model: Any, x: Any) -> list[Any]:
    model.zero_grad()
    run(x).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def row_of(name: str) -> Row:
    """The outcome of a row; errors of any kind are its subject."""
    if not find_spec("torch"):
        return {"skipped": "torch is not installed"}
    import torch

    if not torch.cuda.is_available():
        return {"skipped": "this torch has no GPU"}
    try:
        check(torch, name)
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the row says
        return {"good": False, "problem": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"good": True}


if __name__ == "__main__":
    if sys.argv[1] == "--skip":
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            sys.exit(print_rows(row_of, NAMES, int(sys.argv[2])))
    command = [sys.executable, "-m", "tilewright", "run", __file__]
    add_rows(Path(sys.argv[1]), command, [f"torch.compile: {name}" for name in NAMES])
