"""Kernels written for older Tritons: what was removed or renamed since still works, and says what is written now."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.backends.cpu.options import parse_options as cpu_options
from tilewright.backends.nvidia.options import parse_options as gpu_options
from tilewright.language import deprecated
from tilewright.language.extra import libdevice


@tilewright.jit
def old_mathematics(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    rooted = tl.math.pow(value, 0.5) + tl.math.tanh(value) + tl.math.fast_expf(value)
    tl.store(out + i, tl.math.max(tl.math.min(rooted, 3.0), tl.libdevice.cbrt(value)))


@tilewright.jit
def old_product(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    block = i[:, None] * N + i[None, :]
    left, right = tl.load(a + block), tl.load(b + block)
    tl.store(out + block, tl.dot(left, right, trans_a=True) + tl.dot(left, right, False, trans_b=True))


@tilewright.jit
def old_places(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    block = i[:, None] * N + i[None, :]
    left = tl.load(a + block, block >= 0, 0.0, ".cg", "evict_last", False)
    tl.store(out + block, tl.dot(left, tl.load(b + block), None, False), block >= 0, ".cs")


@tilewright.jit
def copied(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i))


def launched(kernel: Any, *arrays: np.ndarray, n: int) -> tuple[np.ndarray, list[str]]:
    """The values that the kernel writes into its last argument, and its warnings."""
    out = np.zeros_like(arrays[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel[(1,)](*arrays, out, N=n)
    assert {warning.filename for warning in caught} == {__file__}
    return out, sorted({str(warning.message) for warning in caught})


def test_functions_that_were_in_other_modules() -> None:
    x = np.linspace(0.25, 4, 16, dtype=np.float32)

    out, warned = launched(old_mathematics, x, n=16)

    rooted = np.minimum(np.sqrt(x) + np.tanh(x) + np.exp(x), 3)
    np.testing.assert_allclose(out, np.maximum(rooted, np.cbrt(x)), rtol=1e-5)
    assert warned == [
        "tl.libdevice is deprecated: write tl.extra.libdevice",
        "tl.math.fast_expf is deprecated: write tl.extra.libdevice.fast_expf",
        "tl.math.max is deprecated: write tl.maximum",
        "tl.math.min is deprecated: write tl.minimum",
        "tl.math.pow is deprecated: write tl.extra.libdevice.pow",
        "tl.math.tanh is deprecated: write tl.extra.libdevice.tanh",
    ]


def test_operands_of_products_that_are_turned() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32)

    out, warned = launched(old_product, a, b, n=16)

    np.testing.assert_allclose(out, a.T @ b + a @ b.T, atol=1e-4)
    assert warned == [
        "allow_tf32 as third argument of tl.dot is deprecated: write allow_tf32=…",
        "tl.dot(…, trans_a=True) is deprecated: write tl.trans(…) around the operand",
        "tl.dot(…, trans_b=True) is deprecated: write tl.trans(…) around the operand",
    ]


def test_launches_with_options_that_are_gone() -> None:
    x, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    with pytest.warns(UserWarning, match="the option enable_warp_specialization"):
        copied[(1,)](x, out, N=16, enable_warp_specialization=True)

    assert out.all()


def test_arguments_in_places_of_older_signatures() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32)

    out, warned = launched(old_places, a, b, n=16)

    np.testing.assert_allclose(out, a @ b, atol=1e-4)
    assert warned == [
        "allow_tf32 as fourth argument of tl.dot is deprecated: write allow_tf32=…",
        "cache_modifier as fourth argument of tl.load is deprecated: write cache_modifier=…",
        "cache_modifier as fourth argument of tl.store is deprecated: write cache_modifier=…",
    ]


@tilewright.jit
def old_load(x, out, N: tl.constexpr, VOLATILE: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, None, None, "", "evict_last", VOLATILE))


@pytest.mark.parametrize("volatile", [False, True])
def test_a_load_that_is_volatile_in_the_sixth_place(volatile: bool) -> None:
    x = np.zeros(16, np.float32)
    with pytest.warns(UserWarning, match="cache_modifier as fourth argument"):
        text = str(old_load.warmup(x, x, N=16, VOLATILE=volatile, grid=(1,)).asm["ttir"])
    assert "evictionPolicy = evict_last" in text
    assert ("isVolatile = true" in text) == volatile


@pytest.mark.parametrize("parsed", [cpu_options, lambda given: gpu_options(given, 90)])
def test_options_of_launches_that_are_gone_change_nothing(parsed: Callable[[Any], Any]) -> None:
    with pytest.warns(UserWarning, match="the option reg_inc_consumer is deprecated: write nothing"):
        assert parsed({"num_warps": 8, "reg_inc_consumer": 240}) == parsed({"num_warps": 8})
    with pytest.raises(KeyError, match="reg_consumer"):
        parsed({"reg_consumer": 240})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("old", "now"),
    [
        (lambda: tl.float8e4, tl.float8e4nv),
        (lambda: tl.printf, tl.device_print),
        (lambda: tl.globaltimer, tl.extra.cuda.globaltimer),
        (lambda: tl.extra.smid, tl.extra.cuda.smid),
        (lambda: tl.math.llrint if "llrint" in libdevice.__all__ else tl.math.rint, None),
    ],
)
def test_old_names_are_the_new_objects(old: Callable[[], Any], now: Any) -> None:
    with pytest.warns(UserWarning, match="is deprecated: write tl"):
        found = old()

    assert found is now or now is None


def test_every_function_of_libdevice_was_in_math() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [n for n in libdevice.__all__ if not callable(getattr(tl.math, n))] == []


def test_every_new_name_exists() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for old in deprecated.NAMES:
            module, _, name = old.rpartition(".")
            deprecated.deprecated(module, name)


def test_names_that_never_were_are_refused() -> None:
    for module, name in ((tl, "nothing"), (tl.math, "nothing"), (tl.extra, "tanh"), (tl.math, "__all__")):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
