"""Kernels on a GPU against Triton's own, cuBLAS and torch's attention; needs torch, and Triton for its part.

python bench/gpu/rivals.py build/gpu/fast.json      # adds its rows to what the part found

Each row has a process of its own. All take the same arrays, and the time is that of the GPU's clock.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import gpu_static_kernels as kernels
import numpy as np
from bundle import shapes
from cases import LARGE, SIZES, Case
from parts import speed
from processes import add_rows, print_one

import tilewright
from tilewright import cuda

WARM, LAUNCHES, SAMPLES = 3, 20, 5
CALLS = 2000
BARS = {"launch": 1 / 0.6, "anchor": 0.97}
"""How much faster than Triton a row has to be at least: its time by ours."""
Launcher = Callable[[], Any]
Row = dict[str, Any]


def for_triton(folder: Path) -> Any:
    """The kernels of the anchors, as Triton compiles them; None where it is not installed."""
    if not find_spec("triton"):
        return None
    file = folder / "anchors_for_triton.py"
    file.write_text(Path(kernels.__file__).read_text().replace("tilewright", "triton"))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def launcher(module: Any, anchor: Any, case: Case, arguments: list[Any]) -> Launcher:
    """Launches the kernel of an anchor; scalars are given as the anchor was compiled."""
    bound = getattr(module, anchor.kernel)[(*case.grid, 1, 1)[:3]]
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    return lambda: bound(*arguments, **anchor.constants, **options)


def library(torch: Any, anchor: Any, tensors: list[Any]) -> Launcher | None:
    """What torch has for the same: cuBLAS, its attention, its softmax, its addition."""
    if anchor.kernel in ("matmul", "matmul_by_descriptors"):
        a, b, c = tensors
        return lambda: torch.matmul(a, b, out=c)
    if anchor.kernel == "attention":
        heads, rows, head = SIZES["heads"], SIZES["rows"], anchor.constants["HEAD"]
        q, k, v = (tensor.view(1, heads, rows, head) for tensor in tensors[:3])
        attend, is_causal = torch.nn.functional.scaled_dot_product_attention, bool(anchor.constants["CAUSAL"])
        return lambda: attend(q, k, v, is_causal=is_causal, scale=0.125)
    if anchor.kernel == "softmax":
        return lambda: torch.softmax(tensors[1], 1)
    return lambda: torch.add(tensors[0], tensors[1], out=tensors[2])


def on_gpu(torch: Any, arguments: list[Any]) -> list[Any]:
    return [torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value for value in arguments]


def seconds(torch: Any, launch: Launcher) -> float:
    """The least of some samples, each the mean of some launches."""
    for _ in range(WARM):
        launch()
    found = []
    for _ in range(SAMPLES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(LAUNCHES):
            launch()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / 1000 / LAUNCHES)
    return float(min(found))


def compared(ours: float, rivals: dict[str, float], bar: float) -> Row:
    """Each rival's time by ours; good is what reaches the bar against Triton."""
    row = {f"{name} / ours": round(theirs / ours, 3) for name, theirs in rivals.items()}
    return {"good": rivals["Triton"] / ours >= bar if "Triton" in rivals else True, **row}


def anchor_row(torch: Any, anchor: Any, triton: Any) -> Row:
    """An anchor at full size."""
    case = LARGE[anchor.kernel](anchor)
    arguments = on_gpu(torch, case.arguments)
    ours = seconds(torch, launcher(kernels, anchor, case, arguments))
    rivals = {"Triton": seconds(torch, launcher(triton, anchor, case, arguments))} if triton else {}
    theirs = library(torch, anchor, [value for value in arguments if hasattr(value, "data_ptr")])
    rivals |= {"torch": seconds(torch, theirs)} if theirs else {}
    facts = {"device": torch.cuda.get_device_name()}
    return {**compared(ours, rivals, BARS["anchor"]), **speed(ours, case.operations, case.moved, facts)}


def launch_row(torch: Any, triton: Any) -> Row:
    """What a launch costs the program that makes it."""
    tensors = [torch.zeros(1024, device="cuda") for _ in range(3)]
    costs = {}
    for name, module in {"ours": kernels, **({"Triton": triton} if triton else {})}.items():
        bound = module.add[(1, 1, 1)]
        costs[name] = call_cost(lambda bound=bound: bound(*tensors, 1024, BLOCK=1024), torch.cuda.synchronize)
    ours = costs.pop("ours")
    return {**compared(ours, costs, BARS["launch"]), "microseconds": round(1e6 * ours, 3)}


def call_cost(launch: Launcher, wait: Launcher) -> float:
    """Seconds of a call; the queue is empty before each sample, and shorter than the driver's afterwards."""
    launch()
    found = []
    for _ in range(CALLS // 100):
        wait()
        start = time.perf_counter()
        for _ in range(100):
            launch()
        found.append((time.perf_counter() - start) / 100)
    return min(found)


def configurations() -> list[Any]:
    """What the product is tuned over."""
    tiles = ((128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 256, 64), (128, 128, 32))
    return [
        tilewright.Config(dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)), warps, stages)
        for tile in tiles
        for warps in (4, 8)
        for stages in (3, 4)
    ]


def tuned_row(torch: Any, triton: Any) -> Row:
    """The product of fp16 matrices, tuned on the device, against cuBLAS."""
    n = SIZES["side"]
    a, b, c = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(3))
    tuned = tilewright.autotune(configurations(), key=["M", "N", "K"])(kernels.matmul)

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return tilewright.cdiv(n, meta["BLOCK_M"]), tilewright.cdiv(n, meta["BLOCK_N"])

    ours = seconds(torch, lambda: tuned[grid](a, b, c, n, n, n, n, n, n))
    row = compared(ours, {"torch": seconds(torch, lambda: torch.matmul(a, b, out=c))}, 0)
    facts = {"device": torch.cuda.get_device_name()}
    return {**row, **speed(ours, 2.0 * n**3, 0, facts), "chosen": str(tuned.best_config)}


def rows() -> dict[str, Callable[[Any, Any], Row]]:
    """What becomes a row, by its name."""
    found: dict[str, Callable[[Any, Any], Row]] = {"launch": launch_row, "matmul, tuned": tuned_row}
    for anchor in shapes():
        if anchor.kernel in LARGE:
            name = f"{anchor.name.rpartition('_')[0]} against others"
            found[name] = lambda torch, triton, anchor=anchor: anchor_row(torch, anchor, triton)
    return found


def row_of(name: str) -> Row:
    """What became of a row; errors of any kind are what it says."""
    if not find_spec("torch"):
        return {"skipped": "torch is not installed"}
    import torch

    if not torch.cuda.is_available():
        return {"skipped": "this torch has no GPU"}
    try:
        with tempfile.TemporaryDirectory() as folder:
            triton = for_triton(Path(folder))
            if triton:
                triton.triton.set_allocator(
                    lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda")
                )
            cuda.synchronize()
            return rows()[name](torch, triton)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the row says
        return {"good": False, "problem": f"{type(error).__name__}: {error}".splitlines()[0]}


if __name__ == "__main__":
    if sys.argv[1] == "--skip":
        print_one(row_of, list(rows()))
    else:
        add_rows(Path(sys.argv[1]), [sys.executable, __file__], list(rows()), seconds=480)
