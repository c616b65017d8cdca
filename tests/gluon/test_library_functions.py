"""libdevice in Gluon: calls of NVIDIA's library in TTGIR, then ops, with the results of the tile language."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.extra import libdevice

sys.path.insert(0, str(Path(__file__).parent))
import gluon_programs as programs

PRIVATE = re.compile(r'symbol = "(__nv_\w+)"')


@gluon.jit
def apply_in_gluon(x, y, out, F: gl.constexpr, COUNT: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    places = gl.arange(0, N, layout=layout)
    a = gl.load(x + places)
    if COUNT == 1:
        found = F(a)
    else:
        found = F(a, gl.load(y + places))
    gl.store(out + places, found)


@tw.jit
def apply(x, y, out, F: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, N)
    a = tl.load(x + places)
    if COUNT == 1:
        found = F(a)
    else:
        found = F(a, tl.load(y + places))
    tl.store(out + places, found)


@gluon.jit
def larger(a, b):
    return libdevice.copysign(gl.maximum(libdevice.abs(a), libdevice.abs(b)), a)


@gluon.jit
def reduced(x, out):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    gl.store(out, gl.reduce(gl.load(x + gl.arange(0, 256, layout=layout)), 0, larger))


FLOATS = np.array([0.0, -0.0, 1.5, -2.5, 1e-40, -3e38, np.inf, -np.inf, np.nan, 7.0, -1.0, 0.3, 2.0, -0.7, 20.0, 1e10])
CASES: dict[str, tuple[type, type, str]] = {
    "erfcinv": (np.float32, np.float32, "__nv_erfcinvf"),
    "sinpi": (np.float64, np.float64, "__nv_sinpi"),
    "log1p": (np.float32, np.float32, "__nv_log1pf"),
    "nextafter": (np.float32, np.float32, "__nv_nextafterf"),
    "add_rd": (np.float32, np.float32, "__nv_fadd_rd"),
    "float2ll_ru": (np.float32, np.int64, "__nv_float2ll_ru"),
    "ilogb": (np.float64, np.int32, "__nv_ilogb"),
    "isnan": (np.float32, np.int8, "__nv_isnanf"),
    "isfinited": (np.float64, np.int8, "__nv_isfinited"),
    "clz": (np.int64, np.int32, "__nv_clzll"),
    "mulhi": (np.uint32, np.uint32, "__nv_umulhi"),
    "hadd": (np.int32, np.int32, "__nv_hadd"),
}
"""Types of arguments and of results, and the symbol."""


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_in_gluon_what_it_gives_in_the_tile_language(name: str) -> None:
    kind, result, symbol = CASES[name]
    x = (FLOATS if np.dtype(kind).kind == "f" else np.array([0, 1, 2**31 - 5, 77] * 4)).repeat(8).astype(kind)
    y = np.roll(x, 5)
    constants: dict[str, Any] = {"F": getattr(libdevice, name), "N": x.size}
    constants["COUNT"] = constants["F"].forms[0].count(",") + 1
    found, expected = np.zeros(x.size, result), np.zeros(x.size, result)
    with tw.simulate("cuda:80"):
        kernel = apply_in_gluon[(1,)](x, y, found, **constants)
        apply[(1,)](x, y, expected, **constants)
    np.testing.assert_array_equal(found, expected)
    assert PRIVATE.findall(kernel.asm["ttgir"]) == [symbol]
    assert "__nv_" not in kernel.asm["llir"]


def test_functions_of_broadcast_tiles_and_scalars() -> None:
    x = np.linspace(-3, 3, 512, dtype=np.float32).reshape(16, 32)
    x[3, 3], x[4, 4] = np.nan, -np.inf
    y, out, whole = np.linspace(0, 2, 32, dtype=np.float32), np.zeros_like(x), np.zeros(x.shape, np.int32)
    with tw.simulate("cuda:80"):
        programs.library_functions[(1,)](x, y, out, whole, -0.5, M=16, N=32)
    expected = np.copysign((np.abs(x) * y + np.float32(np.log(1.5))) ** 2, x)
    expected[3, 3], expected[4, 4] = np.nan, -0.0
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert np.signbit(out[4, 4])
    finite = np.isfinite(x)
    sums = np.floor(np.abs(x[finite]) * np.broadcast_to(y, x.shape)[finite] + np.log(1.5)).astype(int)
    bits = np.array([32 - int(value).bit_length() for value in sums])
    np.testing.assert_array_equal(whole[finite], bits + np.signbit(x[finite]))


def test_a_function_inside_of_a_reduction() -> None:
    x = np.linspace(-5, 4, 256, dtype=np.float32)
    out = np.zeros(1, np.float32)
    with tw.simulate("cuda:90"):
        kernel = reduced[(1,)](x, out)
    assert out[0] == -5
    assert set(PRIVATE.findall(kernel.asm["ttgir"])) == {"__nv_fabsf", "__nv_copysignf"}


def test_the_tile_language_has_ops_of_its_own() -> None:
    x = FLOATS.astype(np.float32)
    out = np.zeros(16, np.int8)
    kernel = apply[(1,)](x, x, out, F=libdevice.isnan, COUNT=1, N=16)
    assert "extern_elementwise" not in kernel.asm["ttir"]
    np.testing.assert_array_equal(out, np.isnan(x))
