"""Products in tensor memory that run on into the next step, and loops whose products are waited for at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.ir.core import Op
from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import assign_latencies
from tilewright.transforms.gpu.pipelining.lower_loops import lower_loops
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops

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


def scheduled(*changes: tuple[str, str]) -> Op:
    module = Parser(text_of(LOOP, *changes), unregistered=True).module()
    verify(module)
    assign_latencies(module)
    schedule_loops(module)
    return module


def test_a_step_waits_for_the_product_of_the_step_before(golden: Callable[[str, str], None]) -> None:
    module = scheduled()
    pipeline_loops(module)
    verify(module)
    canonicalize(module)
    golden(print_op(module), "transforms/pipelining/products_in_tensor_memory.ttgir")


def is_marked(module: Op) -> bool:
    lower_loops(module)
    return "tt.self_latency" in print_op(module)


def test_products_that_may_run_on_are_marked() -> None:
    assert is_marked(scheduled())
    assert is_marked(scheduled((PRODUCT, f"{PRODUCT}\n%again = {PRODUCT[5:].replace('%u', '%v')}")))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(PRODUCT, PRODUCT.replace("%true", "%f"))], id="not in every step"),
        pytest.param([(PRODUCT, PRODUCT.replace("%right", "%given"))], id="a buffer of which nothing is known"),
        pytest.param(
            [
                (PRODUCT, PRODUCT.replace("%right", "%buffer").replace("!right", "!kept")),
                (ALLOC, f"{ALLOC}\nttg.local_store %w, %buffer : !weights -> !kept"),
            ],
            id="an operand that the step stores",
        ),
        pytest.param(
            [(ALLOC, f'%y = "test.changed"(%x) : (!tile) -> !tile\n{ALLOC.replace("%x", "%y")}')],
            id="an operand that is computed",
        ),
        pytest.param(
            [(PRODUCT, f'{PRODUCT}\n{READ}\n"test.use"(%z) : (!stored) -> ()')],
            id="a sum that the step reads",
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
    assert not is_marked(scheduled(*changes))
