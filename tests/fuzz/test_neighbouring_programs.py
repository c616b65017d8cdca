"""Programs whose tiles may go on along the same rows leave in memory what the eager interpreter leaves.

Columns, masks, values and branches are drawn such that a good part of the kernels run several programs as one.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from ways_to_run import module_of

import tilewright as tw
from long_runs import first_of
from machine_levels import compiled_for, cpu_of

KERNELS = 2000
BLOCKS = 80
FAST = 16
LAUNCHES = 4

HEAD = """\
import tilewright as tw
import tilewright.language as tl


@tw.jit
def kernel(x, y, out, N, K, H, T, s, d, B: tl.constexpr, M: tl.constexpr):
    r, q = tl.arange(0, B)[None, :], tl.arange(0, M)[:, None]
"""
PLACES = (
    "tc, tr = tl.program_id(0), 0",
    "tc, tr = tl.program_id(0) % T, tl.program_id(0) // T",
    "tc, tr = tl.program_id(0) % tl.cdiv(N, B), tl.program_id(0) // tl.cdiv(N, B)",
    "tc, tr = tl.program_id(1), tl.program_id(0)",
)
COLUMNS = (
    *["tc * B + r"] * 6,
    *("tc * B + (r & (B - 1))", "tc * B + tl.minimum(r, B - 1)", "tc * B + r.to(tl.int16)", "tc.to(tl.int64) * B + r"),
    *("tc * B + (r ^ 1)", "tc * B + (B - 1 - r)"),
)
MASKS = (
    *("n < K", "n <= K", "K > n", "n >= 0", "m < H", "(m < H) & (n < K)", "(n < K) & (n < N)", "n.to(tl.int64) < K"),
    *("n < K + m", "r < K", "H > 3", "tc < H", "tr < H"),
)
READ = (
    *["m * s + n"] * 6,
    "m * s + n * 2",
    "n + 0 * m",
    "q * s + n",
    "m * s + r",
    "m * s + tl.minimum(n, 40)",
    "n * 3 + m",
)
SHARED = "for tile in range(tl.program_id(0), {}, tl.num_programs(0)):"
"""A loop over tiles that programs share by turns."""
BRANCHES = ("", "", "", "", "", "if tc < H:", "if tr < H:", "if H > 3:", "if tl.program_id(0) // 4 < H:")


def some_value(rng: Random, known: list[str]) -> str:
    a, b, mask = rng.choice(known), rng.choice(known), rng.choice(MASKS)
    return rng.choice(
        (
            *(f"{a} + {b}", f"{a} - {b}", f"tl.where({mask}, {a}, {b})", f"({mask}).to(tl.int32) + {a}", f"{a} + tc"),
            *(
                f"tl.maximum({a}, {b})",
                f"{a} + (n & 3)",
                f"({a}).to(tl.int8).to(tl.int32)",
                f"tl.where(n == m, {a}, 1)",
            ),
            *(f"({a} * 3 - ({a} + {a} + {a})) + {b}", f"{a} + (r.to(tl.int8) << 2)"),
        )
    )


def some_kernel(rng: Random) -> str:
    lines, known = [rng.choice(PLACES), f"n, m = {rng.choice(COLUMNS)}, tr * M + q"], ["n + 0 * m", "m * 3 - n"]
    for number in range(rng.choice((0, 1, 1, 2))):
        other = rng.choice(("", ", other=3"))
        mask = f", mask={rng.choice(MASKS)}{other}" if rng.random() < 0.4 else ""
        lines.append(f"v{number} = tl.load({rng.choice('xy')} + {rng.choice(READ)} + 0 * (n + m){mask})")
        known += [f"v{number}"] * 2
    for number in range(rng.choice((0, 1, 2))):
        lines.append(f"e{number} = {some_value(rng, known)}")
        known += [f"e{number}"] * 2
    branch = rng.choice(BRANCHES)
    lines += [branch] if branch else []
    mask = f", mask={rng.choice(MASKS)}" if rng.random() < 0.5 else ""
    lines.append(f"{'    ' if branch else ''}tl.store(out + m * d + n, {rng.choice(known)} + 0 * (n + m){mask})")
    return HEAD + "".join(f"    {line}\n" for line in lines)


def shared_by_turns(rng: Random, text: str) -> str:
    """The kernel as a loop over tiles which any number of programs share."""
    head, body = text[: len(HEAD)], text[len(HEAD) :].replace("tl.program_id(0)", "tile")
    loop = SHARED.format(rng.choice(("S", "S", "S - 1", "S + T - T")))
    inside = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{head.replace('s, d', 's, d, S')}    {loop}\n{inside}"


def some_launch(rng: Random, text: str, tile: tuple[int, int]) -> tuple[tuple[int, ...], dict[str, int]]:
    rows, programs, high = tile[0], rng.choice((1, 2, 3, 5, 8, 13)), rng.choice((1, 2, 3))
    n = programs * tile[1] - rng.choice((0, 0, 1, tile[1] // 2))
    wide = programs * tile[1]
    numbers = {
        "N": n,
        "K": rng.choice((n, n, wide, n // 2, 0, -3, 2**31 - 1)),
        "H": rng.choice((100, rows * high, rows * high - 1, 3, 0)),
        "T": rng.choice((programs, programs, 1, 3)),
        "s": rng.choice((wide, wide + 3, 0, 1)),
        "d": rng.choice((3 * wide, 3 * wide + 5)),
    }
    total = numbers["T"] * high if "% T" in text else programs * high if "cdiv" in text else programs
    return (high, programs) if "program_id(1)" in text else (min(total, 3 * programs),), numbers


def check(seed: int, folder: Path) -> None:
    rng = Random(seed)
    text, tile = some_kernel(rng), rng.choice(((4, 16), (8, 8), (2, 4), (4, 2)))
    is_shared = "program_id(1)" not in text and rng.random() < 0.5
    text = shared_by_turns(rng, text) if is_shared else text
    dtype = rng.choice((np.float32, np.float32, np.int32, np.int32, np.int8, np.float64, np.int64))
    kernel: Any = module_of(text, folder).kernel
    cpu = cpu_of(seed)
    for _ in range(LAUNCHES):
        grid, numbers = some_launch(rng, text, tile)
        if is_shared:
            grid, numbers["S"] = (rng.randint(1, 2 * grid[0]),), grid[0]
        arrays = np.random.default_rng(seed).integers(-50, 50, (3, 20_000)).astype(dtype)
        found = arrays.copy()
        tw.jit(interpret=True)(kernel.fn)[grid](*arrays, **numbers, B=tile[1], M=tile[0])
        threads = rng.choice((1, 2))
        with compiled_for(cpu):
            kernel[grid](*found, **numbers, B=tile[1], M=tile[0], num_threads=threads, enable_fp_fusion=False)
        where = f"seed {seed}, {cpu}, {tile}, {grid}, {numbers}, {threads} threads"
        assert np.array_equal(found, arrays), f"{where}:\n{text}"


@pytest.mark.parametrize(
    "seeds",
    [range(0, FAST, 3), *(pytest.param(range(first, FAST, 3), marks=pytest.mark.spared) for first in (1, 2))],
    ids=str,
)
def test_some_neighbouring_programs(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", first_of(BLOCKS, 1))
def test_many_neighbouring_programs(block: int, tmp_path: Path) -> None:
    each = KERNELS // BLOCKS
    for seed in range(FAST + block * each, FAST + (block + 1) * each):
        check(seed, tmp_path)
