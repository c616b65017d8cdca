"""Random calls from several threads: native code must neither crash nor run a specialisation for other arguments."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import numpy as np
import pytest
from driver_kernels import entry

from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, Specialization, is_native
from tilewright.runtime.drivers.cpu.records import Parameter, Slot

pytestmark = [
    pytest.mark.skipif(not is_native(), reason="there is no native launcher here"),
    pytest.mark.usefixtures("small_heap"),
]

EMPTY = "define i64 @kernel(ptr %l, i64 %b, i64 %e, ptr %s) {\n ret i64 %e\n}"
ARRAY = np.zeros(64, np.float32)
COMMON = [1, 16, 7, 5, 32, ARRAY, ARRAY[1:], None, 1.5, True]
RARE = [
    *(2**40, 2**63, 2**70, -5, "s", (1, 2), b"x", object(), int, np.float32(3), len, np.array(3)),
    *(
        ARRAY.astype(np.float64),
        np.zeros(3, bool),
        np.zeros(0),
        np.array(3),
        ARRAY.reshape(8, 8).T,
        np.zeros(3, object),
    ),
]


def broken_grid(meta: dict[str, Any]) -> Any:
    raise KeyError("grid")


GRIDS = [(1,), (2,), [3], (2, 2), (0,), (-1,), (), None, 5, (np.int64(2),), ("x",), (2**31,), (2**31 - 1, 0)]
GRIDS += [lambda meta: (1,), lambda meta: (len(meta),), lambda meta: None, broken_grid]


OWN = threading.local()
"""The random numbers of each thread."""


class Kernel:
    """Its specialisations return the kinds of the arguments that they were installed for."""

    def __init__(self) -> None:
        defaults = {"d": 5, "E": None, "F": 1.5}
        self.names = ["a", "b", "c", "d", "E", "F"]
        parameters = [Parameter(n, is_constant=n in "EF") for n in self.names[:3]]
        parameters += [Parameter(n, defaults[n], is_constant=n in "EF") for n in self.names[3:]]
        self.native = NativeKernel(parameters, self.slow)

    def slow(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any], miss: Miss | None) -> object:
        kinds = kinds_of(args, kwargs)
        slots = (Slot(0, "i64"), Slot(2, "i64"))
        rng: random.Random = OWN.rng
        self.native.install(miss, Specialization(entry(EMPTY), kinds, slots, rng.choice([0, 64, 100_000])))
        if rng.random() < 0.02:
            raise ValueError("slow")
        if rng.random() < 0.005:
            self.native.clear()
        return kinds


def kinds_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(kind_of, args)), tuple((name, kind_of(value)) for name, value in kwargs.items())


def kind_of(value: Any) -> type:
    return float if isinstance(value, np.float32) else type(value)  # the former is launched as the latter


def value(rng: random.Random) -> Any:
    return rng.choice(COMMON if rng.random() < 0.97 else RARE)


@pytest.mark.parametrize("turns", [500, pytest.param(6000, marks=pytest.mark.slow)])
def test_random_calls(turns: int) -> None:
    kernels = [Kernel() for _ in range(3)]
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = OWN.rng = random.Random(seed)
        for turn in range(turns):
            if turn % 1000 == 999:
                kernels[rng.randrange(3)] = Kernel()
                gc.collect()
            args = tuple(value(rng) for _ in range(rng.choice([2, 3, 3, 3, 3, 4, 6, 7])))
            names = ("a", "c", "d", "E", "F", "num_warps", "option")
            kwargs = {name: value(rng) for name in names if rng.random() < 0.06}
            try:
                result = rng.choice(kernels).native[rng.choice(GRIDS)](*args, **kwargs)
            except (ValueError, KeyError):
                continue
            if result != kinds_of(args, kwargs):
                wrong.append((result, args, kwargs))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert wrong == []
