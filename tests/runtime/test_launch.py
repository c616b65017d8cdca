"""`kernel[grid](…)` end to end, with code written by hand below the TTIR."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_written import HandWritten

import tilewright as tw
import tilewright.language as tl
from tilewright.backends import registry
from tilewright.runtime import build
from tilewright.runtime.kernel import grid_extents


@pytest.fixture(autouse=True)
def hand_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The hand-written back end and a cache folder of its own for each test."""
    monkeypatch.setitem(registry._built_in, "cpu", HandWritten)
    registry.make_backend.cache_clear()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    HandWritten.compiled = 0
    yield tmp_path / "cache"
    registry.make_backend.cache_clear()


def add_source(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


@pytest.fixture
def add() -> Any:
    return tw.jit(add_source)


def arrays(n: int = 1000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x, y = generator.random((2, n), np.float32)
    return x, y, np.full(n, np.nan, np.float32)


def test_numpy(add: Any) -> None:
    x, y, out = arrays()
    kernel = add[(8,)](x, y, out, 1000, BLOCK=128)
    assert np.array_equal(out, x + y)
    assert isinstance(kernel, tw.CompiledKernel)
    assert list(kernel.asm) == ["source", "ttir", "llir", "asm", "obj"]
    assert kernel.asm["source"].startswith("def add_source(")
    assert "add_entry" in kernel.asm["asm"]


@pytest.mark.needs_torch
def test_torch(add: Any) -> None:
    import torch

    x, y, out = map(torch.from_numpy, arrays())
    for _ in range(3):
        out.fill_(0)
        add[(8,)](x, y, out, 1000, BLOCK=128)
        assert torch.equal(out, x + y)


def test_launches_again_do_not_compile(add: Any) -> None:
    x, y, out = arrays()
    kernels = {id(add[(8,)](x, y, out, n, BLOCK=128)) for n in (1000, 904, 1000, 776)}
    assert len(kernels) == 1
    x, y, out = arrays(960)
    add[(8,)](x, y, out, 960, 128)
    assert np.array_equal(out, x + y)
    assert HandWritten.compiled == 2  # n divisible by 16 is another kernel


@pytest.mark.parametrize(
    "grid", [(8,), [8], 8, (8, 1, 1), lambda args: (tw.cdiv(args["n"], args["BLOCK"]),), (np.int64(8),), lambda _: 8]
)
def test_grids(add: Any, grid: Any) -> None:
    x, y, out = arrays()
    for _ in range(2):
        out.fill(0)
        add[grid](x, y, out, 1000, BLOCK=128)
        assert np.array_equal(out, x + y)


def test_empty_grid_runs_nothing(add: Any) -> None:
    x, y, out = arrays()
    for _ in range(2):
        add[(0,)](x, y, out, 1000, BLOCK=128)
        assert np.isnan(out).all()


@pytest.mark.parametrize("grid", [(8, 1, 1, 1), [8, 1, 1, 1, 1], lambda meta: (tw.cdiv(meta["n"], 128), 1, 1, 1)])
def test_grids_may_have_more_extents_of_one(add: Any, grid: Any) -> None:
    """Triton reads the first three, and libraries that count on it exist."""
    x, y, out = arrays()
    for _ in range(2):
        out[:] = 0
        add[grid](x, y, out, 1000, BLOCK=128)
        assert np.array_equal(out, x + y)


@pytest.mark.parametrize(
    ("grid", "error"),
    [((), ValueError), ((1, 1, 1, 2), ValueError), ((-1,), ValueError), ((2**31,), ValueError), ((1.5,), TypeError)],
)
def test_bad_grids(add: Any, grid: Any, error: type[Exception]) -> None:
    x, y, out = arrays()
    for _ in range(2):
        with pytest.raises(error):
            add[grid](x, y, out, 1000, BLOCK=128)
        with pytest.raises(error):
            grid_extents(grid, {})
    add[(8,)](x, y, out, 1000, BLOCK=128)
    for _ in range(2):
        with pytest.raises(error):
            add[grid](x, y, out, 1000, BLOCK=128)


def test_read_only_targets_are_refused_and_inputs_are_not(add: Any) -> None:
    x, y, out = arrays()
    x.flags.writeable = False
    add[(8,)](x, y, out, 1000, BLOCK=128)
    assert np.array_equal(out, x + y)
    out.flags.writeable = False
    before = out.copy()
    for _ in range(2):
        with pytest.raises(tw.ReadOnlyError, match="out_ptr"):
            add[(8,)](x, y, out, 1000, BLOCK=128)
    assert np.array_equal(out, before)


def test_bad_arguments_name_the_parameter(add: Any) -> None:
    x, y, out = arrays()
    with pytest.raises(tw.ArgumentError, match=r"'y_ptr'.*complex"):
        add[(8,)](x, y.astype(np.complex64), out, 1000, BLOCK=128)
    with pytest.raises(TypeError, match="missing 1 required argument: 'BLOCK'"):
        add[(8,)](x, y, out, 1000)
    with pytest.raises(KeyError, match="num_wraps"):
        add[(8,)](x, y, out, 1000, BLOCK=128, num_wraps=4)
    with pytest.raises(TypeError, match="hashable"):
        add[(8,)](x, y, out, 1000, BLOCK={})


def test_gpu_options_do_not_compile_again(add: Any, hand_written: Path) -> None:
    x, y, out = arrays()
    first = add[(8,)](x, y, out, 1000, BLOCK=128)
    second = add[(8,)](x, y, out, 1000, BLOCK=128, num_warps=8, num_stages=2)
    assert second.metadata.num_warps == 8
    assert first.hash == second.hash
    assert HandWritten.compiled == 1
    assert len(list(hand_written.glob("*/"))) == 1


def test_warmup_compiles_and_does_not_launch(add: Any) -> None:
    x, y, out = arrays()
    kernel = add.warmup(x, y, out, 1000, BLOCK=128, grid=(8,))
    assert np.isnan(out).all()
    assert kernel is add[(8,)](x, y, out, 1000, BLOCK=128)


def test_a_compiled_kernel_launches_itself(add: Any) -> None:
    x, y, out = arrays()
    kernel = add.warmup(x, y, out, 1000, BLOCK=128, grid=(8,))
    kernel[(8,)](x, y, out, 1000, 128)
    assert np.array_equal(out, x + y)
    with pytest.raises(TypeError, match="5 arguments but 4"):
        kernel[(8,)](x, y, out, 1000)


def test_pre_run_hooks_see_every_launch(add: Any) -> None:
    x, y, out = arrays()
    add[(8,)](x, y, out, 1000, BLOCK=128)
    seen = []
    add.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), kwargs)))
    for _ in range(3):
        add[(8,)](x, y, out, 1000, BLOCK=128)
    assert seen == [(4, {"BLOCK": 128})] * 3


def test_second_process_finds_the_kernel_on_disk(add: Any, hand_written: Path) -> None:
    x, y, out = arrays()
    first = add[(8,)](x, y, out, 1000, BLOCK=128)
    again = tw.jit(add_source)
    out.fill(0)
    second = again[(8,)](x, y, out, 1000, BLOCK=128)
    assert np.array_equal(out, x + y)
    assert HandWritten.compiled == 1
    assert second is not first
    assert second.metadata == first.metadata
    assert list(second.asm) == list(first.asm)
    assert all(second.asm[name] == first.asm[name] for name in first.asm)


@pytest.mark.parametrize("victim", ["image", "json"])
def test_damaged_entry_is_made_again(add: Any, hand_written: Path, victim: str) -> None:
    x, y, out = arrays()
    add[(8,)](x, y, out, 1000, BLOCK=128)
    (path,) = hand_written.glob(f"*/add_source.{victim}")
    path.write_bytes(path.read_bytes()[:-7])
    out.fill(0)
    tw.jit(add_source)[(8,)](x, y, out, 1000, BLOCK=128)
    assert np.array_equal(out, x + y)
    assert HandWritten.compiled == 2
    tw.jit(add_source)[(8,)](x, y, out, 1000, BLOCK=128)
    assert HandWritten.compiled == 2


def test_always_compile(add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, out = arrays()
    add[(8,)](x, y, out, 1000, BLOCK=128)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    tw.jit(add_source)[(8,)](x, y, out, 1000, BLOCK=128)
    assert HandWritten.compiled == 2


def test_kernel_dump(add: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    x, y, out = arrays()
    kernel = add[(8,)](x, y, out, 1000, BLOCK=128)
    (folder,) = (tmp_path / "dump").iterdir()
    dumped = sorted(path.name for path in folder.iterdir())
    assert dumped == sorted(f"add_source.{stage}" for stage in kernel.asm)


def test_unwritable_cache_still_launches(add: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    x, y, out = arrays()
    with pytest.warns(RuntimeWarning, match="not kept"):
        add[(8,)](x, y, out, 1000, BLOCK=128)
    assert np.array_equal(out, x + y)


SHIFT = tl.constexpr(3)


def uses_global(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK) + SHIFT - SHIFT
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets))


def test_changed_global_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tw.jit(uses_global)
    x, y, out = arrays(128)
    for _ in range(3):
        kernel[(1,)](x, y, out, 128, BLOCK=128)
    monkeypatch.setitem(globals(), "SHIFT", tl.constexpr(4))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="SHIFT has changed"):
            kernel[(1,)](x, y, out, 128, BLOCK=128)
        with pytest.raises(RuntimeError, match="SHIFT has changed"):
            kernel.run(x, y, out, 64, BLOCK=64, grid=(1,))


def wide(x_ptr, y_ptr, out_ptr, n: tl.int64, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets), mask=offsets < n)


def test_annotated_numbers_are_passed_as_annotated() -> None:
    kernel = tw.jit(wide)
    x, y, out = arrays()
    for n in (1000, 7, 2**40, 1000):
        out.fill(0)
        compiled = kernel[(8,)](x, y, out, n, BLOCK=128) if n <= 1000 else kernel.warmup(x, y, out, n, 128, grid=(1,))
        assert compiled.metadata.arguments[3] == "i64"
        if n <= 1000:
            assert np.array_equal(out[:n], (x + y)[:n])
            assert not out[n:].any()


def broken(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), no_such_name)  # noqa: F821 - unknown on purpose


def test_a_failed_compilation_leaves_nothing(hand_written: Path) -> None:
    kernel = tw.jit(broken)
    for _ in range(2):
        with pytest.raises(tw.CompilationError, match="no_such_name"):
            kernel[(1,)](np.zeros(64, np.float32), BLOCK=64)
    assert not hand_written.exists()


def test_threads_compile_once(add: Any) -> None:
    results = [arrays() for _ in range(8)]
    barrier = threading.Barrier(8)

    def launch(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        barrier.wait()
        for _ in range(20):
            add[(8,)](x, y, out, 1000, BLOCK=128)

    threads = [threading.Thread(target=launch, args=parts) for parts in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert HandWritten.compiled == 1
    assert all(np.array_equal(out, x + y) for x, y, out in results)


def test_calling_a_kernel_is_refused(add: Any) -> None:
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        add(1, 2)


def test_jit_refuses_other_things() -> None:
    with pytest.raises(TypeError, match="int"):
        tw.jit(3)
    kernel = tw.jit(add_source)
    assert tw.jit(kernel) is kernel


def test_identity_of_the_cache_key_needs_no_compiler() -> None:
    program = (
        "import sys, tilewright, tilewright.language\n"
        "from tilewright.runtime import build\n"
        "build.llvm_identity(); build.current_backend().hash()\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('llvmlite', 'torch') "
        "or n.startswith(('tilewright.frontends', 'tilewright.transforms', 'tilewright.compiler.compile'))])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
    assert build.compiler_identity()
