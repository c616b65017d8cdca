"""Shared memory: where buffers lie, and the barriers between accesses to the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects
from tilewright.analysis.shared_memory import SharedBuffer, allocate
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import i32
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.allocate_memory import allocate_shared_memory
from tilewright.transforms.gpu.membar import membar

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
"""
TILE = "tensor<32x32xf16, #blocked>"
BUFFER = "!ttg.memdesc<32x32xf16, #shared, #smem, mutable>"
NEW = f"ttg.local_alloc : () -> {BUFFER}"
LOADED = f"{BUFFER} -> {TILE}"


def parse(body: str, signature: str = "") -> Op:
    arguments = ", ".join(filter(None, (f"%x: {TILE}", signature)))
    module = parse_module(f"{HEAD}tt.func public @f({arguments}) {{\n{body}\ntt.return\n}}\n}}")
    verify(module)
    return module


def buffers_of(body: str) -> list[SharedBuffer]:
    (allocation,) = allocate(parse(body)).values()
    return allocation.buffers


def shape_of(module: Op) -> list[str]:
    """The ops on shared memory, in order."""
    return [op.name.removeprefix("ttg.") for op in module.walk() if op.name.startswith("ttg.")]


LOOP = f"""
%lb = arith.constant 0 : index
%ub = arith.constant 8 : index
%st = arith.constant 1 : index
%a = {NEW}
scf.for %i = %lb to %ub step %st {{
  ttg.local_store %x, %a : {TILE} -> {BUFFER}
  %y = ttg.local_load %a : {LOADED}
}}
"""


def test_a_loop_that_reuses_a_buffer_needs_two_barriers(golden: Callable[[str, str], None]) -> None:
    module = parse(LOOP)
    assert membar(module)
    allocate_shared_memory(module)
    verify(module)
    golden(print_op(module), "transforms/membar/loop.ttgir")
    assert not membar(module), "barriers that are there suffice"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            f"%a = {NEW}\nttg.local_store %x, %a : {TILE} -> {BUFFER}\n%y = ttg.local_load %a : {LOADED}",
            ["local_alloc", "local_store", "barrier", "local_load"],
            id="read after write",
        ),
        pytest.param(
            f"%a = {NEW}\n%y = ttg.local_load %a : {LOADED}\nttg.local_store %x, %a : {TILE} -> {BUFFER}",
            ["local_alloc", "local_load", "barrier", "local_store"],
            id="write after read",
        ),
        pytest.param(
            f"%a = {NEW}\n%y = ttg.local_load %a : {LOADED}\n%z = ttg.local_load %a : {LOADED}",
            ["local_alloc", "local_load", "local_load"],
            id="read after read",
        ),
        pytest.param(
            f"%a = {NEW}\nttg.local_store %x, %a : {TILE} -> {BUFFER}\nttg.barrier local\n"
            f"%y = ttg.local_load %a : {LOADED}",
            ["local_alloc", "local_store", "barrier", "local_load"],
            id="a barrier that is there already",
        ),
        pytest.param(
            f"%a = {NEW}\nttg.local_store %x, %a : {TILE} -> {BUFFER}\nttg.barrier global_read\n"
            f"%y = ttg.local_load %a : {LOADED}",
            ["local_alloc", "local_store", "barrier", "barrier", "local_load"],
            id="a barrier for other memory does not count",
        ),
        pytest.param(
            f"%a = {NEW}\n%b = {NEW}\nttg.local_store %x, %a : {TILE} -> {BUFFER}\n%y = ttg.local_load %b : {LOADED}\n"
            f"%z = ttg.local_load %a : {LOADED}",
            ["local_alloc", "local_alloc", "local_store", "local_load", "barrier", "local_load"],
            id="buffers alive together are apart",
        ),
        pytest.param(
            f"%a = {NEW}\n%y = ttg.local_load %a : {LOADED}\n%b = {NEW}\nttg.local_store %x, %b : {TILE} -> {BUFFER}",
            ["local_alloc", "local_load", "local_alloc", "barrier", "local_store"],
            id="a later buffer in the same bytes",
        ),
        pytest.param(
            "ttg.async_wait {num = 0 : i32}",
            ["async_wait", "barrier"],
            id="after waiting for copies",
        ),
    ],
)
def test_barriers_of_straight_line_code(body: str, expected: list[str]) -> None:
    module = parse(body)
    membar(module)
    verify(module)
    assert shape_of(module) == expected


def test_a_barrier_in_one_arm_does_not_count_behind_both() -> None:
    body = f"""
    %a = {NEW}
    ttg.local_store %x, %a : {TILE} -> {BUFFER}
    scf.if %c {{
      %y = ttg.local_load %a : {LOADED}
    }}
    %z = ttg.local_load %a : {LOADED}
    """
    module = parse(body, "%c: i1")
    membar(module)
    assert shape_of(module) == ["local_alloc", "local_store", "barrier", "local_load", "barrier", "local_load"]


def test_parts_of_a_buffer_that_do_not_meet_need_no_barrier() -> None:
    part = "!ttg.memdesc<16x32xf16, #shared, #smem, mutable, 32x32>"
    half = "tensor<16x32xf16, #blocked>"
    body = f"""
    %a = {NEW}
    %low = ttg.memdesc_subslice %a[0, 0] : {BUFFER} -> {part}
    %high = ttg.memdesc_subslice %a[16, 0] : {BUFFER} -> {part}
    ttg.local_store %h, %low : {half} -> {part}
    %y = ttg.local_load %high : {part} -> {half}
    %z = ttg.local_load %low : {part} -> {half}
    """
    module = parse(body, f"%h: {half}")
    membar(module)
    names = shape_of(module)
    assert names[-3:] == ["local_load", "barrier", "local_load"]
    assert names.count("barrier") == 1


def test_what_a_loop_carries_lives_as_long_as_the_loop() -> None:
    body = f"""
    %lb = arith.constant 0 : index
    %a = {NEW}
    %b = {NEW}
    %r:2 = scf.for %i = %lb to %lb step %lb iter_args(%p = %a, %q = %b) -> ({BUFFER}, {BUFFER}) {{
      %c = {NEW}
      ttg.local_store %x, %c : {TILE} -> {BUFFER}
      scf.yield %q, %p : {BUFFER}, {BUFFER}
    }}
    %y = ttg.local_load %r#0 : {LOADED}
    """
    buffers = buffers_of(body)
    assert sorted(buffer.offset for buffer in buffers) == [0, 2048, 4096]


def scratch_of(body: str) -> list[int]:
    return [buffer.size for buffer in buffers_of(body) if buffer.kind == "scratch"]


def test_scratch_memory_is_what_warps_have_to_tell_each_other() -> None:
    combine = "({\n^bb0(%p: f16, %q: f16):\n%s = arith.addf %p, %q : f16\ntt.reduce.return %s : f16\n})"
    row = "tensor<32xf16, #ttg.slice<{dim = 1, parent = #blocked}>>"
    column = "tensor<32xf16, #ttg.slice<{dim = 0, parent = #blocked}>>"
    over_columns = f'%r = "tt.reduce"(%x) {combine} {{axis = 1 : i32}} : ({TILE}) -> {row}'
    over_rows = f'%r = "tt.reduce"(%x) {combine} {{axis = 0 : i32}} : ({TILE}) -> {column}'
    assert scratch_of(over_columns) == [], "each row lies in one warp"
    assert scratch_of(over_rows) == [4 * 32 * 2], "each of 4 warps has a part of each of 32 columns"
    assert scratch_of(f"%r = ttg.convert_layout %x : {TILE} -> {TILE}") == []


def test_scratch_memory_of_an_atomic_has_a_place_for_each_element() -> None:
    row = "#ttg.slice<{dim = 1, parent = #blocked}>"
    pointers, numbers, mask = (f"tensor<32x{element}, {row}>" for element in ("!tt.ptr<i32>", "i32", "i1"))
    body = f"""
    %ones = arith.constant dense<1> : {numbers}
    %all = arith.constant dense<true> : {mask}
    %to = tt.splat %p : !tt.ptr<i32> -> {pointers}
    %old = tt.atomic_rmw add, acq_rel, gpu, %to, %ones, %all : ({pointers}, {numbers}, {mask}) -> {numbers}
    """
    for use, sizes in (("", []), (f"tt.store %to, %old : {pointers}", [32 * 4])):
        (allocation,) = allocate(parse(body + use, "%p: !tt.ptr<i32>")).values()
        assert [buffer.size for buffer in allocation.buffers] == sizes, "several lanes have the same row"


def test_a_loop_behind_a_jump_keeps_what_it_reads() -> None:
    """The buffer is read in every round, also after the round before has filled another one."""
    body = f"""
    %lb = arith.constant 0 : index
    %ub = arith.constant 8 : index
    %a = ttg.local_alloc %x : ({TILE}) -> {BUFFER}
    cf.cond_br %c, ^bb1, ^bb2
    ^bb1:
    scf.for %i = %lb to %ub step %ub {{
      %y = ttg.local_load %a : {LOADED}
      %b = ttg.local_alloc %y : ({TILE}) -> {BUFFER}
      %z = ttg.local_load %b : {LOADED}
    }}
    cf.br ^bb2
    ^bb2:"""
    (allocation,) = allocate(parse(body, "%c: i1")).values()
    assert [buffer.offset for buffer in allocation.buffers] == [0, 2048]


FILLS_AND_CALLS = f"""
tt.func private @{{name}}(%x: {TILE}) {{{{
  %a = ttg.local_alloc %x : ({TILE}) -> {BUFFER}
  %y = ttg.local_load %a : {LOADED}
  {{call}}
  tt.return
}}}}
"""


def functions(*calls: tuple[str, str]) -> str:
    """Functions that fill a buffer, read it, and do what is said then."""
    return HEAD + "".join(FILLS_AND_CALLS.format(name=name, call=call) for name, call in calls) + "}"


def test_a_call_waits_for_what_it_overwrites_before_its_own_first_barrier() -> None:
    module = parse_module(
        functions(("callee", "ttg.barrier local"), ("caller", f"tt.call @callee(%x) : ({TILE}) -> ()"))
    )
    membar(module)
    verify(module)
    caller = [op.name for op in module.regions[0].block.last.walk()]
    assert caller[-3:-1] == ["ttg.barrier", "tt.call"]


def test_functions_of_one_name_in_two_modules_have_their_own_memory() -> None:
    inner = functions(("f", "")).removeprefix(HEAD)
    other = functions(("f", "%more = " + NEW + f"\n%z = ttg.local_load %a : {LOADED}")).removeprefix(HEAD)
    module = parse_module(f"{HEAD}module {{ {inner} module {{ {other} }}")
    assert [allocation.size for allocation in allocate(module).values()] == [2048, 4096]
    allocate_shared_memory(module)
    assert module.attributes["ttg.shared"] == Number(4096, i32)


def test_a_function_that_calls_itself_ends() -> None:
    module = parse_module(functions(("f", f"tt.call @f(%x) : ({TILE}) -> ()")))
    membar(module)
    allocate_shared_memory(module)
    assert module.attributes["ttg.shared"] == Number(2048, i32)


@pytest.mark.parametrize(
    ("first", "second", "barriers"), [("%c0", "%c1", 0), ("%c0", "%c0", 1), ("%c0", "%n", 1), ("%n", "%n", 1)]
)
def test_stages_with_known_numbers_are_apart(first: str, second: str, barriers: int) -> None:
    stages = BUFFER.replace("32x32", "3x32x32", 1)
    body = f"""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %a = ttg.local_alloc : () -> {stages}
    %p = ttg.memdesc_index %a[{first}] : {stages} -> {BUFFER}
    %q = ttg.memdesc_index %a[{second}] : {stages} -> {BUFFER}
    ttg.local_store %x, %p : {TILE} -> {BUFFER}
    ttg.local_store %x, %q : {TILE} -> {BUFFER}
    """
    module = parse(body, "%n: i32")
    membar(module)
    assert shape_of(module).count("barrier") == barriers


@pytest.mark.parametrize(("between", "barriers"), [("", 1), ("ttng.tensormap_fenceproxy_acquire %m : !tt.ptr<i8>", 0)])
def test_who_has_acquired_a_tensor_map_has_waited(between: str, barriers: int) -> None:
    types = "(!tt.ptr<i8>, !tt.ptr<f16>, i32, i32, i32, i32, i64, i32, i32) -> ()"
    form = "elem_type = 6 : i32, fill_mode = 0 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32"
    create = f"ttng.tensormap_create %m, %p, [%n, %n], [%n, %n], [%w], [%n, %n] {{{form}}} : {types}"
    module = parse(f"{create}\n{between}\n{create}", "%m: !tt.ptr<i8>, %p: !tt.ptr<f16>, %n: i32, %w: i64")
    membar(module)
    assert shape_of(module).count("barrier") == barriers


@pytest.mark.parametrize(("wait", "barriers"), [("", 1), ("{pendings = 0 : i32}", 2)])
def test_a_barrier_does_not_settle_what_a_running_product_reads(wait: str, barriers: int) -> None:
    """The warps of a group have ended when each has waited: only a barrier behind the wait tells the others so."""
    mma = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
    shared = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>"
    buffer, total = f"!ttg.memdesc<64x64xf16, {shared}, #smem, mutable>", f"tensor<64x64xf32, {mma}>"
    tile = "tensor<64x64xf16, #blocked>"
    end = f"%e = ttng.warp_group_dot_wait %d {wait} : {total}" if wait else ""
    module = parse(
        f"""
    %a = ttg.local_alloc : () -> {buffer}
    %c = arith.constant dense<0.0> : {total}
    %d = ttng.warp_group_dot %a, %a, %c {{inputPrecision = 0 : i32, isAsync = true}} : {buffer} * {buffer} -> {total}
    ttg.barrier local
    {end}
    ttg.local_store %y, %a : {tile} -> {buffer}
    """,
        f"%y: {tile}",
    )
    membar(module)
    assert shape_of(module).count("barrier") == barriers


BARRIER = (
    "!ttg.memdesc<1xi64, #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>, #smem, mutable>"
)
ALL_WARPS, EACH_WARP = (f"ttng.arrive_barrier %empty, 4 {kind}: {BARRIER}" for kind in ("", "{perWarp} "))


@pytest.mark.parametrize(("answer", "barriers"), [("", 1), (ALL_WARPS, 0), (EACH_WARP, 0)])
def test_warps_meet_between_two_waits_unless_they_arrive_between(answer: str, barriers: int) -> None:
    assert barriers_of_a_loop(answer) == barriers


@pytest.mark.parametrize(("answer", "barriers"), [(ALL_WARPS, 1), (EACH_WARP, 2)])
def test_warps_that_arrive_one_by_one_do_not_wait_for_each_other(answer: str, barriers: int) -> None:
    tile = f"ttg.local_store %x, %a : {TILE} -> {BUFFER}", f"%y = ttg.local_load %a : {LOADED}"
    assert barriers_of_a_loop("\n".join((tile[0], answer, tile[1]))) == barriers


def barriers_of_a_loop(body: str) -> int:
    """How often all warps meet in a loop that waits for the barrier `%full` first."""
    made = "\n".join(f"%{name} = ttg.local_alloc : () -> {BARRIER}" for name in ("full", "empty"))
    limits = "%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32"
    loop = f"scf.for %i = %c0 to %n step %c1 : i32 {{\nttng.wait_barrier %full, %i : {BARRIER}\n{body}\n}}"
    module = parse(f"%a = {NEW}\n{made}\n{limits}\n{loop}", "%n: i32")
    membar(module)
    return shape_of(module).count("barrier")
