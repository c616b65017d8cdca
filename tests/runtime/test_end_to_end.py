"""Real kernels through the whole pipeline: every way to pass arguments, each checked against NumPy."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels
from tilewright.backends.llvm.machine import host_target


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


@tw.jit
def product_and_sum(x, y):
    return x * y, x + y


class Extent(NamedTuple):
    size: int
    factor: float


class Shape(tuple[int, ...]):
    """A tuple class that takes nothing but numbers, like torch's."""

    def __new__(cls, extents: Any) -> Shape:
        return super().__new__(cls, [int(extent) for extent in extents])


@tw.jit
def count_elements(shape, out_ptr):
    tl.store(out_ptr, shape[0] * shape[1])


class Closure(NamedTuple):
    function: tl.constexpr
    captured: tuple[Any, ...]


@tw.jit
def call_closure(closure, out_ptr):
    product, total = closure.function(*closure.captured)
    tl.store(out_ptr, product - total)


@tw.jit
def scaled(out_ptr, HOW: tl.constexpr):
    if HOW == "double":
        factor = 2
    else:
        raise ValueError("no such way")
    tl.store(out_ptr, factor)


@tw.jit
def negated(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, -tl.load(x_ptr + offsets))


@tw.jit
def combine(pointers, extent, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < extent.size
    x = tl.load(pointers[0] + offsets, mask=inside)
    y = tl.load(pointers[1] + offsets, mask=inside)
    product, total = product_and_sum(x, y)
    tl.store(out_ptr + offsets, product + total * extent.factor, mask=inside)


@tw.jit
def affine(x_ptr, out_ptr, n, factor, shift, negate, optional_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n) * factor + shift
    if optional_ptr is not None:
        x += tl.load(optional_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.where(negate, -x, x), mask=offsets < n)


@tw.jit
def histogram(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(out_ptr + x, 1, mask=offsets < n)


@pytest.mark.parametrize("n", [1, 15, 16, 127, 128, 129, 1000, 4096])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_ragged_sizes(n: int, num_threads: int) -> None:
    x, y = np.random.default_rng(n).random((2, n), np.float32)
    for offset in (0, 1, 4):  # aligned and not
        memory = np.full(n + offset + 8, np.nan, np.float32)
        out = memory[offset : offset + n]
        add[(tw.cdiv(n, 128),)](x, y, out, n, BLOCK=128, num_threads=num_threads)
        assert np.array_equal(out, x + y)
        assert np.isnan(memory[offset + n :]).all(), "stored beyond the end"
        assert np.isnan(memory[:offset]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint16, np.int32, np.int64])
def test_element_types(dtype: Any) -> None:
    x, y = (np.random.default_rng(0).random((2, 100)) * 100).astype(dtype)
    out = np.zeros(100, dtype)
    add[(1,)](x, y, out, 100, BLOCK=128)
    assert np.array_equal(out, x + y)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64"])
@pytest.mark.needs_torch
def test_torch_tensors(name: str) -> None:
    import torch

    x, y = (torch.rand(2, 1000) * 100).to(getattr(torch, name))
    out = torch.empty_like(x)
    for _ in range(2):
        add[(8,)](x, y, out, 1000, BLOCK=128)
        assert torch.equal(out, x + y)


@pytest.mark.needs_torch
def test_several_kinds_of_arrays_at_once() -> None:
    import torch

    x, y = np.random.default_rng(0).random((2, 100), np.float32)
    out = torch.zeros(100)
    add[(1,)](x, torch.from_numpy(y), out, 100, BLOCK=128)
    assert np.array_equal(out.numpy(), x + y)


def test_tuples_and_named_tuples() -> None:
    x, y = np.random.default_rng(0).random((2, 100), np.float32)
    out = np.zeros(100, np.float32)
    for factor in (3.0, 0.5):
        combine[(1,)]((x, y), Extent(100, factor), out, BLOCK=128)
        assert np.allclose(out, x * y + (x + y) * np.float32(factor))


def test_numbers_booleans_and_none() -> None:
    x = np.arange(100, dtype=np.float32)
    out = np.zeros(100, np.float32)
    for factor, shift, negate, optional in (
        (2, 0.5, False, None),
        (1, -3, True, x),
        (2**40, 0.0, False, None),
        (0.25, np.float32(1), np.True_, x),
    ):
        affine[(1,)](x, out, np.int64(100), factor, shift, negate, optional, BLOCK=128)
        expected = x * np.float32(factor) + np.float32(shift) + (0 if optional is None else x)
        assert np.allclose(out, -expected if negate else expected)


def test_atomics_on_two_threads() -> None:
    x = np.random.default_rng(0).integers(0, 50, 100_000).astype(np.int32)
    out = np.zeros(50, np.int32)
    histogram[(tw.cdiv(x.size, 256),)](x, out, x.size, BLOCK=256, num_threads=2)
    assert np.array_equal(out, np.bincount(x, minlength=50))


def test_tuned_kernel() -> None:
    tuned = tw.autotune([tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 512})], key=["n"])(add)
    x, y = np.random.default_rng(0).random((2, 1000), np.float32)
    out = np.zeros(1000, np.float32)
    tuned[lambda args: (tw.cdiv(args["n"], args["BLOCK"]),)](x, y, out, 1000)
    assert np.array_equal(out, x + y)


def test_stages() -> None:
    x = np.zeros(128, np.float32)
    kernel = add.warmup(x, x, x, 128, BLOCK=128, grid=(1,))
    assert list(kernel.asm) == ["source", "ttir", "ttcir", "llir", "asm", "obj"]
    assert "tt.load" in kernel.asm["ttir"]
    assert "cpu.nest" in kernel.asm["ttcir"]
    assert "define" in kernel.asm["llir"]
    assert kernel.asm["obj"].startswith(b"\x7fELF")
    assert kernel.metadata.scratch_bytes >= 0


def test_another_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", "neoverse-v1")
    x = np.zeros(128, np.float32)
    kernel = tw.jit(add.fn).warmup(x, x, x, 128, BLOCK=128, grid=(1,))
    assert kernel.metadata.target.arch == "neoverse-v1"
    assert "fadd" in kernel.asm["asm"]
    if "aarch64" not in host_target().triple:
        with pytest.raises(RuntimeError, match="this machine cannot run that"):
            kernel[(1,)](x, x, x, 128, 128)


NEW_PROCESS = """
import sys
sys.path.append("..")
import numpy as np
from test_end_to_end import add
x = np.arange(1000, dtype=np.float32)
out = np.zeros(1000, np.float32)
add[(8,)](x, x, out, 1000, BLOCK=128)
assert np.array_equal(out, x + x)
print([name for name in sys.modules if name.partition(".")[0] == "llvmlite" or name in
       ("tilewright.compiler.compile", "tilewright.frontends.hir", "tilewright.backends.cpu.pipeline")])
"""


@pytest.mark.spared
def test_warm_process_imports_neither_compiler_nor_llvmlite(own_cache: Path) -> None:
    here = Path(__file__).parent
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache_without_kernels(own_cache))}
    run = [sys.executable, "-c", NEW_PROCESS]
    cold, warm = (
        subprocess.run(run, cwd=here, env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert "llvmlite" in cold
    assert warm.strip() == "[]"


FORK = """
import os
import pickle
import sys
sys.path.append("..")
import numpy as np
from test_end_to_end import add
x = np.arange(1000, dtype=np.float32)
out = np.zeros(1000, np.float32)
add[(8,)](x, x, out, 1000, BLOCK=128, num_threads=2)
child = os.fork()
out[:] = 0
for _ in range(3):
    add[(8,)](x, x, out, 1000, BLOCK=128, num_threads=2)
add[(16,)](x, x, out, 1000, BLOCK=64)  # compiles in the child
assert np.array_equal(out, x + x)
if child:
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""


@pytest.mark.spared
def test_fork_after_a_launch(own_cache: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache_without_kernels(own_cache))}
    subprocess.run([sys.executable, "-c", FORK], cwd=Path(__file__).parent, env=environment, check=True, timeout=60)


def test_kernels_are_pickled_by_reference() -> None:
    assert pickle.loads(pickle.dumps(add)) is add


def test_tuple_class_that_takes_numbers_only() -> None:
    out = np.zeros(1, np.int32)
    count_elements[(1,)](Shape((3, 5)), out)
    assert out[0] == 15
    count_elements[(1,)](Shape((7, 5)), out)
    assert out[0] == 35


def test_kernel_function_as_a_field_of_a_named_tuple() -> None:
    out = np.zeros(1, np.int32)
    call_closure[(1,)](Closure(product_and_sum, (7, 5)), out)
    assert out[0] == 35 - 12


def test_raise_is_refused_where_it_is_reached() -> None:
    out = np.zeros(1, np.int32)
    scaled[(1,)](out, HOW="double")
    assert out[0] == 2
    with pytest.raises(tw.CompilationError, match="`raise` cannot be used"):
        scaled[(1,)](out, HOW="triple")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_minus_flips_the_sign_of_zero(dtype: Any) -> None:
    x = np.array([0.0, -0.0, 1.5, -np.inf], dtype)
    out = np.zeros_like(x)
    negated[(1,)](x, out, BLOCK=4)
    assert np.array_equal(np.signbit(out), [True, False, True, False])
