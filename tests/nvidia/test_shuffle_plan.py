"""Plans of shuffles, played through lane by lane: every register gets the element that it should."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from tilewright.backends.nvidia.lower.shuffle_plan import Parity, ShufflePlan, shuffle_plan
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Linear, encoding
from tilewright.layouts.errors import LayoutError
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.movement import Movement, exchanges, movement

sys.path.insert(0, str(Path(__file__).parents[1] / "layouts"))

import random_layouts

Steps = tuple[tuple[int, ...], tuple[int, ...]]
"""Steps of the bits of the register, and of the lane."""


def odd(parity: Parity | None, lane: int, warp: int) -> bool:
    return parity is not None and bool(((parity.lane & lane).bit_count() + (parity.warp & warp).bit_count()) & 1)


def asked(plan: ShufflePlan, number: int, lane: int, warp: int) -> int:
    found = plan.rounds[number].lane
    for value, columns in ((lane, plan.asked["lane"]), (warp, plan.asked["warp"])):
        for bit, column in enumerate(columns):
            found ^= column if value >> bit & 1 else 0
    return found


def check(plan: ShufflePlan, before: LinearLayout, after: LinearLayout) -> None:
    """Each register of each lane of each warp has the element that `after` says."""
    after = after.transpose_outs(before.out_names)
    for warp in range(before.in_size("warp")):
        for lane in range(before.in_size("lane")):
            for register, (group, rounds) in enumerate(plan.taken):
                number = rounds[odd(plan.receiver, lane, warp)]
                sender = asked(plan, number, lane, warp)
                sent = plan.groups[group] ^ plan.rounds[number].registers[odd(plan.sender, sender, warp)]
                found = before.image({"register": sent, "lane": sender, "warp": warp})
                assert found == after.image({"register": register, "lane": lane, "warp": warp})


def random_pairs(seed: int, count: int) -> list[tuple[LinearLayout, LinearLayout]]:
    """Linear layouts of which one has the steps of the other, with at most two of them in other places."""
    random, found = Random(seed), []
    while len(found) < count:
        shape = random_layouts.shape(random, 2, 1, 32)
        before = random_layouts.linear(random, 2, shape)
        rows = [list(before.register), list(before.lane)]
        for part in rows:
            if random.random() < 0.5:
                random.shuffle(part)
        if rows[0]:
            here, there = random.randrange(len(rows[0])), random.randrange(5)
            rows[0][here], rows[1][there] = rows[1][there], rows[0][here]
        after = Linear(tuple(rows[0]), tuple(rows[1]), before.warp, before.block)
        pair = to_linear_layout(before, shape), to_linear_layout(after, shape)
        if movement(before, after, shape) is Movement.LANES:
            found.append(pair)
    return found


def test_random_conversions() -> None:
    plans = [
        (shuffle_plan(*pair, bits), pair) for bits, pair in zip((8, 16, 32, 64) * 10, random_pairs(1, 40), strict=True)
    ]
    for plan, pair in plans:
        check(plan, *pair)
    assert {(len(p.rounds), p.sender is not None, p.receiver is not None) for p, _ in plans} >= {
        (1, False, False),
        (1, True, False),
        (2, False, False),
        (2, True, True),
    }


def test_a_lane_that_needs_two_and_has_one_asks_for_the_other_one_only() -> None:
    """Lanes 2n and 2n + 1 hold a pair of elements, and then each of them holds both."""
    outs, warps = (("dim0", 64),), {"warp": (), "block": ()}
    before = LinearLayout({"register": (1,), "lane": (2, 4, 8, 16, 32), **warps}, outs)
    after = LinearLayout({"register": (1, 2), "lane": (0, 4, 8, 16, 32), **warps}, outs)
    plan = shuffle_plan(before, after, 32)
    check(plan, before, after)
    assert [plan.stays(number) for number in range(len(plan.rounds))] == [True, False]
    assert plan.receiver == Parity(1)


@pytest.mark.parametrize(
    ("before", "after", "rounds"),
    [
        (((8, 0), (1, 16, 4, 2, 32)), ((8, 32), (1, 16, 4, 2, 0)), 2),
        (((0, 16), (4, 8, 20, 1, 2)), ((1, 16), (20, 8, 4, 1, 2)), 4),
    ],
)
def test_who_asks_chooses_where_no_parity_says_what_is_wanted(before: Steps, after: Steps, rounds: int) -> None:
    size = 2 * max(before[0] + before[1])
    pair = [
        LinearLayout({"register": register, "lane": lane, "warp": (), "block": ()}, (("dim0", size),))
        for register, lane in (before, after)
    ]
    plan = shuffle_plan(pair[0], pair[1], 32)
    check(plan, pair[0], pair[1])
    assert (len(plan.rounds), plan.sender, plan.receiver is not None) == (rounds, None, True)


@pytest.mark.slow
def test_random_conversions_of_any_layouts() -> None:
    random, seen = Random(2), 0
    while seen < 100:
        shape = random_layouts.shape(random, 2, 1, 64)
        makers = (
            random_layouts.blocked,
            random_layouts.nvidia_mma,
            random_layouts.nvidia_operand,
            random_layouts.linear,
        )
        before, after = (random.choice(makers)(random, 2, shape) for _ in range(2))
        try:
            if movement(before, after, shape) is not Movement.LANES:
                continue
        except LayoutError:
            continue
        pair = to_linear_layout(before, shape), to_linear_layout(after, shape)
        check(shuffle_plan(*pair, 16), *pair)
        seen += 1


def test_a_transposition_takes_half_the_registers() -> None:
    before = encoding(
        "#ttg.linear<{register = [[1, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [], block = []}>"
    )
    after = encoding(
        "#ttg.linear<{register = [[0, 1]], lane = [[1, 0], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [], block = []}>"
    )
    pair = to_linear_layout(before, (2, 32)), to_linear_layout(after, (2, 32))
    plan = shuffle_plan(*pair, 32)
    assert exchanges(*pair) == 1
    assert plan.sender == plan.receiver == Parity(1)
    assert [plan.stays(number) for number in range(2)] == [True, False]  # the other half is there already


def test_bytes_share_words() -> None:
    lanes = "[[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]]", "[[0, 16], [0, 2], [0, 4], [0, 8], [0, 1]]"
    text = "#ttg.linear<{{register = [[1, 0], [2, 0], [4, 0]], lane = {}, warp = [], block = []}}>"
    pair = [to_linear_layout(encoding(text.format(own)), (8, 32)) for own in lanes]
    assert [shuffle_plan(*pair, bits).packed for bits in (8, 16, 32, 64)] == [4, 2, 1, 1]
