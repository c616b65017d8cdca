"""Places of buffers in shared memory, and the live ranges they are computed from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.analysis.live_ranges import Interval, LiveRanges
from tilewright.analysis.placement import Request, place
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

requests = st.lists(
    st.builds(
        lambda size, alignment, start, length: Request(size, alignment, Interval(start, start + length)),
        st.integers(1, 300),
        st.sampled_from([1, 4, 16, 128]),
        st.integers(0, 20),
        st.integers(1, 8),
    ),
    max_size=12,
)


@given(requests)
def test_buffers_alive_together_never_share_a_byte(wanted: list[Request]) -> None:
    offsets = place(wanted)
    for a, (offset, request) in enumerate(zip(offsets, wanted, strict=True)):
        assert offset % request.alignment == 0
        for b in range(a):
            apart = offset + request.size <= offsets[b] or offsets[b] + wanted[b].size <= offset
            assert apart or not request.live.overlaps(wanted[b].live)


def test_a_buffer_takes_the_place_of_one_that_is_over() -> None:
    live = (Interval(0, 5), Interval(5, 9), Interval(0, 9))
    assert place([Request(1024, 16, live[0]), Request(512, 16, live[1]), Request(64, 16, live[2])]) == [0, 0, 1024]


def test_buffers_used_together_by_other_warps_are_kept_apart() -> None:
    wanted = [Request(64, 16, Interval(0, 1)), Request(64, 16, Interval(5, 6))]
    assert place(wanted) == [0, 0]
    assert sorted(place(wanted, together=lambda a, b: True)) == [0, 64]


CODE = """
tt.func @k(%c: i1, %p: !tt.ptr<i32>) {
  %a = arith.constant 1 : i32
  %b = arith.constant 2 : i32
  scf.if %c {
    tt.store %p, %a : !tt.ptr<i32>
    %d = arith.addi %b, %b : i32
    tt.store %p, %d : !tt.ptr<i32>
  }
  %unused = arith.constant 3 : i32
  tt.return
}
"""

JUMPS = """
tt.func @k(%c: i1, %p: !tt.ptr<i32>) {
  %a = arith.constant 1 : i32
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %b = arith.constant 2 : i32
  tt.store %p, %b : !tt.ptr<i32>
  cf.br ^bb3
^bb2:
  cf.br ^bb3
^bb3:
  tt.store %p, %a : !tt.ptr<i32>
  tt.return
}
"""


def ranges(code: str) -> dict[str, Interval]:
    function: Op = parse_module(code).regions[0].block.first
    lives = LiveRanges(function)
    return {r.name: lives.of(r) for op in function.walk() for r in op.results if r.name}


def test_what_a_region_needs_lives_until_the_op_around_it_ends() -> None:
    found = ranges(CODE)
    assert found["a"] == Interval(0, 7)  # the scf.if is number 6
    assert found["b"] == Interval(1, 7)
    assert found["d"] == Interval(3, 5)
    assert found["unused"] == Interval(7, 8)


def test_a_value_lives_through_blocks_that_only_lead_to_its_use() -> None:
    found = ranges(JUMPS)
    assert found["a"] == Interval(0, 7)
    assert found["b"] == Interval(2, 4)
