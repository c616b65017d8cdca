"""Kernels that read and write the same memory do it in the order of the program: each load sees the stores before it.

Machine code leaves in memory, to the last bit, what the eager interpreter leaves. One kernel of ten is made as users
get it, the others without the optimisations of LLVM's code generator, which would take half of the time; one of ten
runs with the sanitizer, which must find nothing and change nothing. Four of ten are code for processors that have less
than this one. One of five has tiles whose rows have different lengths, and numbers of rows beside them. A kernel that
goes wrong is cut down and printed as a script.

`make test` runs a two-hundredth of 20,000 kernels, `make test-long` the others. `pytest tests/fuzz -m "slow or long"
-k many_shared -n 2 --kernels 100000` runs other kernels and more of them.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from dead_names import without_dead
from shared_memory_kernels import HEAD, Launch, SharedProgram
from shared_memory_run import (
    Arguments,
    Way,
    cut_down,
    defined_program,
    disagreement,
    runnable,
    simpler_launches,
    way_of,
)
from shrink import smaller_while
from watched_run import Undefined
from ways_to_run import module_of

from long_runs import first_of
from machine_levels import compiled_for, run_here

KERNELS = 20_000
BLOCKS = 200
FAST = 150


def check(seed: int, folder: Path) -> None:
    """The kernel of a seed; if it goes wrong, it is cut down."""
    drawn, problem = defined_program(seed, folder)
    if problem is not None:
        way = way_of(seed)
        small = cut_down(drawn, problem, folder, way)
        again = disagreement(small, folder, way) or problem
        pytest.fail(f"seed {seed}: {again.where}: {again.what}\n\n{runnable(small, way.cpu)}", pytrace=False)


@pytest.mark.spared
@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.slow) for block in range(2, 10))])
def test_some_shared_memory(block: int, tmp_path: Path) -> None:
    for seed in range(block * FAST // 10, (block + 1) * FAST // 10):
        check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", first_of(BLOCKS, 1))
def test_many_shared_memory(
    block: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither verified after each pass nor kept as text: that would take a fourth of the time."""
    monkeypatch.setenv("TILEWRIGHT_VERIFY_PASSES", "0")
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    wanted = request.config.getoption("--kernels")
    each = (wanted or KERNELS) // BLOCKS
    first = FAST + block * each + (KERNELS if wanted else 0)
    for seed in range(first, first + each):
        check(seed, tmp_path)


def undefined(body: str, folder: Path, grid: tuple[int, ...] = (1,)) -> str:
    """The reason why a kernel has no one result."""
    text = f"{HEAD}@tw.jit\ndef kernel(p0, x, y, g, n, m, d, s):\n    i = tl.arange(0, 16)\n    {body}\n"
    launch = Launch(offsets=(0,), n=3, m=2, d=2, s=1, grid=grid, threads=1, seed=0)
    with pytest.raises(Undefined) as caught:
        disagreement(SharedProgram(text, "int32", ("int32",), 16, (launch,)), folder, Way())
    return str(caught.value)


def test_what_is_not_defined_is_no_kernel(tmp_path: Path) -> None:
    assert undefined("tl.store(p0 + i // 2, i)", tmp_path) == "a store puts two values at one address"
    assert undefined("tl.store(p0 + i, i)", tmp_path, grid=(2,)) == "two programs touch the same memory"
    assert undefined("tl.store(p0 + i, tl.load(p0 + tl.program_id(0)))", tmp_path, grid=(2,)).startswith("two")
    assert undefined("v = tl.atomic_add(p0 + i // 2, i)", tmp_path) == "lanes of an atomic meet"
    assert undefined("tl.atomic_xchg(p0 + i // 2, i)", tmp_path) == "lanes of an atomic meet"
    assert "outside of the argument `p0`" in undefined("tl.store(p0 + i - 8, i)", tmp_path)


def test_a_kernel_that_goes_wrong_is_cut_down_to_what_matters(tmp_path: Path) -> None:
    body = """
    i = tl.arange(0, 16)
    v = tl.load(p0 + i)
    w = tl.load(x + i) + 1
    if n > 2:
        tl.store(y + i, w)
    tl.store(p0 + i, tl.flip(v))
"""
    launches = tuple(Launch((0,), n=3, m=2, d=2, s=1, grid=(1,), threads=1, seed=seed) for seed in (0, 1))
    text = f"{HEAD}@tw.jit\ndef kernel(p0, x, y, g, n, m, d, s):{body}"
    drawn = SharedProgram(text, "int32", ("int32",), 16, launches)

    def flips(program: SharedProgram) -> bool:
        return "tl.flip" in program.text

    small = smaller_while(drawn, flips, simpler_launches(drawn), attempts=400)
    assert small.text.endswith("@tw.jit\ndef kernel(p0, x, y, g, n, m, d, s):\n    tl.flip(v)")
    assert small.launches == launches[:1]
    ast.parse(runnable(small))


def test_kernels_are_compiled_for_several_processors(tmp_path: Path) -> None:
    """Each with the sanitizer and without, as users get them and not; the script says which one it was."""
    ways = {way_of(seed) for seed in range(1000)}
    cpus = {"", *run_here("x86-64-v2", "x86-64-v3")}
    assert {(way.cpu, way.level, bool(way.checks)) for way in ways} == {
        (cpu, *way) for cpu in cpus for way in ((0, False), (0, True), (1, False))
    }
    text = f"{HEAD}@tw.jit\ndef kernel(p0, x, y, g, n, m, d, s):\n    tl.store(p0, n)\n"
    launch = Launch(offsets=(0,), n=3, m=2, d=2, s=1, grid=(1,), threads=1, seed=0)
    drawn = SharedProgram(text, "int32", ("int32",), 16, (launch,))
    kernel = module_of(text, tmp_path).kernel
    for cpu in cpus:
        with compiled_for(cpu):
            assert cpu in kernel[(1,)](**Arguments(drawn, launch).named()).metadata.target.arch
        assert (f'knobs.tilewright.cpu = "{cpu}"' in runnable(drawn, cpu)) == bool(cpu)


def test_what_nothing_uses_is_dropped() -> None:
    lines = ["    p += 1", "    v1 = tl.load(p)", "    if n > 2:", "        v2 = v1", "    v3 = tl.atomic_add(q, 1)"]
    assert without_dead(lines) == ["    if n > 2:", "        pass", "    v3 = tl.atomic_add(q, 1)"]
