"""Compiled kernels in the hands of torch: it launches them by `run`, and sends them between processes."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs
from tilewright.runtime.kernel import CompiledKernel

NOTHING = (None,) * 5
"""In place of function, packed metadata, metadata and both hooks."""


@tw.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * factor, lanes < n)


X = np.arange(40, dtype=np.float32)


@pytest.fixture
def kernel() -> CompiledKernel:
    made = scale.warmup(X, X, 40, 2.0, BLOCK=16, grid=(3,))
    assert isinstance(made, CompiledKernel)
    return made


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    yield
    knobs.runtime.launch_enter_hook = knobs.runtime.launch_exit_hook = None


def launched(kernel: CompiledKernel, *hooks: Any) -> np.ndarray:
    out = np.zeros_like(X)
    kernel.run(3, 1, 1, 0, *(hooks or NOTHING), X, out, 40, 3.0, 16)
    return out


def test_later_launches_need_no_python(kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[Any] = []
    launch = CompiledKernel.launch
    monkeypatch.setattr(CompiledKernel, "launch", lambda *args, **kw: slow.append(args) or launch(*args, **kw))
    for _ in range(3):
        np.testing.assert_array_equal(launched(kernel), X * 3)
        out = np.zeros_like(X)
        assert kernel[(3,)](X, out, 40, 3.0, None) is kernel
        np.testing.assert_array_equal(out, X * 3)
    assert len(slow) <= 2  # each form of the constant once


def test_a_kernel_goes_with_its_last_reference() -> None:
    function = tw.jit(scale.fn)
    kernel = function.warmup(X, X, 40, 2.0, BLOCK=16, grid=(3,))
    launched(kernel)
    function.hash = None  # it forgets its kernels
    seen = weakref.ref(kernel)
    gc.disable()
    try:
        del kernel
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((X, X.copy(), 2**40, 1.0, 16), "argument 'n'"),
        ((X, X.copy(), 40.5, 1.0, 16), "argument 'n'"),
    ],
)
def test_every_launch_looks_at_its_numbers(kernel: CompiledKernel, values: tuple[Any, ...], message: str) -> None:
    launched(kernel)
    with pytest.raises((TypeError, ValueError, OverflowError), match=message):
        kernel.run(3, 1, 1, 0, *NOTHING, *values)


def test_an_array_that_must_not_be_written(kernel: CompiledKernel) -> None:
    launched(kernel)
    out = np.zeros_like(X)
    out.setflags(write=False)
    with pytest.raises(tw.TilewrightError, match="read-only"):
        kernel.run(3, 1, 1, 0, *NOTHING, X, out, 40, 3.0, 16)


def test_empty_chains_of_hooks_cost_nothing_and_later_hooks_are_told(kernel: CompiledKernel) -> None:
    chains = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    assert not any(chains)  # torch then passes no metadata
    seen: list[Any] = []
    chains[0].add(lambda metadata: seen.append(metadata.get()["name"]))
    np.testing.assert_array_equal(launched(kernel, None, None, None, *chains), X * 3)
    assert seen == ["scale"]


def sent(kernel: CompiledKernel) -> CompiledKernel:
    """The kernel as torch sends it from a compile worker."""
    state = pickle.loads(pickle.dumps({**vars(kernel), "module": None, "function": None, "run": None}))
    made = CompiledKernel.__new__(CompiledKernel)
    vars(made).update(state)
    made._init_handles()
    return made


@pytest.mark.parametrize("is_loaded", [False, True])
def test_kernels_are_sent_between_processes(kernel: CompiledKernel, is_loaded: bool) -> None:
    if is_loaded:
        launched(kernel)
    made = sent(kernel)
    np.testing.assert_array_equal(launched(made), X * 3)
    assert made.asm["ttir"] == kernel.asm["ttir"]
    assert made.asm["asm"] == kernel.asm["asm"]
    assert made.metadata == kernel.metadata


def test_a_function_without_its_code_is_sent_by_its_plain_attributes(kernel: CompiledKernel) -> None:
    function = scale.fn
    try:
        scale.fn = None  # as torch does in its workers
        made = sent(kernel).src.fn
    finally:
        scale.fn = function
    assert (made.fn, made.__name__, made.arg_names, made.constexprs) == (None, "scale", scale.arg_names, [4])
    assert (made.__globals__, made.used_global_vals) == (None, None)  # torch takes them away again, to keep the kernel
    assert pickle.loads(pickle.dumps(scale)) is scale
