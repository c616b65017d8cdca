"""One process of the table "Compile, load, launch": prints a JSON line per row. `run.py` starts it."""

from __future__ import annotations

import argparse
import atexit
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import peers
from gpu_static import Triton
from gpu_static_kernels import ANCHORS
from timing import race

import tilewright as tw
import tilewright.language as tl

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ROUNDS = 8
COMPILATIONS = 20


def fresh(name: str) -> Any:
    """The example, executed anew, so that nothing about its kernels is remembered."""
    fresh.serial = getattr(fresh, "serial", 0) + 1
    spec = importlib.util.spec_from_file_location(f"{name}_{fresh.serial}", EXAMPLES / f"{name}.py")
    if not (spec and spec.loader):
        raise FileNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def matrix(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def compile_vector_add() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return fresh("vector_add").add_kernel, (*matrix(3, 1000), 1000), {"BLOCK": 1024}


def compile_softmax() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return fresh("softmax").softmax_kernel, (*matrix(2, 8, 1000), 1000, 1000, 1000), {"BLOCK": 1024}


def compile_matmul() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    module = fresh("matmul")
    sizes = (512, 512, 512, 512, 1, 512, 1, 512, 1)
    tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP": 8, "ACCUMULATOR": module.tl.float32}
    return module.matmul_kernel, (*matrix(3, 512, 512), *sizes), tile


def compile_flash() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    steps = (1024 * 64, 64) * 4
    tile = {"HEAD": 64, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": True}
    return fresh("flash_attention").attention_kernel, (*matrix(4, 1, 1024, 64), 0.125, *steps, 1024, 1024), tile


COMPILED = {
    "vector add": (compile_vector_add, 15, None),
    "softmax": (compile_softmax, 25, None),
    "matmul": (compile_matmul, 45, 6),
    "flash attention": (compile_flash, 80, 10),
}
"""Kernel, bar in CPU milliseconds, and that of front end and passes."""


def compiling(name: str, count: int = COMPILATIONS) -> Iterator[dict[str, Any]]:
    """CPU time from source to runnable; the share of front end and passes."""
    make, bar, front_bar = COMPILED[name]
    totals, fronts = [], []
    for _ in range(count):
        kernel, values, constants = make()
        start = time.thread_time()
        compiled = kernel.warmup(*values, **constants, grid=(1,))
        totals.append(time.thread_time() - start)
        times = compiled.metadata.times
        fronts.append((times["begin"] + times["ttir"]) / 1e3)
    median = sorted(totals)[count // 2]
    yield {"row": f"compile {name}", "ours": min(totals), "median": median, "limit": bar / 1e3}
    if front_bar:
        yield {"row": f"front end and passes, {name}", "ours": min(fronts), "limit": front_bar / 1e3}


BESIDE_TRITON = {
    "vector add": ("add1024_w4_80", 0.15),
    "softmax": ("softmax1024_w4_80", 0.15),
    "matmul": ("mm64x64x32_w4s3_80", 0.10),
    "flash attention": ("fa128x64d64_w4s3_80", 0.12),
}
"""Triton's kernel beside ours, and the bar: the share of its CPU time from source to cubin."""


def compiling_beside_triton() -> Iterator[dict[str, Any]]:
    """CPU time from source to runnable, in turns with Triton's to cubin; TRITON_PYTHON names a Python that has it."""
    python = os.environ.get("TRITON_PYTHON")
    if not python:
        return
    triton = Triton(python)
    for name, (anchor, share) in BESIDE_TRITON.items():
        wanted = next(one for one in ANCHORS if one.name == anchor)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(triton.compiled(wanted)["cpu"])
            ours += [next(compiling(name, count=2))["ours"]]
        peers = {"triton": min(theirs)}
        row = {"row": f"compile {name}, beside Triton", "ours": min(ours), "peers": peers}
        yield row | {"against": "triton", "bar": 1 / share}


def importing() -> Iterator[dict[str, Any]]:
    """CPU time of `import tilewright` above that of starting Python."""
    commands = ("pass", "import tilewright", "import numpy")
    costs: dict[str, float] = dict.fromkeys(commands, 1e9)
    for _ in range(ROUNDS):
        for command in commands:
            costs[command] = min(costs[command], child_cpu(command))
    yield {
        "row": "import tilewright",
        "ours": costs["import tilewright"] - costs["pass"],
        "peers": {"numpy alone": costs["import numpy"] - costs["pass"]},
        "limit": 0.1,
    }


@cache
def bytecode() -> str:
    """A folder for what Python compiles of modules, which an installed package has beside its sources."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def child_cpu(code: str, environment: Mapping[str, str] = os.environ) -> float:
    """CPU seconds of a Python process that runs `code`; the first one with that code compiles modules."""
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = bytecode()
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], kept)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"python -c {code!r} failed"
    return float(usage.ru_utime + usage.ru_stime)


LOAD = """
import sys, time
import numpy as np
from vector_add import add_kernel
x, y, out = np.ones((3, 1000), np.float32)
start = time.process_time()
add_kernel[(1,)](x, y, out, 1000, BLOCK=1024)
seconds = time.process_time() - start
assert (out == 2).all()
assert "llvmlite" not in sys.modules, "llvmlite was imported"
print(seconds)
"""


def loading() -> Iterator[dict[str, Any]]:
    """The first launch in a new process, with the kernel in the disk cache."""
    environment = {name: text for name, text in os.environ.items() if name != "TRITON_ALWAYS_COMPILE"}
    start_up = LOAD.replace('assert "llvmlite"', 'assert True or "llvmlite"')
    subprocess.run([sys.executable, "-c", start_up], check=True, env=environment, stdout=subprocess.DEVNULL)
    costs = [float(subprocess.check_output([sys.executable, "-c", LOAD], env=environment)) for _ in range(ROUNDS)]
    yield {"row": "first launch from the disk cache", "ours": min(costs), "limit": 2e-3}
    whole = min(child_cpu(LOAD.replace("print", ""), environment) for _ in range(ROUNDS))
    yield {"row": "interpreter start to result, from the disk cache", "ours": whole, "limit": 0.12}


def launching() -> Iterator[dict[str, Any]]:
    """A launch of one program of 1000 additions whose arguments look like those of the one before."""
    add = importlib.import_module("vector_add").add_kernel
    x, y, out = matrix(3, 1000)
    scope = {"add": add, "wide": wide, "np": np, "torch": peers.torch, "x": x, "y": y, "out": out}
    launch = "add[(1,)](x, y, out, 1000, BLOCK=1024)"
    functions = {"ours": repeated(launch, scope), "numpy": repeated("np.add(x, y, out=out)", scope)}
    if peers.numba:
        functions["numba"] = repeated("njit_add(x, y, out)", {**scope, "njit_add": numba_add()})
    yield from launch_row("launch, 4 arguments, NumPy arrays", functions, 0.25e-6)
    functions = {"ours": repeated(launch.replace("(1,)", "grid"), {**scope, "grid": lambda meta: (1,)})}
    functions["plain grid"] = repeated(launch, scope)
    (row,) = launch_row("launch, what a grid function adds", functions, 0.15e-6)
    yield row | {"ours": row["ours"] - row.pop("peers")["plain grid"]}
    functions = {"ours": repeated(f"wide[(1,)](x, y, out, x, y, out, {', '.join(map(str, range(3, 16)))})", scope)}
    yield from launch_row("launch, 19 arguments", functions, 0.8e-6)
    functions = {"ours": repeated("scaled[(1,)](x, (out, 1000, 2.5), BLOCK=1024)", {**scope, "scaled": scaled})}
    yield from launch_row("launch, one array and a tuple of three", functions, 1.5e-6)
    if peers.torch:
        scope |= {name: peers.torch.from_numpy(scope[name]) for name in ("x", "y", "out")}
        functions = {"ours": repeated(launch, scope), "torch": repeated("torch.add(x, y, out=out)", scope)}
        yield from launch_row("launch, 4 arguments, torch tensors", functions, 0.5e-6)


def on_fake_gpu() -> Iterator[dict[str, Any]]:
    """A launch on a GPU by a driver that does nothing: that of the tests."""
    sys.path.insert(0, str(EXAMPLES.parent / "tests" / "drivers" / "cuda"))
    fake_driver = importlib.import_module("fake_driver")
    with tempfile.TemporaryDirectory() as folder:
        fake = fake_driver.FakeDriver(Path(folder))
        os.environ["TRITON_LIBCUDA_PATH"] = folder
        from tilewright import cuda
        from tilewright.compat.tensor_descriptor import TensorDescriptor

        x = cuda.empty(1024)
        scope = {"eight": eight, "x": x}
        launch = "eight[(1,)](x, x, x, 1000, 77, 3, 0.5, 2.0)"
        exec(launch, scope)
        assert len(fake.launches()) == 1, "the launch goes to the fake driver"
        fake.state.quiet = 1
        yield from launch_row("launch, 8 arguments, fake GPU", {"ours": repeated(launch, scope)}, 0.5e-6)
        fake.state.quiet = 0
        tensor = cuda.empty((64, 64))
        scope = {"moved": moved, "x": TensorDescriptor.from_tensor(tensor, [16, 64])}
        launch = "moved[(4,)](x, x)"
        exec(f"{launch}\n{launch}", scope)
        assert len(fake.calls("cuTensorMapEncodeTiled")) == 4, "each launch makes two tensor maps"
        fake.state.quiet = 1
        yield from launch_row("launch, 2 descriptors, fake GPU", {"ours": repeated(launch, scope)}, 1e-6)


@tw.jit
def eight(a, b, c, n, m, k, scale, bias):
    tl.store(a, tl.load(b) * scale + tl.load(c) * bias + n * m + k)


@tw.jit
def moved(source, target):
    target.store([0, 0], source.load([0, 0]))


@tw.jit
def wide(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s):  # noqa: E741 - 19 names
    tl.store(a, g)


@tw.jit
def scaled(x, target, BLOCK: tl.constexpr):
    out, n, factor = target
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, factor * tl.load(x + offsets, offsets < n), offsets < n)


def beside_triton() -> Iterator[dict[str, Any]]:
    """The same launch by Triton with a driver that does nothing; TRITON_PYTHON names a Python that has Triton 3.9."""
    python = os.environ.get("TRITON_PYTHON") or (sys.executable if importlib.util.find_spec("triton") else "")
    if not python:
        return
    script = Path(__file__).with_name("launch_triton.py")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TRITON"))}
    few, many = map(float, subprocess.check_output([python, script], env=environment, text=True).split())
    for row in launching():
        for name, cost in (("launch, 4 arguments, NumPy arrays", few), ("launch, 19 arguments", many)):
            if row["row"] == name:
                judged = {"peers": {"triton": cost / 1e9}, "against": "triton", "bar": 25}
                yield row | {"row": f"{name}, beside Triton"} | judged


def launch_row(name: str, functions: dict[str, Callable[[], object]], limit: float) -> Iterator[dict[str, Any]]:
    times = race(functions, seconds=1.0, clock=time.process_time)
    ours = times.pop("ours") / REPEATS
    yield {"row": name, "ours": ours, "peers": {peer: cost / REPEATS for peer, cost in times.items()}, "limit": limit}


REPEATS = 1000


def repeated(statement: str, scope: dict[str, Any]) -> Callable[[], object]:
    """A function that executes the statement REPEATS times, with nothing else in the loop."""
    namespace = dict(scope)
    exec(f"def loop():\n for _ in range({REPEATS}): {statement}", namespace)
    function: Callable[[], object] = namespace["loop"]
    return function


def numba_add() -> Any:
    @peers.numba.njit
    def add(x: Any, y: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] + y[i]

    return add


def rows() -> Iterator[tuple[str, Callable[[], Iterator[dict[str, Any]]]]]:
    """Names that `--only` is matched with, and what measures them."""
    yield "import tilewright", importing
    for name in COMPILED:
        yield f"compile {name}, front end and passes", lambda name=name: compiling(name)
    yield "compile, beside Triton", compiling_beside_triton
    yield "first launch from the disk cache", loading
    yield "launch, arguments", launching
    yield "launch, fake GPU", on_fake_gpu
    yield "launch, beside Triton", beside_triton


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    only = parser.parse_args().only
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    peers.limit_threads(1)
    for name, measure in rows():
        if re.search(only, name):
            try:
                for row in measure():
                    print(json.dumps(row), flush=True)
            except Exception as error:  # noqa: BLE001 - one broken row must not hide the others
                print(json.dumps({"row": name, "error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
