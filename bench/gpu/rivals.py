"""Kernels on a GPU against Triton's own, cuBLAS and torch's attention; needs torch, and Triton for its part.

    python bench/gpu/rivals.py build/gpu/fast.json      # adds its rows to what the part found
    cd build/gpu && python rivals.py fast.json          # the same, where only the bundle is

Ours is the code of the bundle, launched through the driver; Triton compiles the same text for the same configurations.
Both are given the same arrays, the fastest configuration counts for each, and the time is that of the GPU's clock. What
is about Tilewright's own launches and autotuner needs Tilewright. Behind a row that fails begins another process.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from case_basics import SIZES, Case
from cases import LARGE
from driver import CudaError, Device
from entries import Entry
from parts import Contest, chosen, described, first_element, speed, together
from processes import add_rows, print_rows

HERE = Path(__file__).parent
WARM, LAUNCHES, SAMPLES = 3, 20, 5
CALLS = 2000
ROW_SECONDS = 150
"""Max seconds of a row: Triton compiles each configuration."""
BARS = {"launch": 1 / 0.6, "kernel": 0.97}
"""Min ratio of Triton's time to ours that a row has to reach."""
Launcher = Callable[[], Any]
Row = dict[str, Any]


def for_triton(folder: Path) -> dict[str, Any]:
    """The kernels, as Triton compiles them; none where it is not installed."""
    return kernels_of(folder, "triton") if find_spec("triton") else {}


def kernels_of(folder: Path, package: str) -> dict[str, Any]:
    """The functions of the files of kernels by name; `package` takes the place of Tilewright in them."""
    found: dict[str, Any] = {}
    for name in ("gpu_static_kernels", "timed_kernels"):
        text = next(
            place / f"{name}.py" for place in (HERE, HERE.parent) if (place / f"{name}.py").exists()
        ).read_text()
        file = folder / f"{name}_for_{package}.py"
        file.write_text(text.replace("tilewright", package))
        found |= vars(imported(file))
    return found


def imported(file: Path) -> ModuleType:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def launcher(kernel: Any, entry: Entry, case: Case, facts: dict[str, Any], arguments: list[Any]) -> Launcher:
    """Launches a kernel of a package as an entry was compiled."""
    bound = kernel[(*case.grid_on(facts), 1, 1)[:3]]
    options = {"num_warps": entry.warps, "num_stages": entry.stages}
    return lambda: bound(*arguments, **entry.constants, **options)


def library(torch: Any, row: Contest, case: Case, tensors: list[Any]) -> Launcher | None:
    """Torch's functions for the same: cuBLAS, its attention, its softmax, its layer norm, its addition."""
    entry = row.entries[0]
    rivals = {name: rival for names, rival in RIVALS.items() for name in names}
    return rivals[entry.kernel](torch, entry, case, tensors) if entry.kernel in rivals else None


def _product(torch: Any, entry: Entry, case: Case, tensors: list[Any]) -> Launcher:
    a, b, c = tensors
    if first_element(entry).startswith("fp8"):
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=c.dtype)
    return lambda: torch.matmul(a, b, out=c)


def _grouped_product(torch: Any, entry: Entry, case: Case, tensors: list[Any]) -> Launcher:
    """A product for each group: there is nothing for all of them in every version of torch."""
    a, b, c, starts = tensors
    places = starts.tolist()
    groups = [(a[start:end], b[g], c[start:end]) for g, (start, end) in enumerate(pairwise(places))]

    def launch() -> None:
        for rows, matrix, out in groups:
            torch.matmul(rows, matrix, out=out)

    return launch


def _attention(torch: Any, entry: Entry, case: Case, tensors: list[Any]) -> Launcher:
    heads, rows, head = SIZES["heads"], SIZES["rows"], entry.constants["HEAD"]
    q, k, v = (tensor.view(1, heads, rows, head) for tensor in tensors[:3])
    attend, is_causal = torch.nn.functional.scaled_dot_product_attention, bool(entry.constants["CAUSAL"])
    return lambda: attend(q, k, v, is_causal=is_causal, scale=0.125)


def _attention_backward(torch: Any, entry: Entry, case: Case, tensors: list[Any]) -> Launcher:
    heads, rows, head = SIZES["heads"], SIZES["rows"], entry.constants["HEAD"]
    q, k, v, grad = (tensor.view(1, heads, rows, head) for tensor in tensors[:4])
    inputs = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    attend, is_causal = torch.nn.functional.scaled_dot_product_attention, bool(entry.constants["CAUSAL"])
    out = attend(*inputs, is_causal=is_causal, scale=0.125)
    return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)


def _layer_norm(torch: Any, entry: Entry, case: Case, tensors: list[Any]) -> Launcher:
    x, _, weight, bias = tensors
    return lambda: torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


RIVALS: dict[tuple[str, ...], Callable[..., Launcher]] = {
    ("matmul", "matmul_by_descriptors", "product", "persistent_product"): _product,
    ("grouped_product",): _grouped_product,
    ("attention", "attention_forward"): _attention,
    ("attention_keys",): _attention_backward,
    ("layer_norm",): _layer_norm,
    ("softmax",): lambda torch, entry, case, tensors: lambda: torch.softmax(tensors[1], 1),
    ("row_softmax",): lambda torch, entry, case, tensors: lambda: torch.softmax(tensors[0], 1),
    ("add",): lambda torch, entry, case, tensors: lambda: torch.add(tensors[0], tensors[1], out=tensors[2]),
}
"""Rivals by kernel; a row of several kernels has the rival of the one that is listed."""
VIEWS = {"bf16": "bfloat16", "fp8e4nv": "float8_e4m3fn"}
"""torch's names of types that NumPy lacks."""


def on_gpu(torch: Any, entry: Entry, arguments: list[Any]) -> list[Any]:
    """The arrays of a launch as torch's, on its GPU."""
    named = zip(entry.types.values(), arguments, strict=True)
    return [_tensor(torch, kind, value) if isinstance(value, np.ndarray) else value for kind, value in named]


def _tensor(torch: Any, kind: str, array: Any) -> Any:
    name = VIEWS.get(kind.removeprefix("*"))
    if name is None:
        return torch.from_numpy(array).cuda()
    return torch.from_numpy(array.view(f"i{array.itemsize}")).cuda().view(getattr(torch, name))


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


def row_against_others(torch: Any, row: Contest, triton: dict[str, Any], device: Any, folder: Path) -> Row:
    """A row at full size: each kernel of it in the configuration that is fastest, ours and Triton's."""
    ours, theirs, cases, names = 0.0, 0.0, list[Case](), list[str]()
    rivals: dict[str, float] = {}
    for entries in row.kernels():
        case = LARGE[entries[0].kernel](entries[0])
        arguments = on_gpu(torch, entries[0], case.arguments)
        tensors = [value for value in arguments if hasattr(value, "data_ptr")]
        ours_of = {described(entry): _ours(torch, entry, device, arguments, folder) for entry in entries}
        names.append(min(ours_of, key=lambda name: ours_of[name]))
        ours += ours_of[names[-1]]
        cases.append(case)
        if triton:
            theirs += min(_triton(torch, entry, triton, device.facts, arguments) for entry in entries)
        rival = library(torch, row._replace(entries=entries), case, tensors)
        rivals |= {"torch": seconds(torch, rival)} if rival else {}
    rivals |= {"Triton": theirs} if triton else {}
    facts = speed(ours, together(cases), first_element(row.entries[0]), device.facts)
    return {**compared(ours, rivals, BARS["kernel"]), **facts, "chosen": "; ".join(names)}


def _ours(torch: Any, entry: Entry, device: Any, arguments: list[Any], folder: Path) -> float:
    case = LARGE[entry.kernel](entry)
    kernel = device.load(entry, entry.code(folder))
    with device.bound(kernel, case.grid_on(device.facts), arguments) as launch:
        return seconds(torch, launch)


def _triton(torch: Any, entry: Entry, triton: dict[str, Any], facts: dict[str, Any], arguments: list[Any]) -> float:
    """Infinite for what Triton cannot compile, as a tile too large for its way to do it."""
    case = LARGE[entry.kernel](entry)
    try:
        return seconds(torch, launcher(triton[entry.kernel], entry, case, facts, arguments))
    except Exception as error:  # noqa: BLE001 - its errors are of many classes
        print(f"Triton, {entry.name}: {error}".splitlines()[0], file=sys.stderr)
        return float("inf")


def launch_row(torch: Any, triton: dict[str, Any]) -> Row:
    """The cost of a launch to the program that makes it."""
    import gpu_static_kernels as ours_of

    tensors = [torch.zeros(1024, device="cuda") for _ in range(3)]
    costs = {}
    for name, kernel in {"ours": ours_of.add, **({"Triton": triton["add"]} if triton else {})}.items():
        bound = kernel[(1, 1, 1)]
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
    """The configurations that Tilewright's autotuner is given."""
    import tilewright

    tiles = ((128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 256, 64), (128, 128, 32))
    return [
        tilewright.Config(dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)), warps, stages)
        for tile in tiles
        for warps in (4, 8)
        for stages in (3, 4)
    ]


def autotuned_row(torch: Any, triton: dict[str, Any]) -> Row:
    """The product of fp16 matrices, tuned by Tilewright's autotuner, against cuBLAS."""
    import gpu_static_kernels as kernels

    import tilewright

    n = SIZES["side"]
    a, b, c = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(3))
    tuned = tilewright.autotune(configurations(), key=["M", "N", "K"])(kernels.matmul)

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return tilewright.cdiv(n, meta["BLOCK_M"]), tilewright.cdiv(n, meta["BLOCK_N"])

    ours = seconds(torch, lambda: tuned[grid](a, b, c, n, n, n, n, n, n))
    row = compared(ours, {"torch": seconds(torch, lambda: torch.matmul(a, b, out=c))}, 0)
    work = Case((1,), [], {}, operations=2.0 * n**3)
    return {
        **row,
        **speed(ours, work, "fp16", {"device": torch.cuda.get_device_name()}),
        "chosen": str(tuned.best_config),
    }


OF_TILEWRIGHT: dict[str, Callable[[Any, dict[str, Any]], Row]] = {"launch": launch_row, "autotune": autotuned_row}
"""Rows that need Tilewright itself."""
AGAINST = " against others"


def rows(folder: Path, capability: int) -> dict[str, Contest | None]:
    """The rows by name; None for those that need Tilewright itself."""
    found: dict[str, Contest | None] = dict.fromkeys(OF_TILEWRIGHT)
    for item in chosen("fast", folder, capability):
        row = item if isinstance(item, Contest) else Contest(item.name, capability, [item])
        found[row.name + AGAINST] = row
    return found


def row_of(name: str, folder: Path) -> Row:
    """The outcome of a row; errors of any kind become its text."""
    if not find_spec("torch"):
        return {"skipped": "torch is not installed"}
    if name in OF_TILEWRIGHT and not find_spec("tilewright"):
        return {"skipped": "Tilewright is not installed"}
    import torch

    if not torch.cuda.is_available():
        return {"skipped": "this torch has no GPU"}
    try:
        device = Device()  # whose context torch uses, too
        with tempfile.TemporaryDirectory() as scratch:
            triton = for_triton(Path(scratch))
            if triton:
                triton["triton"].set_allocator(
                    lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda")
                )
            if name in OF_TILEWRIGHT:
                return OF_TILEWRIGHT[name](torch, triton)
            row = rows(folder, device.capability)[name]
            assert row is not None
            return row_against_others(torch, row, triton, device, folder)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the row says
        return {"good": False, "problem": f"{type(error).__name__}: {error}".splitlines()[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="JSON of the part `fast`, in the folder of the bundle")
    parser.add_argument("--bundle", type=Path, help="the folder of the bundle, if it is another one")
    parser.add_argument("--skip", type=int, help="print the row behind the first ones as a line of JSON")
    parser.add_argument("--seconds", type=float, default=0.0, help="for all rows; without it, what the part has left")
    asked = parser.parse_args()
    folder = asked.bundle or asked.file.parent
    try:
        names = list(rows(folder, Device().capability))
    except CudaError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 2
    if asked.skip is not None:
        return print_rows(lambda name: row_of(name, folder), names, asked.skip)
    command = [sys.executable, __file__, "--bundle", str(folder)]
    add_rows(asked.file, command, names, row_seconds=ROW_SECONDS, seconds=asked.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
