"""Functions of float on all 2^32 numbers, against the library's functions of double."""

import math

import every_float as scan
import numpy as np
import pytest
from avx512_emulation import can_run
from every_float import LEVELS, largest_errors, tiles

from long_runs import LONG
from tilewright.backends.llvm.machine import host_target

# name: the largest error in ulp
BOUNDS = {"cos": 0.65, "erf": 0.95, "exp": 1, "log": 0.85, "sin": 0.65, "tanh": 0.95}
BY_TABLES = {"cos": 0.94, "exp2": 0.9, "erf": 0.995, "sin": 0.94, "tanh": 0.79}
"""The same for sixteen lanes with AVX-512, which look numbers up."""
# stated, and above 1
OTHERS = {
    "acosh": 2,
    "asinh": 2,
    "atanh": 1.9,
    "exp2": 1.15,
    "expm1": 1.2,
    "log10": 1.75,
    "log2": 1.15,
    "rsqrt": 1.5,
    "sigmoid": 2.6,
    "sinh": 2,
    "sqrt": 0.5000001,
    "tan": 0.5000001,
}
WAYS = [(level, lanes) for level in LEVELS for lanes in LEVELS[level]]
HOST = host_target()
FAR = {"cos": 16, "sin": 16, "tan": 16}
"""Large arguments take scalar code of some 40 ns each: one tile of so many. `every_float.py` takes all of them."""


def check(name: str, ways: list[tuple[str, int]], bound: float, starts: np.ndarray) -> None:
    """Each way is right; the numbers that they are compared with are computed once for all."""
    here = [way for way in ways if can_run(host_target(way[0]))]
    found = largest_errors(name, [(host_target(level), lanes) for level, lanes in here], starts)
    for way, (error, where) in zip(here, found, strict=True):
        assert error <= (BY_TABLES.get(name, bound) if way[1] == 16 else bound), (name, way, error, where)
    for level, _ in ways:
        if not can_run(host_target(level)):
            pytest.skip(f"this machine can neither run nor emulate {level}")


@pytest.mark.parametrize("name", OTHERS)
def test_some_of_all_floats(name: str) -> None:
    """One tile of 512, of every exponent."""
    check(name, WAYS, OTHERS[name], tiles(name, every=511, far=FAR.get(name, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("every", [15, pytest.param(1, marks=LONG)])
@pytest.mark.parametrize("name", BOUNDS)
def test_all_floats(name: str, every: int) -> None:
    """The way that this machine takes; `make test` takes one tile of 15, `make test-long` all."""
    level = next(level for level in reversed(LEVELS) if host_target(level).runs_here())
    check(name, [(level, HOST.lanes(32))], BOUNDS[name], tiles(name, every=every, far=FAR.get(name, 1)))


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("every", [127, pytest.param(15, marks=LONG)])
def test_many_of_all_floats(name: str, every: int) -> None:
    """One tile of so many: the ways that other machines take, and few lanes."""
    check(name, WAYS, BOUNDS[name], tiles(name, every=every, far=FAR.get(name, 1)))


def test_the_measure_sees_one_ulp() -> None:
    """The last bit is about 1; the wrong sign of zero, and a number in place of NaN, are infinitely far."""
    x = np.zeros(scan.TILE, np.float32)
    x[:6] = [0.3, 2.0, -0.0, np.nan, np.inf, -200.0]
    errors, wanted = np.empty_like(x), np.empty_like(x, np.float64)
    scan.exact_values("tanh")(wanted.ctypes.data, x.ctypes.data)
    exact = np.tanh(x.astype(np.float64)).astype(np.float32)
    for changed, place, low, high in (
        (np.nextafter(exact[0], np.float32(1)), 0, 0.5, 1.5),
        (np.float32(0.0), 2, math.inf, math.inf),
        (np.float32(0.5), 3, math.inf, math.inf),
        (np.float32(np.nan), 4, math.inf, math.inf),
    ):
        got = exact.copy()
        got[place] = changed
        scan.errors_of_tile()(errors.ctypes.data, wanted.ctypes.data, got.ctypes.data)
        assert low <= errors[place] <= high
        assert (np.delete(errors, place) <= 0.5000001).all()
