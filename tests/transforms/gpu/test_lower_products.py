"""Products in tensor memory that run on into the next step, whose sums are used a stage later, or neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.dialects.scf import For
from tilewright.dialects.ttng_tensor_memory import TmemLoad
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, integer_in
from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.types import i32
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import assign_latencies
from tilewright.transforms.gpu.pipelining.lower_loops import lower_loops
from tilewright.transforms.gpu.pipelining.lower_products import Rings, _has_room
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule import CLUSTER, STAGE
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.matching import is_in

LOOP = """
#loaded = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#sums = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
!sum = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!left = !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
!right = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
!kept = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory, mutable>
!desc = !tt.tensordesc<tensor<128x64xf16, #shared>>
!tile = tensor<128x64xf16, #loaded>
!weights = tensor<64x64xf16, #loaded>
!stored = tensor<128x64xf32, #sums>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @product(%d: !desc, %given: !right, %w: !weights, %f: i1, %n: i32) -> !stored {
    %true = arith.constant true
    %false = arith.constant false
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %right = ttg.local_alloc %w : (!weights) -> !right
    %buffer = ttg.local_alloc : () -> !kept
    %m, %t = ttng.tmem_alloc : () -> (!sum, !ttg.async.token)
    %s:2 = scf.for %k = %c0 to %n step %c64 iter_args(%add = %false, %u = %t) -> (i1, !ttg.async.token) : i32 {
      %x = tt.descriptor_load %d[%c0, %k] : !desc -> !tile
      %left = ttg.local_alloc %x : (!tile) -> !left
      %v = ttng.tc_gen5_mma %left, %right, %m[%u], %add, %true : !left, !right, !sum
      scf.yield %true, %v : i1, !ttg.async.token
    }
    %r, %o = ttng.tmem_load %m[%s#1] : !sum -> !stored
    tt.return %r : !stored
  }
}
"""
PRODUCT = "%v = ttng.tc_gen5_mma %left, %right, %m[%u], %add, %true : !left, !right, !sum"
READ = "%z, %q = ttng.tmem_load %m[%v] : !sum -> !stored"
ALLOC = "%left = ttg.local_alloc %x : (!tile) -> !left"


def parsed(*changes: tuple[str, str]) -> Op:
    module = Parser(text_of(LOOP, *changes), unregistered=True).module()
    verify(module)
    return module


def scheduled(*changes: tuple[str, str]) -> Op:
    module = parsed(*changes)
    assign_latencies(module)
    schedule_loops(module)
    return module


def test_a_step_waits_for_the_product_of_the_step_before(golden: Callable[[str, str], None]) -> None:
    module = scheduled()
    pipeline_loops(module)
    verify(module)
    canonicalize(module)
    golden(print_op(module), "transforms/pipelining/products_in_tensor_memory.ttgir")


def latencies(*changes: tuple[str, str]) -> list[tuple[int | None, int | None]]:
    """The latency of each product, and its own, by which it runs on."""
    module = parsed(*changes)
    assign_latencies(module)
    products = [op for op in module.walk() if op.name == "ttng.tc_gen5_mma"]
    return [(integer_in(op, "tt.latency"), integer_in(op, "tt.self_latency")) for op in products]


COMPUTED = (ALLOC, f'%y = "test.changed"(%x) : (!tile) -> !tile\n{ALLOC.replace("%x", "%y")}')
READ_BEHIND = (PRODUCT, f'{PRODUCT}\n{READ}\n"test.use"(%z) : (!stored) -> ()')
BRANCH = (PRODUCT, f"{PRODUCT}\nscf.if %f {{\n{READ}\n}}")
ONE_SUM = ("    }\n    %r, %o", "    } {tt.disallow_acc_multi_buffer}\n    %r, %o")


def test_products_that_run_on() -> None:
    assert latencies() == [(1, 1)]
    again = (PRODUCT, f"{PRODUCT}\n%again = {PRODUCT[5:].replace('%u', '%v')}")
    assert latencies(again) == [(1, 1), (1, 1)]
    assert latencies((PRODUCT, PRODUCT.replace("%right", "%given"))) == [(1, 1)], "nothing in the loop stores it"


def test_users_of_a_sum_that_begins_anew_come_later() -> None:
    assert latencies(READ_BEHIND) == [(1, 1)], "in some steps"
    assert latencies(READ_BEHIND, (PRODUCT, PRODUCT.replace("%add", "%false"))) == [(1, 1)], "in each"
    assert latencies(READ_BEHIND, ONE_SUM) == [(None, 1)]


def test_users_of_a_sum_that_goes_on_come_in_the_same_step() -> None:
    assert latencies(READ_BEHIND, (PRODUCT, PRODUCT.replace("%add", "%f"))) == [(None, 1)]


def test_a_branch_that_uses_the_sum_comes_later_only_if_each_step_begins_one() -> None:
    """Branches run behind the product of the next step, which then must not add to the same sum."""
    assert latencies(BRANCH) == [(None, 1)]
    assert latencies(BRANCH, (PRODUCT, PRODUCT.replace("%add", "%false"))) == [(1, 1)]


def test_an_operand_that_is_computed_comes_in_its_own_stage() -> None:
    assert latencies(COMPUTED) == [(None, 1)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(PRODUCT, PRODUCT.replace("%true", "%f"))], id="not in every step"),
        pytest.param(
            [
                (PRODUCT, PRODUCT.replace("%right", "%buffer").replace("!right", "!kept")),
                (ALLOC, f"{ALLOC}\nttg.local_store %w, %buffer : !weights -> !kept"),
            ],
            id="an operand that the step stores where others may read it",
        ),
        pytest.param(
            [
                ("%m, %t = ttng.tmem_alloc : () -> (!sum, !ttg.async.token)", ""),
                ("product(%d", "product(%m: !sum, %t: !ttg.async.token, %d"),
            ],
            id="a sum of which nothing is known",
        ),
    ],
)
def test_products_that_are_waited_for_at_once(changes: list[tuple[str, str]]) -> None:
    assert latencies(*changes) == [(None, None)]
    module = scheduled(*changes)
    lower_loops(module)
    assert "is_async" not in print_op(module)


def lowered(*changes: tuple[str, str]) -> Op:
    module = scheduled(*changes)
    lower_loops(module)
    verify(module)
    return module


def test_a_product_is_waited_for_in_front_of_the_store_of_its_operand() -> None:
    module = lowered(COMPUTED)
    names = ("ttg.local_store", "ttng.tc_gen5_mma", "ttng.wait_barrier")
    ops = [op for op in module.walk() if op.name in names]
    store, product, wait = ((integer_in(op, STAGE), integer_in(op, CLUSTER)) for op in ops[-3:])
    assert [op.name for op in ops[-3:]] == list(names)
    assert store[0] is not None
    assert store[1] is not None
    assert product == store
    assert wait == (store[0] + 1, store[1] - 1), "that of the step before, just in front"


def test_sums_have_two_places_if_branches_use_them_when_the_next_step_has_begun() -> None:
    module = lowered(BRANCH, (PRODUCT, PRODUCT.replace("%add", "%false")))
    assert "ttng.tmem_alloc : () -> (!ttg.memdesc<2x128x64xf32" in print_op(module)


LAST = "%r, %o = ttng.tmem_load %m[%s#1] : !sum -> !stored"
IN_BRANCH = f"""%r = scf.if %f -> !stored {{
      {LAST.replace("%r", "%p")}
      scf.yield %p : !stored
    }} else {{
      %none = arith.constant dense<0.0> : !stored
      scf.yield %none : !stored
    }}"""


@pytest.mark.parametrize("last", [LAST, IN_BRANCH], ids=["in line", "in a branch"])
def test_who_reads_sums_behind_the_loop_takes_the_last_place(last: str) -> None:
    module = lowered(BRANCH, (PRODUCT, PRODUCT.replace("%add", "%false")), (LAST, last))
    (loop,) = module.ops_of(For)
    (load,) = (op for op in module.ops_of(TmemLoad) if not is_in(op, loop))
    place = load.operands[0].op
    assert place is not None
    assert place.name == "ttg.memdesc_index"
    assert place.operands[1].op is loop


def test_a_loop_whose_schedule_changes_the_order_of_accesses_is_not_pipelined() -> None:
    """Somebody marked a sum that goes on as if users could come later."""
    module = parsed(BRANCH, (PRODUCT, PRODUCT.replace("%add", "%f")))
    (product,) = (op for op in module.walk() if op.name == "ttng.tc_gen5_mma")
    assign_latencies(module)
    product.attributes = {**product.attributes, "tt.latency": Number(1, i32)}
    schedule_loops(module)
    assert "loop.stage" in print_op(module)
    lower_loops(module)
    assert "loop.stage" not in print_op(module)
    assert "is_async" not in print_op(module)


def test_sums_have_one_place_where_tensor_memory_has_no_room_for_two() -> None:
    """The branch then comes in the stage of the product."""
    most = "!ttg.memdesc<2x128x256xf32, #most, #ttng.tensor_memory, mutable>"
    full = ("%m, %t =", f"%full = ttng.tmem_alloc : () -> {most}\n    %m, %t =")
    layout = ("!sum =", "#most = #ttng.tensor_memory_encoding<blockM = 128, blockN = 256, colStride = 1>\n!sum =")
    changes = (BRANCH, (PRODUCT, PRODUCT.replace("%add", "%false")), full, layout)
    assert latencies(*changes) == [(None, 1)]
    assert "!ttg.memdesc<128x64xf32" in print_op(lowered(*changes))


@pytest.mark.quick
@pytest.mark.parametrize(("left", "has_room"), [(-1, True), (0, False), (255, False), (256, True)])
def test_barriers_need_room_beside_the_rings(left: int, has_room: bool) -> None:
    """Rings that have no room without products that run on do not count: the kernel is refused anyway."""
    rings = Rings(loads=(), ahead=(), kept={}, places={}, bytes=227 * 1024 - left)
    assert _has_room([], rings) == has_room
