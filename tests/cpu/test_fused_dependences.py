"""Accesses that `fuse_loops` puts into one loop nest need not be kept in order, says the analysis of dependences.

Accesses of one nest run lane by lane; `add_alias_checks` compares their addresses when the kernel runs. So each pair of
them with a store has to be independent or the same element, or be so under a condition. `Ordered` is right only where
the two do meet at other lanes, whatever the arguments are: then the nest always goes through buffers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from pass_kernels import CALLS

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG, first_of
from lowered_code import code_on
from tilewright.analysis.memory_accesses import MemoryAccess, MemoryAccesses
from tilewright.analysis.memory_dependences import Dependence, Ordered, dependence
from tilewright.backends.cpu import pipeline
from tilewright.dialects.cpu import Nest
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.transforms.functions import functions_of

assert tw.__all__

TESTS = Path(__file__).resolve().parents[1]
for folder in (TESTS.parent / "examples", TESTS.parent / "bench", TESTS / "examples", TESTS / "fuzz"):
    sys.path.append(str(folder))

from hard_kernels import CASES  # noqa: E402 - it lies in one of these folders
from shared_memory_kernels import program  # noqa: E402 - it lies in one of these folders
from shared_memory_run import Arguments, module_of  # noqa: E402 - it lies in one of these folders
from small_cases import CASES as EXAMPLES  # noqa: E402 - it lies in one of these folders

from kernels import exp_kernel, sum_kernel  # noqa: E402 - it lies in one of these folders


class Fused(Exception):
    """Ends a compilation when loops are fused."""


class Pair(NamedTuple):
    """Two accesses of one nest, one of them a store, and what is said of them."""

    ops: tuple[Op, Op]
    first: MemoryAccess
    second: MemoryAccess
    distance: int | None
    answer: Dependence

    @property
    def text(self) -> str:
        return "\n".join([*(print_op(op).strip() for op in self.ops), str(self.answer)])

    @property
    def is_doubtful(self) -> bool:
        """Whether they are said to be ordered, and no lanes of different index are seen to meet."""
        if not isinstance(self.answer, Ordered):
            return False
        a, b, distance = self.first.lanes, self.second.lanes, self.distance
        if distance is None or a.offsets is None or b.offsets is None:
            return True
        apart = b.offsets[b.active] + distance - a.offsets[a.active][:, None]
        meets = (apart < a.size) & (apart > -b.size)
        return not (meets & ((a.active[:, None] != b.active) | (apart != 0))).any()


def pairs_in_nests(module: Op) -> Iterator[Pair]:
    """The pairs of accesses that share a nest, one of them a store."""
    for function in functions_of(module):
        accesses = MemoryAccesses()
        for nest in [op for op in function.walk() if isinstance(op, Nest)]:
            for ops in combinations([op for op in nest.body if isinstance(op, (Load, Store))], 2):
                if any(isinstance(op, Store) for op in ops):
                    a, b = map(accesses.of, ops)
                    yield Pair(ops, a, b, accesses.between(a, b).number, dependence(a, b, accesses))


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Pair]:
    """The pairs in what the test compiles, with an empty cache."""
    found, fuse = list[Pair](), pipeline.fuse_loops

    def fuse_and_note(module: Op, **options: Any) -> None:
        fuse(module, **options)
        found.extend(pairs_in_nests(module))

    monkeypatch.setattr(pipeline, "fuse_loops", fuse_and_note)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return found


@pytest.fixture
def fused(noted: list[Pair], monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """The pairs in what the test compiles; compiling ends there, by a `Fused`."""
    fuse = pipeline.fuse_loops

    def fuse_and_end(module: Op, **options: Any) -> None:
        fuse(module, **options)
        raise Fused

    monkeypatch.setattr(pipeline, "fuse_loops", fuse_and_end)
    return noted


def compile_drawn(seed: int, folder: Path) -> None:
    """Fuse the loops of a drawn kernel whose arrays share memory."""
    drawn = program(Random(seed))
    launch = drawn.launches[0]
    with suppress(Fused):
        module_of(drawn.text, folder).kernel.warmup(**Arguments(drawn, launch).named(), grid=launch.grid)


def ordered(pairs: list[Pair]) -> list[str]:
    return [pair.text for pair in pairs if isinstance(pair.answer, Ordered)]


def test_kernels_of_the_tests(fused: list[Pair]) -> None:
    x = np.zeros(4096, np.float32)
    for kernel, arguments, constants in (*CALLS.values(), (exp_kernel, (x, x, 9), {"BLOCK": 1024})):
        with suppress(Fused):  # a new function each: other tests may have compiled these
            tw.jit(kernel.fn).warmup(*arguments, grid=(1,), **constants)
    with suppress(Fused):
        tw.jit(sum_kernel.fn).warmup(x, x, 9, BLOCK=1024, grid=(1,))
    assert len(fused) >= 4
    assert ordered(fused) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, noted: list[Pair]) -> None:
    EXAMPLES[name]()
    assert ordered(noted) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", first_of(4, 1))
def test_hard_kernels(part: int, fused: list[Pair]) -> None:
    for case in CASES[part::4]:
        with suppress(Fused):
            case.compile()
    assert fused
    assert ordered(fused) == []


@code_on("znver5")
def test_drawn_kernels(fused: list[Pair], tmp_path: Path) -> None:
    for seed in range(8):
        compile_drawn(seed, tmp_path)
    assert fused


@pytest.mark.slow
@pytest.mark.parametrize("count", [120, pytest.param(600, marks=LONG)])
def test_many_drawn_kernels(count: int, fused: list[Pair], tmp_path: Path) -> None:
    """Accesses of arrays under several names, in any forms: those said to be ordered meet, but for symbolic strides."""
    for seed in range(count):
        compile_drawn(seed, tmp_path)
    doubtful = [pair.text for pair in fused if pair.is_doubtful]
    assert len(fused) > count
    assert len(doubtful) <= 0.02 * len(fused), doubtful


@tw.jit
def unpack(x, y, SHIFT: tl.constexpr):
    i = tl.arange(0, 64)
    value = tl.load(x + i // 2)
    tl.store((x if SHIFT else y) + SHIFT + i, value * 2)


@pytest.mark.parametrize(
    ("shift", "nests", "guarded"),
    [
        pytest.param(0, 1, 1, id="perhaps another array: compared when the kernel runs"),
        pytest.param(32, 1, 0, id="behind what is loaded"),
        pytest.param(1, 2, 0, id="what other lanes load"),
    ],
)
def test_loads_at_known_indices(shift: int, nests: int, guarded: int) -> None:
    x = np.zeros(128, np.float32)
    text = tw.jit(unpack.fn).warmup(x, x, SHIFT=shift, grid=(1,)).asm["ttcir"]
    assert (text.count('"cpu.nest"'), text.count('"cpu.store"')) == (nests, guarded)
