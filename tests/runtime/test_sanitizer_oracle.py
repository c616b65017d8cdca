"""The sanitizer's reports about kernels with random accesses, against what follows from the draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
import tilewright.language as tl

LANES = 4
SIZE = 24


@tw.jit
def scatter_kernel(
    x_ptr, reads_ptr, writes_ptr, adds_ptr, out_ptr, ROUNDS: tl.constexpr, LANES: tl.constexpr, SEM: tl.constexpr
):
    """Each program reads, writes and adds at elements that the index arrays say; negative indices are masked off."""
    lane = tl.arange(0, LANES)
    for i in range(ROUNDS):
        place = (tl.program_id(0) * ROUNDS + i) * LANES + lane
        reads, writes, adds = tl.load(reads_ptr + place), tl.load(writes_ptr + place), tl.load(adds_ptr + place)
        tl.store(out_ptr + place, tl.load(x_ptr + reads, mask=reads >= 0))
        tl.store(x_ptr + writes, lane, mask=writes >= 0)
        tl.atomic_add(x_ptr + adds, 1, mask=adds >= 0, sem=SEM)


@st.composite
def draws(draw: Any, *, least: int, most: int) -> tuple[int, int, dict[str, np.ndarray]]:
    """Programs, rounds, and the indices of each kind of access."""
    programs, rounds = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    count = programs * rounds * LANES
    few = st.lists(st.integers(least, most), min_size=count, max_size=count)
    none = st.just([-1] * count)
    kinds = {kind: np.array(draw(st.one_of(few, none)), np.int32) for kind in ("read", "write", "add")}
    return programs, rounds, kinds


def reported(
    x: Any, programs: int, rounds: int, kinds: dict[str, np.ndarray], sanitize: str, sem: str = "relaxed"
) -> set[str]:
    """The kinds of accesses about which something was reported."""
    out = np.zeros(programs * rounds * LANES, np.int32)
    arrays = [kinds[kind] for kind in ("read", "write", "add")]
    try:
        scatter_kernel[(programs,)](
            x, *arrays, out, ROUNDS=rounds, LANES=LANES, SEM=sem, sanitize=sanitize, num_threads=1
        )
    except tw.SanitizerError as error:
        return {finding.access.kind for finding in error.findings}
    return set()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(drawn=draws(least=-1, most=5) | draws(least=-1, most=SIZE - 1))
def test_races_are_reported_when_there_are_some(drawn: Any) -> None:
    programs, rounds, kinds = drawn
    touched: dict[tuple[str, int], set[int]] = {}
    for kind, indices in kinds.items():
        for program, mine in enumerate(indices.reshape(programs, -1)):
            for index in mine[mine >= 0]:
                touched.setdefault((kind, int(index)), set()).add(program)
    races = any(
        kind != "read" and (kind, other) != ("add", "add") and len(theirs | touched.get((other, index), set())) > 1
        for (kind, index), theirs in touched.items()
        for other in ("read", "write", "add")
        if (other, index) in touched
    )
    assert bool(reported(np.zeros(SIZE, np.int32), programs, rounds, kinds, "races")) == races


def has_unordered_accesses(programs: int, rounds: int, kinds: dict[str, np.ndarray]) -> bool:
    """Are two conflicting accesses not ordered by atomics? By vector clocks; programs run one after the other."""
    clocks = np.zeros((programs, programs), np.int64)
    released: dict[int, np.ndarray] = {}
    seen: list[tuple[str, int, int, int]] = []
    for program in range(programs):
        for i in range(rounds):
            for kind in ("read", "write", "add"):
                indices = kinds[kind].reshape(programs, rounds, LANES)[program, i]
                clocks[program, program] += 1
                for index in indices[indices >= 0].tolist():
                    for other, element, who, when in seen:
                        conflict = {kind, other} not in ({"read"}, {"add"}) and element == index and who != program
                        if conflict and when > clocks[program, who]:
                            return True
                    seen.append((kind, index, program, int(clocks[program, program])))
                if kind == "add":
                    own = clocks[program].copy()
                    for index in indices[indices >= 0].tolist():
                        np.maximum(clocks[program], released.get(index, 0), out=clocks[program])
                    for index in indices[indices >= 0].tolist():
                        released[index] = np.maximum(released.get(index, 0), own)
    return False


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(drawn=draws(least=-1, most=5) | draws(least=-1, most=SIZE - 1))
def test_what_atomics_order_is_never_reported(drawn: Any) -> None:
    programs, rounds, kinds = drawn
    if reported(np.zeros(SIZE, np.int32), programs, rounds, kinds, "races", "acq_rel"):
        assert has_unordered_accesses(programs, rounds, kinds)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(drawn=draws(least=-1, most=SIZE + 1))
def test_bounds_are_exact(drawn: Any) -> None:
    programs, rounds, kinds = drawn
    names = {"read": "load", "write": "store", "add": "atomic"}
    outside = {names[kind] for kind, indices in kinds.items() if (indices >= SIZE).any()}
    x = np.zeros(SIZE + 2, np.int32)
    assert reported(x[:SIZE], programs, rounds, kinds, "bounds") == outside
    assert not x[SIZE:].any()


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(drawn=draws(least=-1, most=SIZE - 1))
def test_unwritten_elements_are_exact(drawn: Any) -> None:
    programs, rounds, kinds = drawn
    written, bad = set(), set()
    for step in range(programs * rounds):
        reads, writes, adds = (kinds[kind].reshape(-1, LANES)[step] for kind in ("read", "write", "add"))
        bad |= {"load"} if set(reads[reads >= 0].tolist()) - written else set()
        written |= set(writes[writes >= 0].tolist())
        bad |= {"atomic"} if set(adds[adds >= 0].tolist()) - written else set()
        written |= set(adds[adds >= 0].tolist())
    x = tw.uninitialized(np.zeros(SIZE, np.int32))
    assert reported(x, programs, rounds, kinds, "uninit") == bad


@tw.jit
def affine_kernel(x_ptr, out_ptr, start, step, modulus, rows, LIMIT: tl.constexpr, KIND: tl.constexpr):
    """Places that are computed from ranges, in ways whose ends can be told from scalars."""
    row, column = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    if KIND == 0:
        places = start + row * step + column
    elif KIND == 1:
        places = (start + column) % modulus + row * step
    elif KIND == 2:
        places = start - column * 2 + (3 - row) * step
    else:
        places = ((start + column.to(tl.int64)) * step).to(tl.int64) + row % modulus
    inside = (row < rows) & (column < LIMIT)
    tl.store(out_ptr + row * 8 + column, places, mask=inside)
    tl.load(x_ptr + places, mask=inside)
    tl.store(x_ptr + places, row, mask=inside)


NUMBERS = ("start", "step", "modulus", "rows")
TILES = given(
    size=st.integers(1, 40),
    start=st.integers(-10, 40),
    step=st.integers(-9, 9),
    modulus=st.integers(1, 12) | st.integers(-12, -1),
    rows=st.integers(0, 4),
    limit=st.sampled_from([3, 8]),
    kind=st.integers(0, 3),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "count"),
    [(tw.jit(do_not_specialize=NUMBERS)(affine_kernel.fn), 300), (affine_kernel, 40)],
    ids=["any numbers", "specialised"],
)
def test_ends_of_tiles_are_exact(kernel: tw.JITFunction, count: int) -> None:
    """Nearly every draw has a specialisation of its own, which has to be compiled: there are fewer of these."""

    @settings(max_examples=count, deadline=None)
    @TILES
    def draw(**drawn: int) -> None:
        check_ends(kernel, **drawn)

    draw()


def check_ends(
    kernel: tw.JITFunction, size: int, start: int, step: int, modulus: int, rows: int, limit: int, kind: int
) -> None:
    places, x = np.full((4, 8), -1, np.int64), np.zeros(60, np.int32)
    try:
        kernel[(1,)](x[10 : 10 + size], places, start, step, modulus, rows, LIMIT=limit, KIND=kind, sanitize="bounds")
        found = None
    except tw.SanitizerError as error:
        (found,) = error.findings  # the load has no use, so it is gone
    touched = places[:rows, :limit]
    bad = (touched < 0) | (touched >= size)
    assert (found is not None) == bad.any()
    if found is not None:
        assert found.lane == tuple(np.argwhere(bad)[0])
        assert found.element == (touched[found.lane],)
        assert not x.any()


@pytest.mark.parametrize("threads", [1, 2])
def test_grids_of_three_axes(threads: int) -> None:
    out = np.zeros((2, 3, 4), np.int32)
    with pytest.raises(tw.SanitizerError) as caught:
        place_kernel[(4, 3, 2)](out, 1, sanitize="bounds,races", num_threads=threads)
    (finding,) = caught.value.findings
    assert (finding.access.program, finding.element) == ((3, 2, 1), (2, 0, 0))


@tw.jit
def place_kernel(out_ptr, shift):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(out_ptr + (z * tl.num_programs(1) + y) * tl.num_programs(0) + x + shift, 1)
