"""The kernels of `bench/gpu_static.py` give what NumPy gives, in the simulator with all its checks, on ragged sizes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated import launch

from tilewright.backends.base import GPUTarget
from tilewright.runtime.compile import ASTSource, compile

FILE = Path(__file__).parents[2] / "bench" / "gpu_static_kernels.py"
Array = np.ndarray[Any, Any]
Launch = tuple[tuple[int, ...], list[Any], dict[int, Array], float]
"""Grid, arguments, expected arrays by position among the arrays, and the largest error."""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[FILE.stem] = module
    spec.loader.exec_module(module)
    return module


KERNELS = load()
RANDOM = np.random.default_rng(7)


def halves(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float16)


def add(anchor: Any) -> Launch:
    n = 2000
    x, y = RANDOM.random((2, n), np.float32)
    return (2,), [x, y, np.zeros(n, np.float32), n], {2: x + y}, 0


def softmax(anchor: Any) -> Launch:
    columns = anchor.constants["BLOCK"] - 32
    x = RANDOM.random((2, columns), np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    expected = e / e.sum(axis=1, keepdims=True)
    return (2,), [np.zeros_like(x), x, columns, columns, columns], {0: expected}, 1e-6


def factors(anchor: Any) -> tuple[Array, Array, Array, Array]:
    """Matrices of one whole block and a bit, three steps and a bit deep; and their product."""
    m, n = anchor.constants["BLOCK_M"] + 16, anchor.constants["BLOCK_N"]
    k = 3 * anchor.constants["BLOCK_K"] + 16
    a, b = halves(m, k), halves(k, n)
    return a, b, np.zeros((m, n), np.float16), a.astype(np.float32) @ b.astype(np.float32)


def matmul(anchor: Any) -> Launch:
    a, b, c, expected = factors(anchor)
    (m, k), n = a.shape, b.shape[1]
    return (2, 1), [a, b, c, m, n, k, k, n, n], {2: expected}, 0.06


def matmul_by_descriptors(anchor: Any) -> Launch:
    a, b, c, expected = factors(anchor)
    return (2, 1), [a, b, c, *c.shape, a.shape[1]], {2: expected}, 0.06


def attention(anchor: Any) -> Launch:
    rows, head, scale = 256, anchor.constants["HEAD"], 0.125
    q, k, v = (halves(rows, head) for _ in range(3))
    scores = scale * (q.astype(np.float32) @ k.astype(np.float32).T)
    if anchor.constants["CAUSAL"]:
        scores = np.where(np.arange(rows)[:, None] >= np.arange(rows), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (weights / weights.sum(axis=1, keepdims=True)) @ v.astype(np.float32)
    return (2, 1), [q, k, v, np.zeros_like(q), scale, rows * head, head, rows], {3: expected}, 4e-3


def power(anchor: Any) -> Launch:
    dtype = np.dtype("f4" if anchor.types["x_ptr"] == "*fp32" else "f8")
    x, y = RANDOM.uniform(0.1, 9, (2, 1500)).astype(dtype)
    return (2,), [x, y, np.zeros_like(x), x.size], {2: x**y}, 0


def cosine(anchor: Any) -> Launch:
    dtype = np.dtype("f4" if anchor.types["x_ptr"] == "*fp32" else "f8")
    x = RANDOM.uniform(-4e5, 4e5, 1500).astype(dtype)
    return (2,), [x, np.zeros_like(x), x.size], {1: np.cos(x.astype(float))}, 1e-6


def table(anchor: Any) -> Array:
    """One tile and a bit in both directions, by multiples of 16."""
    rows, columns = anchor.constants["ROWS"] // 16 * 16 + 16, anchor.constants["COLUMNS"] + 16
    return RANDOM.integers(-9, 9, (rows, columns if "LAST" in anchor.constants else columns - 32)).astype(np.float32)


def cosine_sums(anchor: Any) -> Launch:
    x = RANDOM.uniform(-4e5, 4e5, (anchor.constants["ROWS"] // 16 * 16 + 16, 1040)).astype(np.float32)
    return (2,), [x, np.zeros(len(x), np.float32), *x.shape], {1: np.cos(x.astype(float)).sum(axis=1)}, 1e-3


def argmax(anchor: Any) -> Launch:
    x = table(anchor)
    return (2,), [x, np.zeros(len(x), np.int64), *x.shape], {1: x.argmax(axis=1)}, 0


LAUNCHES: dict[str, Callable[[Any], Launch]] = {
    **{function.__name__: function for function in (add, softmax, matmul, matmul_by_descriptors, attention)},
    **{function.__name__: function for function in (power, cosine, cosine_sums, argmax)},
    "argmax_at_once": argmax,
}


NAMES = [anchor.name for anchor in KERNELS.ANCHORS]


def check(kernel: Any, anchor: Any) -> None:
    """Run a compiled kernel, and compare."""
    grid, arguments, expected, error = LAUNCHES[anchor.kernel](anchor)
    results = launch(kernel, grid, arguments)
    for number, array in expected.items():
        np.testing.assert_allclose(results[number].astype(np.float32), array, atol=error, rtol=2e-3)


def anchor_of(name: str) -> Any:
    return next(anchor for anchor in KERNELS.ANCHORS if anchor.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_anchor(name: str) -> None:
    anchor = anchor_of(name)
    signature = {**anchor.types, **dict.fromkeys(anchor.constants, "constexpr")}
    attributes = {(list(anchor.types).index(argument),): [["tt.divisibility", 16]] for argument in anchor.aligned}
    source = ASTSource(getattr(KERNELS, anchor.kernel), signature, anchor.constants, attributes)
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    check(compile(source, target=GPUTarget("cuda", anchor.capability, 32), options=options), anchor)


@pytest.fixture(scope="module")
def triton() -> Iterator[Callable[[str], dict[str, Any]]]:
    """A function from the name of an anchor to what Triton makes of it."""
    command = [os.environ["TRITON_PYTHON"], os.fspath(FILE.with_name("gpu_static_triton.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as triton:
        assert triton.stdin
        assert triton.stdout
        asked, answers = triton.stdin, triton.stdout

        @cache
        def ask(name: str) -> dict[str, Any]:
            asked.write(json.dumps([name, 1]) + "\n")
            asked.flush()
            return dict(json.loads(answers.readline()))

        yield ask
        asked.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs_triton_python
def test_anchor_as_triton_lays_it_out(name: str, triton: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    """What Triton's passes decide is lowered as well as what ours do."""
    anchor, path = anchor_of(name), tmp_path / "kernel.ttgir"
    path.write_text(triton(name)["ttgir"])
    check(compile(path, target=GPUTarget("cuda", anchor.capability, 32)), anchor)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs_triton_python
def test_tritons_own_code(name: str, triton: Callable[[str], dict[str, Any]]) -> None:
    """Code that others made, and that GPUs are known to run, gives the same: so the simulator is right about it."""
    answer = triton(name)
    facts = SimpleNamespace(shared=answer["shared"], num_ctas=1, global_scratch_size=answer["scratch"])
    check(SimpleNamespace(asm={"ptx": answer["ptx"]}, metadata=facts), anchor_of(name))
