"""Loops that are divided among groups of warps: each pass as text, and loops that are left as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.tools.opt_run import read_module
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions, assign_latencies
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.gpu.tensor_memory_accumulators import remove_tensor_memory_tokens
from tilewright.transforms.gpu.warp_specialization.automatic import automatic_warp_specialization
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.partition_loops import partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling
from tilewright.transforms.gpu.warp_specialization.slices import DEFAULT, WITHOUT_CORRECTION, partitions_of_op

SUMS = """
#loaded = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#sums = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
!sum = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!left = !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
!rows = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
!right = !ttg.memdesc<64x64xf16, #turned, #ttg.shared_memory>
!adesc = !tt.tensordesc<tensor<128x64xf16, #shared>>
!bdesc = !tt.tensordesc<tensor<64x64xf16, #shared>>
!cdesc = !tt.tensordesc<tensor<128x64xf32, #wide>>
!xtile = tensor<128x64xf16, #loaded>
!ytile = tensor<64x64xf16, #loaded>
!tile = tensor<128x64xf32, #sums>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @sums(%a: !adesc, %b: !bdesc,
      %c: !cdesc, %p: !tt.ptr<i32>, %tiles: i32, %n: i32) {
    %true = arith.constant true
    %false = arith.constant false
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %zero = arith.constant dense<0.0> : !tile
    scf.for %tile = %c0 to %tiles step %c1 : i32 {
      %row = arith.muli %tile, %c128 : i32
      %m, %t = ttng.tmem_alloc %zero : (!tile) -> (!sum, !ttg.async.token)
      %s:2 = scf.for %k = %c0 to %n step %c1 iter_args(%add = %false, %u = %t) -> (i1, !ttg.async.token) : i32 {
        %column = arith.muli %k, %c64 : i32
        %x = tt.descriptor_load %a[%row, %column] : !adesc -> !xtile
        %left = ttg.local_alloc %x : (!xtile) -> !left
        %y = tt.descriptor_load %b[%c0, %column] : !bdesc -> !ytile
        %rows = ttg.local_alloc %y : (!ytile) -> !rows
        %right = ttg.memdesc_trans %rows {order = array<i32: 1, 0>} : !rows -> !right
        %v = ttng.tc_gen5_mma %left, %right, %m[%u], %add, %true : !left, !right, !sum
        scf.yield %true, %v : i1, !ttg.async.token
      }
      %sum, %w = ttng.tmem_load %m[%s#1] : !sum -> !tile
      tt.descriptor_store %c[%row, %c0], %sum : !cdesc, !tile
    } {tt.warp_specialize}
    tt.return
  }
}
"""


def module_of(*changes: tuple[str, str]) -> Op:
    return parse_module(text_of(SUMS, *changes))


def test_each_op_gets_a_partition(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert partition_scheduling(module)
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/scheduled.ttgir")


def test_partitions_hand_over_buffers(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    assert insert_channels(module, StageOptions(2))
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/with_channels.ttgir")


ALLOC = "%m, %t = ttng.tmem_alloc %zero : (!tile) -> (!sum, !ttg.async.token)"
STORED = """%always = arith.constant true
      %sometimes = arith.cmpi slt, %tile, %n : i32
      %m, %t0 = ttng.tmem_alloc : () -> (!sum, !ttg.async.token)
      %t = ttng.tmem_store %zero, %m[%t0], {} : !tile -> !sum"""


@pytest.mark.parametrize(("when", "stays"), [("%always", False), ("%sometimes", True)])
def test_the_start_of_a_sum_that_the_first_product_replaces_is_not_stored(when: str, stays: bool) -> None:
    module = module_of((ALLOC, STORED.format(when)))
    partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    assert insert_channels(module, StageOptions(2))
    verify(module)
    assert ("ttng.tmem_store" in print_op(module)) == stays


def test_each_partition_gets_a_loop(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert automatic_warp_specialization(module, StageOptions(2))
    verify(module)
    canonicalize(module)
    golden(print_op(module), "transforms/warp_specialization/specialized.ttgir")


def test_loops_keep_their_own_number_of_stages() -> None:
    module = module_of(("{tt.warp_specialize}", "{tt.num_stages = 4 : i32, tt.warp_specialize}"))
    automatic_warp_specialization(module, StageOptions(2))
    assert "!ttg.memdesc<4x128x64xf16" in print_op(module)


def test_a_module_without_marks_is_left_alone() -> None:
    module = module_of()
    assert not insert_channels(module)
    assert not partition_loops(module)
    assert print_op(module) == print_op(module_of())


ROW = "%row = arith.muli %tile, %c128 : i32"
LOADED_ROW = (ROW, "%row = tt.load %p : !tt.ptr<i32>")
WRITTEN = ("      %sum, %w", "      tt.store %p, %tile : !tt.ptr<i32>\n      %sum, %w")
ADD = "%o = tt.atomic_rmw add, relaxed, gpu, %p, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32"
ADDED = ("      %sum, %w", f"      {ADD}\n      %sum, %w")
USED = "ttg.local_dealloc %left : !left"
STORES = {"%p": "tt.store %p, %tile : !tt.ptr<i32>", "%q": "tt.store %q, %true : !tt.ptr<i1>"}
FLAG = [("%p: !tt.ptr<i32>", "%p: !tt.ptr<i32>, %q: !tt.ptr<i1>"), ("%add, %true", "%add, %flag")]


@pytest.mark.quick
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("{tt.warp_specialize}", "")], id="nobody asked"),
        pytest.param([('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2')], id="two CTAs"),
        pytest.param([('"ttg.num-warps" = 4', '"ttg.num-warps" = 32')], id="no room for further warps"),
        pytest.param([("public @sums", "private @sums")], id="not in a kernel"),
        pytest.param([(ROW, f"{ROW}\n ttg.barrier local")], id="a meeting of all warps"),
        pytest.param(
            [(ROW, f"{ROW}\n %old = tt.atomic_rmw add, acq_rel, gpu, %p, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32")],
            id="an order of all accesses",
        ),
        pytest.param([LOADED_ROW, ADDED], id="a copy needs what is loaded from what an atomic op writes"),
        pytest.param([("        %v = ttng", f"        {USED}\n        %v = ttng")], id="an unknown op has a buffer"),
        pytest.param(
            [("        %v = ttng", "        %flag = tt.load %q : !tt.ptr<i1>\n        %v = ttng"), *FLAG, ADDED],
            id="a product needs what is loaded beside an atomic op",
        ),
        pytest.param(
            [("%row = arith", "%row = tt.load %p {isVolatile = true} : !tt.ptr<i32>\n %old = arith")],
            id="a copy needs what is volatile",
        ),
    ],
)
def test_left_as_it_is(changes: list[tuple[str, str]]) -> None:
    module = module_of(*changes)
    before = print_op(module)
    assert not automatic_warp_specialization(module)
    assert print_op(module) == before


def scheduled(module: Op) -> Op:
    assign_latencies(module)
    schedule_loops(module)
    return module


def test_a_loop_that_stays_whole_is_scheduled_like_one_that_does_not_ask() -> None:
    barrier = ("%row = arith.muli", "gpu.barrier\n      %row = arith.muli")  # of the loop around the one with products
    asking = scheduled(module_of(barrier))
    asked = print_op(asking)
    assert "tt.self_latency = 0" in asked
    assert "loop.stage" in asked
    assert automatic_warp_specialization(asking)
    not_asking = scheduled(module_of(barrier, (" {tt.warp_specialize}", "")))
    assert print_op(asking) == print_op(not_asking) != asked


def test_each_partition_loads_numbers_that_the_loop_does_not_write() -> None:
    module = module_of(LOADED_ROW)
    assert partition_scheduling(module)
    (load,) = (op for op in module.walk() if op.name == "tt.load")
    assert partitions_of_op(load) == (DEFAULT, WITHOUT_CORRECTION.load)
    assert automatic_warp_specialization(module_of(LOADED_ROW))


STORE = "tt.descriptor_store %c[%row, %c0], %sum : !cdesc, !tile"
HALF = "!half = tensor<128x64xf16, #sums>\nmodule attributes"
STORE_IN_PLACE = """%half = arith.truncf %sum : !tile to !half
      tt.descriptor_store %a[%row, %c0], %half : !adesc, !half"""
IN_PLACE = [("module attributes", HALF), (STORE, STORE_IN_PLACE)]
"""The loop stores to the matrix that its copies read."""
ZEROS = "%zeros = arith.truncf %zero : !tile to !half\n tt.descriptor_store %a[%row, %c0], %zeros : !adesc, !half\n"


def test_copies_and_stores_of_one_matrix_take_turns(golden: Callable[[str, str], None]) -> None:
    module = module_of(*IN_PLACE)
    assert partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    assert insert_channels(module, StageOptions(2))
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/in_order.ttgir")


def test_numbers_that_the_loop_may_have_written_are_loaded_in_turns() -> None:
    by_table = ("%p: !tt.ptr<i32>", "%table: !tt.ptr<!tt.ptr<f32>>, %p: !tt.ptr<i32>")
    pointer = "%d = tt.load %table : !tt.ptr<!tt.ptr<f32>>\n"
    shape = "[%c128, %c64], [%long, %one] : !tt.ptr<f32>, !cdesc"
    numbers = "%long = arith.constant 64 : i64\n %one = arith.constant 1 : i64\n"
    store = f"%e = tt.make_tensor_descriptor %d, {shape}\n {STORE.replace('%c[', '%e[')}"
    module = module_of(by_table, LOADED_ROW, (STORE, pointer + numbers + store))
    assert partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    assert insert_channels(module, StageOptions(2))
    verify(module)
    waits = [op for op in module.walk() if op.name == "ttng.async_tma_store_wait"]
    assert [partitions_of_op(wait) for wait in waits] == [(DEFAULT,)]


@pytest.mark.parametrize("stored", ["%p", "%q"])
def test_numbers_that_threads_may_have_written_are_loaded_in_turns(stored: str) -> None:
    module = module_of(*FLAG[:1], LOADED_ROW, WRITTEN, ("tt.store %p, %tile : !tt.ptr<i32>", STORES[stored]))
    assert partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    before = print_op(module).count("ttg.local_alloc")
    assert insert_channels(module, StageOptions(2))
    verify(module)
    text = print_op(module)
    assert text.count("ttg.local_alloc") - before == (6 if stored == "%p" else 4)
    assert "fence.proxy" not in text


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("      %m, %t = ttng", f"      {ZEROS}      %m, %t = ttng")], id="stored before the copies"),
        pytest.param([("      %sum, %w", f"      {ZEROS}      %sum, %w")], id="stored before the products are known"),
        pytest.param([("        %x = tt.desc", f"        {ZEROS}        %x = tt.desc")], id="stored in each step"),
    ],
)
def test_copies_that_stores_do_not_follow_keep_a_loop_whole(changes: list[tuple[str, str]]) -> None:
    module = module_of(*IN_PLACE, *changes)
    before = print_op(module)
    assert not automatic_warp_specialization(module)
    assert print_op(module) == before
    assert automatic_warp_specialization(module_of(*IN_PLACE))


COLUMN = "%column = arith.muli %k, %c64 : i32"
UNDECLARED = '"column"(%k) : (i32) -> i32'


def undeclared(*changes: tuple[str, str]) -> Op:
    return read_module(text_of(SUMS, *changes), "sums.ttgir", unregistered=True)


def test_an_undeclared_op_for_copies_alone_is_executed_with_them() -> None:
    module = undeclared((COLUMN, f"%column = {UNDECLARED}"))
    assert partition_scheduling(module)
    (op,) = (op for op in module.walk() if op.name == "column")
    assert partitions_of_op(op) == (WITHOUT_CORRECTION.load,)
    module = undeclared((COLUMN, f"%column = {UNDECLARED}"))
    assert automatic_warp_specialization(module)
    assert print_op(module).count('"column"') == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(ROW, '%row = "row"(%tile) : (i32) -> i32')], id="another partition stores there too"),
        pytest.param(
            [(COLUMN, '%columns, %of = "column"(%k) : (i32) -> (i32, !left)'), ("%column]", "%columns]")],
            id="it gives a buffer",
        ),
    ],
)
def test_an_undeclared_op_that_keeps_a_loop_whole(changes: list[tuple[str, str]]) -> None:
    module = undeclared(*changes)
    before = print_op(module)
    assert not automatic_warp_specialization(module)
    assert print_op(module) == before


ARGUMENT = [("(%a: !adesc", "(%given: !left, %a: !adesc"), ("tc_gen5_mma %left", "tc_gen5_mma %given")]


@pytest.mark.parametrize("used", ["", "        ttg.local_dealloc %given : !left\n"])
def test_a_buffer_that_a_kernel_gets_must_be_only_read(used: str) -> None:
    module = module_of(*ARGUMENT, ("        %v = ttng", f"{used}        %v = ttng"))
    before = print_op(module)
    assert partition_scheduling(module) is not bool(used)
    assert (print_op(module) == before) is bool(used)


def test_each_partition_has_views_of_its_own() -> None:
    read = "        %read = ttg.local_load %right : !right -> !ytile\n"
    module = module_of(("        %v = ttng", f"{read}        %v = ttng"))
    assert partition_scheduling(module)
    verify(module)
    views = [op for op in module.walk() if op.name == "ttg.memdesc_trans"]
    users = {partitions_of_op(view): [user.name for user in view.results[0].uses] for view in views}
    assert users == {(0,): ["ttg.local_load"], (1,): ["ttng.tc_gen5_mma"]}


GIVEN = """
#tile = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 0, parent = #tile}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @given(%n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %x = "row"() {ttg.partition = array<i32: 0>} : () -> tensor<128xf32, #row>
      %wide = tt.expand_dims %x {axis = 0 : i32} : tensor<128xf32, #row> -> tensor<1x128xf32, #tile>
      %all = tt.broadcast %wide : tensor<1x128xf32, #tile> -> tensor<8x128xf32, #tile>
      %twice = arith.muli %i, %i : i32
      "first"(%all, %twice) {ttg.partition = array<i32: 0>} : (tensor<8x128xf32, #tile>, i32) -> ()
      "second"(%all, %twice) {ttg.partition = array<i32: 1>} : (tensor<8x128xf32, #tile>, i32) -> ()
    } {tt.warp_specialize, ttg.partition.stages = [0 : i32, 1 : i32]}
    tt.return
  }
}
"""


def test_partitions_of_a_text_are_taken_over_and_each_has_tiles_of_its_own() -> None:
    module = read_module(GIVEN, "given.ttgir", unregistered=True)
    assert partition_scheduling(module)
    verify(module)
    marks = [(op.name, partitions_of_op(op)) for op in module.walk() if partitions_of_op(op)]
    ways = [("tt.expand_dims", (1,)), ("tt.expand_dims", (0,)), ("tt.broadcast", (1,)), ("tt.broadcast", (0,))]
    ends = [("arith.muli", (0, 1)), ("first", (0,)), ("second", (1,))]
    assert marks == [("scf.for", (0, 1)), ("row", (0,)), *ways, *ends]
    for name, number in (("first", 0), ("second", 1)):
        (user,) = (op for op in module.walk() if op.name == name)
        tile = user.operands[0].op
        assert tile is not None
        assert partitions_of_op(tile) == (number,)


def test_an_effect_without_a_mark_in_a_marked_text_belongs_to_nobody() -> None:
    text = GIVEN.replace('"row"() {ttg.partition = array<i32: 0>}', '"row"()')
    module = read_module(text, "given.ttgir", unregistered=True)
    assert not partition_scheduling(module)
