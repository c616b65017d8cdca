"""Sums that loops carry stay in tensor memory."""

from __future__ import annotations

import re

import pytest

from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.tensor_memory_accumulators import hoist_tensor_memory

LOOP = """
#sums = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
!sums = tensor<128x64xf32, #sums>
!memory = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!a = !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
!b = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @sum(%a: !a, %b: !b, %start: !sums, %n: i32) -> !sums {
    %true = arith.constant true
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sum = scf.for %i = %zero to %n step %one iter_args(%c = %start) -> (!sums) : i32 {
      %m, %t = ttng.tmem_alloc %c : (!sums) -> (!memory, !ttg.async.token)
      %u = ttng.tc_gen5_mma %a, %b, %m[%t], %true, %true : !a, !b, !memory
      %d, %v = ttng.tmem_load %m[%u] : !memory -> !sums
      scf.yield YIELDED : !sums
    }
    tt.return %sum : !sums
  }
}
"""


def text_of(text: str, *changes: tuple[str, str]) -> str:
    """The text with each first text of `changes`, which it has, replaced by the second, and without names of types."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    for name, kind in re.findall(r"^!(\w+) = (.*)$", text, re.M):
        text = re.sub(rf"!{name}\b(?! =)", kind, text)
    return re.sub(r"^!\w+ = .*\n", "", text, flags=re.M)


def hoisted(*changes: tuple[str, str]) -> tuple[bool, list[str]]:
    """Whether anything was moved, and what the module has in order."""
    module = parse_module(text_of(LOOP, *changes))
    moved = hoist_tensor_memory(module)
    verify(module)
    canonicalize(module)
    return moved, re.findall(
        r"scf\.for|scf\.if|scf\.yield|tmem_\w+|tc_gen5_mma|arith\.addf|(?<=tt.print \")\w+", print_op(module)
    )


def test_sum_stays_in_memory() -> None:
    moved, ops = hoisted(("YIELDED", "%d"))
    assert moved
    assert ops == ["tmem_alloc", "tmem_store", "scf.for", "tc_gen5_mma", "scf.yield", "tmem_load"]


@pytest.mark.parametrize("yielded", ["%c", "%start"])
def test_other_sums_are_left_alone(yielded: str) -> None:
    assert not hoisted(("YIELDED", yielded))[0]


CHANGED = [("alloc %c", "alloc %e"), ("      %m, %t", "      %e = arith.addf %c, %start : !sums\n      %m, %t")]


def test_a_sum_that_is_changed_is_taken_out_where_the_step_begins() -> None:
    moved, ops = hoisted(("YIELDED", "%d"), *CHANGED)
    assert moved
    step = ["tmem_load", "arith.addf", "tmem_store", "tc_gen5_mma", "scf.yield"]
    assert ops == ["tmem_alloc", "tmem_store", "scf.for", *step, "tmem_load"]


def test_a_sum_that_is_used_behind_its_product_is_taken_out_before_it_changes() -> None:
    used = ("      scf.yield YIELDED", "      %e = arith.addf %c, %c : !sums\n      scf.yield %d")
    module = parse_module(text_of(LOOP, used, ("alloc %c", "alloc %start")))
    assert hoist_tensor_memory(module)
    verify(module)
    ops = re.findall(r"scf\.for|scf\.yield|tmem_\w+|tc_gen5_mma|arith\.addf", print_op(module))
    assert ops[3:6] == ["tmem_load", "tmem_store", "tc_gen5_mma"]


USED = ("scf.yield YIELDED", "%e = arith.addf %d, %d : !sums\n      scf.yield %e")


def test_a_sum_that_is_changed_behind_its_product_is_put_back_where_the_step_ends() -> None:
    moved, ops = hoisted(USED)
    assert moved
    step = ["tc_gen5_mma", "tmem_load", "arith.addf", "tmem_store", "scf.yield"]
    assert ops == ["tmem_alloc", "tmem_store", "scf.for", *step, "tmem_load"]


PRINT = 'tt.print "read" {hex = false, isSigned = array<i32: 1>} : %d : !sums'
OTHER = PRINT.replace("read", "other").replace("%d : !sums", "%n : i32")
INSIDE = f"scf.for %j = %zero to %n step %one : i32 {{\n {PRINT}\n }}"
READ = (
    ("%n: i32)", "%n: i32, %p: i1, %q: i1)"),
    ("      scf.yield YIELDED", f"      scf.if %p {{\n {PRINT}\n }}\n      scf.yield %d"),
)


def test_a_branch_that_reads_a_sum_loads_it_itself() -> None:
    moved, ops = hoisted(*READ)
    assert moved
    step = ["tc_gen5_mma", "scf.if", "tmem_load", "read", "scf.yield"]
    assert ops == ["tmem_alloc", "tmem_store", "scf.for", *step, "tmem_load"]


def test_an_arm_that_does_not_read_the_sum_does_not_load_it() -> None:
    moved, ops = hoisted(*READ, (f"{PRINT}\n }}", f"{PRINT}\n }} else {{\n {OTHER}\n }}"))
    assert moved
    assert ops.count("tmem_load") == 2
    assert ops.index("tmem_load") < ops.index("other")


def test_a_branch_inside_a_branch_loads_the_sum_itself() -> None:
    moved, ops = hoisted(*READ, (PRINT, f"scf.if %q {{\n {OTHER}\n }} else {{\n {PRINT}\n }}"))
    assert moved
    assert ops[ops.index("other") : ops.index("read")] == ["other", "tmem_load"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("reader", "yielded"),
    [(PRINT, "%d"), (f"scf.if %p {{\n {PRINT}\n }}", "%d, %d"), (INSIDE, "%d")],
    ids=["every step reads it", "it is handed on twice", "a loop inside reads it"],
)
def test_sums_with_other_readers_are_left_alone(reader: str, yielded: str) -> None:
    text = text_of(
        LOOP, ("%n: i32)", "%n: i32, %p: i1)"), ("      scf.yield YIELDED", f"{reader}\n scf.yield {yielded}")
    )
    if yielded != "%d":
        text = text.replace("(%c = %start) -> (", "(%c = %start, %o = %start) -> (tensor<128x64xf32, #sums>, ")
        text = re.sub(r"(scf.yield %d, %d : )", r"\1tensor<128x64xf32, #sums>, ", text)
        text = text.replace("%sum = scf.for", "%sum:2 = scf.for").replace("return %sum ", "return %sum#0 ")
    assert not hoist_tensor_memory(parse_module(text))


FLAG = (
    ("%true = arith.constant true", "%true = arith.constant true\n    %false = arith.constant false"),
    ("%sum = scf.for", "%sum:2 = scf.for"),
    ("(%c = %start) -> (!sums)", "(%c = %start, %f = %false) -> (!sums, i1)"),
    ("%m[%t], %true, %true", "%m[%t], %f, %true"),
    ("scf.yield YIELDED : !sums", "scf.yield %d, %true : !sums, i1"),
)
TOLD = "%r = arith.select %sum#1, %sum#0, %start : !sums\n    tt.return %r "


@pytest.mark.parametrize(
    ("change", "stored"),
    [
        pytest.param(("return %sum ", "return %sum#0 "), 1, id="the loop may have no step"),
        pytest.param(("tt.return %sum ", TOLD), 0, id="where it has none, another value is taken"),
        pytest.param(
            ("tt.return %sum ", TOLD.replace("%sum#0, %start", "%start, %sum#0")), 1, id="the other way round"
        ),
        pytest.param(("tt.return %sum ", TOLD.replace("%sum#1, ", "%true, ")), 1, id="by another flag"),
        pytest.param(("tt.return %sum ", "tt.return %start "), 0, id="nobody reads the result"),
    ],
)
def test_a_sum_that_the_first_product_overwrites_needs_no_contents(change: tuple[str, str], stored: int) -> None:
    moved, ops = hoisted(*FLAG, change)
    assert moved
    assert ops.count("tmem_store") == stored


def test_a_first_product_that_adds_needs_the_contents() -> None:
    adding = (("%f = %false", "%f = %true"), ("return %sum ", "return %start "))
    assert hoisted(*FLAG, *adding)[1].count("tmem_store") == 1


SECOND = (
    "      scf.yield YIELDED",
    "      %w = ttng.tc_gen5_mma %a, %b, %m[%v], %true, %true : !a, !b, !memory\n      scf.yield YIELDED",
)


NEEDED = ("scf.yield YIELDED", "%e = arith.addf %d, %c : !sums\n      scf.yield %e")


@pytest.mark.quick
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([SECOND, USED], id="product behind the load"),
        pytest.param([("YIELDED", "%start")], id="from outside of the loop"),
        pytest.param([NEEDED], id="needed behind the product"),
    ],
)
def test_a_sum_in_memory_that_is_no_longer_current_is_left_alone(changes: list[tuple[str, str]]) -> None:
    assert not hoist_tensor_memory(parse_module(text_of(LOOP, *changes)))


def test_a_buffer_that_goes_round_unchanged_is_the_one_from_before_the_loop() -> None:
    text = text_of(
        LOOP,
        ("%sum = scf.for", "%o, %s = ttng.tmem_alloc : () -> (!memory, !ttg.async.token)\n %sum:2 = scf.for"),
        ("(%c = %start) -> (!sums)", "(%c = %start, %r = %o) -> (!sums, !memory)"),
        ("      scf.yield YIELDED : !sums", "      scf.yield %c, %r : !sums, !memory"),
        ("return %sum ", "return %sum#0 "),
    )
    module = parse_module(text)
    assert hoist_tensor_memory(module)
    verify(module)
    assert "iter_args(%c = %start) -> (tensor" in print_op(module)
