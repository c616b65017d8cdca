"""Loops that marks divide among groups of warps: tiles go to other groups and back through shared memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from simulated import run_module

from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.allocate_memory import allocate_shared_memory
from tilewright.transforms.gpu.membar import membar
from tilewright.transforms.gpu.warp_specialization.lower_warp_groups import lower_warp_groups
from tilewright.transforms.gpu.warp_specialization.partition_loops import needs_of_others, partition_loops

SUMS = """
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
!line = tensor<128xi32, #line>
!places = tensor<128x!tt.ptr<i32>, #line>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @sums(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %z: !tt.ptr<i32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c5 = arith.constant 5 : i32
    %zeros = arith.constant dense<0> : !line
    %n = tt.make_range {start = 0 : i32, end = 128 : i32} : !line
    %xs = tt.splat %x : !tt.ptr<i32> -> !places
    %ys = tt.splat %y : !tt.ptr<i32> -> !places
    %zs = tt.splat %z : !tt.ptr<i32> -> !places
    %from = tt.addptr %xs, %n : !places, !line
    %to = tt.addptr %ys, %n : !places, !line
    %also = tt.addptr %zs, %n : !places, !line
    %loaded = tt.load %from : !places
    %sums:2 = scf.for %i = %c0 to %c5 step %c1 iter_args(%a = %zeros, %b = %loaded) -> (!line, !line) : i32 {
      %0 = arith.addi %a, %n {ttg.partition = array<i32: 0>} : !line
      %1 = tt.load %from {isVolatile = true, ttg.partition = array<i32: 1>} : !places
      %2 = arith.addi %b, %1 {ttg.partition = array<i32: 1>} : !line
      %3 = arith.addi %2, %n {ttg.partition = array<i32: 1>} : !line
      scf.yield %0, %3 : !line, !line
    } {tt.warp_specialize, ttg.partition = array<i32: 0, 1>}
    tt.store %to, %sums#0 : !places
    tt.store %also, %sums#1 : !places
    tt.return
  }
}
"""

YIELDED = "scf.yield %0, %3"


def module_of(*changes: tuple[str, str]) -> Op:
    text = SUMS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module = parse_module(text)
    verify(module)
    return module


def divided(*changes: tuple[str, str]) -> Op:
    module = module_of(*changes)
    assert partition_loops(module)
    verify(module)
    return module


def lowered(module: Op) -> Op:
    assert lower_warp_groups(module)
    verify(module)
    assert not module.ops_of(WarpGroup)
    return module


def check_sums(module: Op) -> None:
    """Run `module` on the simulated device; it must give both sums."""
    allocate_shared_memory(module)
    membar(module)
    x = np.arange(128, dtype=np.int32) * 3 - 50
    first, second = np.zeros(128, np.int32), np.zeros(128, np.int32)
    run_module(module, [x, first, second], capability=100)
    np.testing.assert_array_equal(first, 5 * np.arange(128))
    np.testing.assert_array_equal(second, 6 * x + 5 * np.arange(128))


def test_each_group_sees_what_is_around(golden: Callable[[str, str], None]) -> None:
    golden(print_op(divided()), "transforms/warp_specialization/grouped.ttgir")


def test_each_partition_gets_what_it_uses(golden: Callable[[str, str], None]) -> None:
    golden(print_op(lowered(divided())), "transforms/warp_specialization/given.ttgir")


def test_tiles_go_to_another_group_and_back() -> None:
    module = lowered(divided())
    check_sums(module)


def test_marks_of_triton_3_5() -> None:
    """There an op without a mark is executed by all, and the loop says how many partitions there are."""
    older = [
        (f"ttg.partition = array<i32: {number}>" + "}", f"ttg.partition = {number} : i32" + "}") for number in (0, 1)
    ]
    loop = "{tt.warp_specialize, ttg.partition = array<i32: 0, 1>}"
    newer = (loop, "{ttg.partition.stages = [0, 0], ttg.warp_specialize.tag = 0 : i32}")
    text = print_op(divided(*older, newer)).replace(" {ttg.warp_specialize.tag = 0 : i32}", "")
    assert text == print_op(divided()).replace(" {tt.warp_specialize}", "")


BESIDE = "{ttg.partition = array<i32: 1>, ttg.warp_specialize.tag = 0 : i32}"
AROUND = [
    ("{tt.warp_specialize, ", "{tt.warp_specialize, ttg.warp_specialize.tag = 0 : i32, "),
    ("    %sums:2", f"    tt.store %also, %n {BESIDE} : !places\n    %sums:2"),
    ("    tt.store %also, %sums#1 :", f"    tt.store %also, %sums#1 {BESIDE} :"),
]
"""Stores in front of the loop and behind it that are its second partition's."""


def test_ops_around_a_loop_go_to_the_group_that_they_belong_to() -> None:
    group = divided(*AROUND).ops_of(WarpGroup)[0]
    assert not group.results[1:], "the second sum is stored where it is computed"
    first, second = ([op.name for op in region.block] for region in group.regions)
    assert first == ["scf.for", "nvws.warp_group.yield"]
    assert second == ["tt.store", "scf.for", "tt.store", "nvws.warp_group.return"]


def test_stores_around_a_loop_by_its_second_group() -> None:
    module = lowered(divided(*AROUND))
    check_sums(module)


def test_an_op_behind_a_loop_that_needs_what_stands_before_it_keeps_the_loop_whole() -> None:
    front, *_, behind = AROUND
    later = (behind[0], f"%m = arith.addi %sums#1, %n : !line\n    tt.store %also, %m {BESIDE} :")
    assert not partition_loops(module_of(front, later))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            (YIELDED, f"tt.store %to, %1 {{ttg.partition = array<i32: 0>}} : !places\n      {YIELDED}"),
            "non-root partition #1 has direct SSA consumer: partition #0",
            id="a tile that another partition loads",
        ),
        pytest.param(
            ("{isVolatile = true, ttg.partition = array<i32: 1>}", "{isVolatile = true}"),
            "no partition executes the op",
            id="no mark",
        ),
    ],
)
def test_loops_that_stay_whole(change: tuple[str, str], reason: str) -> None:
    module = module_of(change)
    before = print_op(module)
    assert [text for _, text in needs_of_others(module)] == [f"{reason}; the loop stays whole"]
    assert not partition_loops(module)
    assert print_op(module) == before


def test_marks_of_one_partition_leave_a_loop_whole() -> None:
    module = module_of(("array<i32: 1>", "array<i32: 0>"), ("array<i32: 0, 1>", "array<i32: 0>"))
    assert not partition_loops(module)


GROUPS = """
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @groups(%x: i32) {
    %r = nvws.warp_group
    partition0 num_warps(4) {
      nvws.warp_group.yield %x : i32
    }
    partition1 num_warps(2) {
      nvws.warp_group.return
    }
    tt.return
  }
}
"""


def test_a_first_group_with_other_warps_is_a_partition() -> None:
    without = GROUPS.replace("yield %x : i32", "return").replace("%r = ", "").replace("(4)", "(8)")
    module = lowered(parse_module(without))
    (op,) = module.ops_of(WarpSpecialize)
    assert op.partition_warps == (8, 2)
    assert [inner.name for inner in op.default] == ["ttg.warp_yield"]


def test_a_first_group_with_other_warps_gives_nothing() -> None:
    module = parse_module(GROUPS.replace("(4)", "(8)"))
    with pytest.raises(VerificationError, match="the warps that come here give the results"):
        lower_warp_groups(module)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("num_warps(2)", "num_warps(3)"), "group 1 has 3 warps: no power of two"),
        (("nvws.warp_group.return", "nvws.warp_group.yield"), "the end of group 1"),
    ],
)
def test_refused_groups(change: tuple[str, str], problem: str) -> None:
    module = parse_module(GROUPS.replace(*change))
    with pytest.raises(VerificationError, match=problem):
        verify(module)


def test_tiles_of_a_group_are_for_its_warps() -> None:
    line = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [WARPS], order = [0]}>"
    tile = f"%t = tt.make_range {{start = 0 : i32, end = 128 : i32}} : tensor<128xi32, {line}>"
    end = "      nvws.warp_group.return"
    verify(parse_module(GROUPS.replace(end, f"{tile.replace('WARPS', '2')}\n{end}")))
    with pytest.raises(VerificationError, match="is for 4 warps, but here are 2"):
        verify(parse_module(GROUPS.replace(end, f"{tile.replace('WARPS', '4')}\n{end}")))


def test_a_number_that_another_partition_has_keeps_a_loop_whole() -> None:
    """Only tiles go through shared memory."""
    number = "%k = tt.load %x {isVolatile = true, ttg.partition = array<i32: 1>} : !tt.ptr<i32>\n      "
    module = module_of(
        ("%sums:2 = scf", "%sums:3 = scf"),
        ("%b = %loaded) -> (!line, !line)", "%b = %loaded, %l = %c0) -> (!line, !line, i32)"),
        (YIELDED, f"{number}{YIELDED}"),
        ("scf.yield %0, %3 : !line, !line", "scf.yield %0, %3, %k : !line, !line, i32"),
        ("    tt.return", "    tt.store %y, %sums#2 : !tt.ptr<i32>\n    tt.return"),
    )
    assert [text for _, text in needs_of_others(module)] == [
        "non-root partition #1 has direct SSA consumer: partition #0; the loop stays whole"
    ]
    assert not partition_loops(module)
