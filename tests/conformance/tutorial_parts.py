"""What of a tutorial runs on a CPU although the file asks for a GPU: its functions, on tensors of our own.

tilewright run tutorial_parts.py ~/triton/python/tutorials/09-persistent-matmul.py
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


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


class AskedForCuda(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Within it, tensors that are made for the device `cuda` are on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if str(options.get("device")).startswith("cuda"):
            options["device"] = "cpu"
        return func(*args, **options)


PARTS: dict[str, Callable[[Any], Iterator[tuple[str, Any, Any]]]] = {
    "09": products,
    "10": scaled_products,
    "11": sums,
}
"""By number of the tutorial: what ran, its result, and the right one."""


def main() -> int:
    """Run the part of the tutorial that the command line names; 1 if a result is wrong."""
    path = Path(sys.argv[1])
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
