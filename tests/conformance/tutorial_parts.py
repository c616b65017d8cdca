"""The parts of a tutorial that run although the file asks for a GPU: functions, or all of it on a simulated GPU.

tilewright run tutorial_parts.py ~/triton/python/tutorials/09-persistent-matmul.py              # on tensors of our own
tilewright run tutorial_parts.py --simulate 90 ~/triton/python/tutorials/07-extern-functions.py
"""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tilewright.runtime.devices import choose
from tilewright.runtime.drivers.simulated.gpu import simulated_gpu


def products(tutorial: Any) -> Iterator[tuple[str, Any, Any]]:
    """All products of 09, with and without descriptors, persistent, and with specialised warps."""
    a, b = torch.randn(256, 128, dtype=torch.float16), torch.randn(128, 384, dtype=torch.float16)
    right, turned = a.float() @ b.float(), b.T.contiguous()
    yield "naive", tutorial.matmul(a, b), right
    yield "persistent", tutorial.matmul_persistent(a, turned.T), right
    for specialised in (False, True):
        yield f"TMA, {specialised}", tutorial.matmul_tma(a, turned, specialised), right
        yield f"persistent TMA, {specialised}", tutorial.matmul_tma_persistent(a, turned, specialised), right
        yield f"descriptors, {specialised}", tutorial.matmul_descriptor_persistent(a, turned, specialised), right


def scaled_products(tutorial: Any) -> Iterator[tuple[str, Any, Any]]:
    """The products of 10 with scaled factors; the tutorial's own check compares them."""
    for kind in ("nvfp4", "mxfp4", "mxfp8", "mixed"):
        with AskedForCuda():
            tutorial.validate_block_scaled(256, 512, 512, block_scale_type=kind)
        yield kind, torch.zeros(1), torch.zeros(1)


def sums(tutorial: Any) -> Iterator[tuple[str, Any, Any]]:
    """The addition of 11; a launch on a CPU has ended when the next one begins, so there is nothing to wait for."""
    x, y = torch.rand(100_000), torch.rand(100_000)
    for dependent in (False, True):
        yield f"dependent launch, {dependent}", tutorial.add(x, y, launch_pdl=dependent), x + y


class AskedForCuda(TorchFunctionMode):
    """Within it, tensors that are made for the device `cuda` are on the CPU, and say that they are on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.is_cuda.__get__:
            return True
        options = dict(kwargs or {})
        if str(options.get("device")).startswith("cuda"):
            options["device"] = "cpu"
        return func(*args, **options)


PARTS: dict[str, Callable[[Any], Iterator[tuple[str, Any, Any]]]] = {
    "09": products,
    "10": scaled_products,
    "11": sums,
}
"""Functions that yield what ran, its result, and the right one, by number of the tutorial."""


def main() -> int:
    """Run what the command line names; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description="What of a tutorial runs although the file asks for a GPU")
    parser.add_argument("path", type=Path, help="the tutorial")
    parser.add_argument("--simulate", type=int, metavar="90", help="run all of it on a GPU of this capability")
    options = parser.parse_args()
    return simulated(options.path, options.simulate) if options.simulate else part(options.path)


def simulated(path: Path, capability: int) -> int:
    """Run the file as it is; arrays of a simulated GPU are in the memory of the CPU."""
    choose(simulated_gpu(capability))
    with AskedForCuda():
        runpy.run_path(str(path), run_name="__main__")
    return 0


def part(path: Path) -> int:
    """Run the functions of the file that `PARTS` has; 1 if a result is wrong."""
    spec = importlib.util.spec_from_file_location("tutorial", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    tutorial = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tutorial
    spec.loader.exec_module(tutorial)
    torch.manual_seed(0)
    for name, found, right in PARTS[path.name[:2]](tutorial):
        error = float((found.float() - right).abs().max())
        print(f"{name}: off by {error:.3g}", flush=True)
        if not error < 0.05:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
