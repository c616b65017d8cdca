"""Reductions and scans on the simulator: every kind of layout, axis, type and number of warps, against NumPy."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from tests.layouts import random_layouts
from tests.nvidia.tile_programs import loaded, program, stored, tensor
from tests.nvidia.tile_programs import run as run_text

from tilewright.layouts.distributed import Linear
from tilewright.layouts.queries import num_warps

Array = np.ndarray[Any, Any]
TYPES = {"i1": "?", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}


def sums(kind: str, shape: tuple[int, ...], axis: int, layout: str, element: str, *, reverse: bool, warps: int) -> str:
    """A kernel that stores the sums (`reduce`) or running sums (`scan`) of a tile in a layout."""
    left = (*shape[:axis], *shape[axis + 1 :])
    sliced = f"#ttg.slice<{{dim = {axis}, parent = {layout}}}>"
    out, where = (left, sliced) if kind == "reduce" else (shape, layout)
    add = "arith.addf" if element.startswith("f") else "arith.addi"
    order = f", reverse = {str(reverse).lower()}" if kind == "scan" else ""
    tile, result = tensor(shape, element, layout), tensor(out, element, where)
    lines = [
        *loaded("%x", "%p0", layout, shape, element),
        f'%r = "tt.{kind}"(%x) <{{axis = {axis} : i32{order}}}> ({{',
        f"^bb0(%a: {element}, %b: {element}):",
        f"%s = {add} %a, %b : {element}",
        f"tt.{kind}.return %s : {element}",
        f"}}) : ({tile}) -> {result}",
        *stored("%r", "%p1", where, out, element),
    ]
    return program(lines, elements=(element, element), warps=warps)


def expected(kind: str, x: Array, axis: int, *, reverse: bool) -> Array:
    """Sums of truth values are those of one bit."""
    add: np.ufunc = np.logical_xor if x.dtype == bool else np.add
    if kind == "reduce":
        return np.asarray(add.reduce(x, axis, dtype=x.dtype))
    found = add.accumulate(np.flip(x, axis) if reverse else x, axis, dtype=x.dtype)
    return np.flip(found, axis) if reverse else found


LAYOUTS = {"blocked": random_layouts.blocked, "linear": random_layouts.linear, "mma": random_layouts.nvidia_mma}


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
@pytest.mark.parametrize("kind", ["reduce", "scan"])
def test_sums_in_random_layouts(kind: str, seed: int) -> None:
    random, draw = Random(seed), np.random.default_rng(seed)
    element = sorted(TYPES)[seed % len(TYPES)]
    while True:
        rank = random.choice([2, 2, 3])
        name = random.choice(sorted(LAYOUTS)) if rank == 2 else "blocked"
        shape = random_layouts.shape(random, rank, 8 if name == "mma" else 1, 64 if rank == 2 else 16)
        layout = LAYOUTS[name](random, rank, shape)
        if not getattr(layout, "cga", ()) and not getattr(layout, "block", ()):
            break
    axis, reverse = random.randrange(rank), random.random() < 0.5
    warps = num_warps(layout)
    x = draw.integers(-3, 4, shape).astype(TYPES[element])
    wanted = expected(kind, x, axis, reverse=reverse)
    text = sums(kind, shape, axis, layout.text, element, reverse=reverse, warps=warps)
    _, found = run_text(text, [x, np.zeros_like(wanted)], capability=80, warps=warps)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.quick
@pytest.mark.parametrize("kinds", ["lllllrrww", "llrlrlwlw", "wlllllrrw", "rlwlllwlr", "wrwrlllll"])
def test_scans_over_bits_of_lanes_registers_and_warps_in_any_order(kinds: str) -> None:
    """The letters say what each bit of the position is; in both directions."""
    steps = {kind: [(1 << bit,) for bit, other in enumerate(kinds) if other == kind] for kind in "rlw"}
    layout = Linear(*map(tuple, steps.values()), ())
    x = np.random.default_rng(3).integers(-99, 99, 512).astype("i4")
    for reverse in (False, True):
        text = sums("scan", (512,), 0, layout.text, "i32", reverse=reverse, warps=4)
        _, found = run_text(text, [x, np.zeros_like(x)], capability=80, warps=4)
        np.testing.assert_array_equal(found, expected("scan", x, 0, reverse=reverse))
