"""Reconvergence of lanes that branched apart: in any order of blocks in the text, and not where they never meet."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from ptx_programs import compute

from tilewright.backends.ptxsim import SimulationError

NUMBERS = np.arange(32, dtype=np.uint32)


def test_lanes_meet_in_a_block_in_front_of_the_rare_one() -> None:
    code = """mov.u32 %r9, 0; setp.gt.u32 %p1, %r1, 20; @%p1 bra $rare;
    $join: shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1; bar.sync 0; bra.uni $end;
    $rare: mul.lo.u32 %r1, %r1, 2; bra.uni $join; $end:"""
    doubled = np.where(NUMBERS > 20, 2 * NUMBERS, NUMBERS)
    assert compute(code, "u4", NUMBERS).tolist() == doubled[NUMBERS ^ 16].tolist()


ROUNDS = """mov.u32 %r9, 0; mov.u32 %r2, 0; bra.uni $head;
$odd: add.u32 %r9, %r9, 100; setp.lt.u32 %p2, %r2, 4; @%p2 bra $head; bra.uni $end;
$head: shfl.sync.bfly.b32 %r3, %r9, 1, 31, -1; add.u32 %r9, %r3, %r1; add.u32 %r2, %r2, 1;
and.b32 %r4, %r9, 1; setp.eq.u32 %p1, %r4, 1; @%p1 bra $odd; setp.lt.u32 %p2, %r2, 4; @%p2 bra $head;
$end: shfl.sync.idx.b32 %r3, %r9, 0, 31, -1; add.u32 %r9, %r9, %r3;"""


def test_rounds_of_a_loop_that_end_at_two_places() -> None:
    wanted = np.zeros(32, np.uint32)
    for _ in range(4):
        wanted = wanted[NUMBERS ^ 1] + NUMBERS
        wanted += np.where(wanted % 2 == 1, 100, 0).astype(np.uint32)
    assert compute(ROUNDS, "u4", NUMBERS).tolist() == (wanted + wanted[0]).tolist()


def test_the_order_of_blocks_does_not_matter() -> None:
    """Nested loops, branches and a table, with shuffles wherever all lanes are."""
    blocks = [
        "mov.u32 %r9, 0; mov.u32 %r2, 0; bra $outer;",
        "$outer: shfl.sync.bfly.b32 %r3, %r9, 2, 31, -1; add.u32 %r9, %r3, %r1; mov.u32 %r5, 0; bra $inner;",
        "$inner: and.b32 %r4, %r9, 3; brx.idx %r4, $table;",
        "$a: add.u32 %r9, %r9, 3; bra $join;",
        "$b: add.u32 %r9, %r9, 5; setp.gt.u32 %p1, %r1, 9; @%p1 bra $next; bra $a;",
        "$c: xor.b32 %r9, %r9, 8; bra $next;",
        "$join: shl.b32 %r6, %r9, 1; and.b32 %r9, %r6, 1023; bra $next;",
        "$next: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra $inner; bra $left;",
        "$left: shfl.sync.up.b32 %r3, %r9, 1, 0, -1; xor.b32 %r9, %r9, %r3; bra $again;",
        "$again: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 3; @%p3 bra $outer; bra $end;",
    ]
    table = "$table: .branchtargets $a, $b, $next, $c;\n"
    rng, found = Random(3), set[tuple[int, ...]]()
    for _ in range(6):
        found.add(tuple(compute("\n".join([table, *blocks, "$end:"]), "u4", NUMBERS).tolist()))
        blocks[1:] = rng.sample(blocks[1:], len(blocks) - 1)
    assert len(found) == 1


APART = {
    "a branch past the shuffle": """setp.gt.u32 %p1, %r1, 20; @%p1 bra $rare;
        shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1; bra.uni $end; $rare: mov.u32 %r9, 1; $end:""",
    "a barrier on one side": """setp.gt.u32 %p1, %r1, 20; @%p1 bra $rare;
        $join: mov.u32 %r9, 1; bra.uni $end; $rare: bar.sync 0; bra.uni $join; $end:""",
    "a shuffle on each side": """setp.gt.u32 %p1, %r1, 20; @%p1 bra $rare; shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;
        bra.uni $end; $rare: shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1; $end:""",
    "a loop that some lanes have left": """mov.u32 %r2, 0;
        $loop: shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1; add.u32 %r2, %r2, 1;
        setp.lt.u32 %p1, %r2, %r1; @%p1 bra $loop;""",
}


@pytest.mark.quick
@pytest.mark.parametrize("what", APART)
def test_a_warp_that_is_apart_is_reported(what: str) -> None:
    with pytest.raises(SimulationError, match="divergent warp"):
        compute(APART[what], "u4", NUMBERS)
