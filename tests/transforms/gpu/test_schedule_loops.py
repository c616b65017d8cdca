"""Schedules of loops: which stage and which cluster an op gets."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.pipelining.schedule import Schedule
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops

assert tilewright.dialects.__all__

HEAD = """
#row = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
!pointers = tensor<512x!tt.ptr<f32>, #row>
!tile = tensor<512xf32, #row>
!offsets = tensor<512xi32, #row>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%n: i32, %one: i32, %step: !offsets, %p0: !pointers, %other: !pointers, %x0: !tile, %b: i1) {
"""


def scheduled(body: str) -> tuple[Op, dict[str, tuple[int, int]]]:
    """The module, and stage and cluster per op name of the loop's body."""
    module = parse_module(
        f"""{HEAD}
        %r:2 = scf.for %i = %one to %n step %one iter_args(%sum = %x0, %p = %p0) -> (!tile, !pointers) : i32 {{
          {body}
        }}
        tt.return
        }}
        }}"""
    )
    verify(module)
    schedule_loops(module)
    verify(module)
    return module, {op.name: slot_of(op) for op in loop_of(module).regions[0].block if "loop.stage" in op.attributes}


def loop_of(module: Op) -> Op:
    return next(op for op in module.walk() if op.name == "scf.for")


def slot_of(op: Op) -> tuple[int, int]:
    stage, cluster = op.attributes["loop.stage"], op.attributes["loop.cluster"]
    assert isinstance(stage, Number)
    assert isinstance(cluster, Number)
    return int(stage.value), int(cluster.value)


LOAD = "%x = tt.load %p {tt.latency = 2 : i32} : !pointers"
NEXT = "%q = tt.addptr %p, %step : !pointers, !offsets\nscf.yield %y, %q : !tile, !pointers"


def test_users_come_as_many_stages_later_as_the_latency_says() -> None:
    module, slots = scheduled(f"{LOAD}\n%y = arith.addf %sum, %x : !tile\n{NEXT}")
    assert slots == {"tt.load": (0, 3), "arith.addf": (2, 0), "tt.addptr": (1, 2)}
    assert loop_of(module).attributes["tt.scheduled_max_stage"] == Number(2, loop_of(module).operands[0].type)


def test_what_a_load_needs_is_in_its_stage() -> None:
    body = f"%p2 = tt.addptr %p0, %step : !pointers, !offsets\n{LOAD.replace('%p ', '%p2 ')}"
    _, slots = scheduled(f"{body}\n%y = arith.addf %sum, %x : !tile\nscf.yield %y, %p : !tile, !pointers")
    assert slots == {}, "a value that is carried over more than a step stays"
    _, slots = scheduled(f"{body}\n%y = arith.addf %sum, %x : !tile\nscf.yield %y, %p2 : !tile, !pointers")
    assert slots["tt.addptr"] == slots["tt.load"]


def test_branches_go_to_the_ends() -> None:
    branch = "%c = scf.if %b -> i32 { scf.yield %i : i32 } else { scf.yield %one : i32 }"
    use = "%s = tt.splat %c : i32 -> !offsets\n%p2 = tt.addptr %p, %s : !pointers, !offsets"
    body = f"{branch}\n{use}\n{LOAD.replace('%p ', '%p2 ')}\n%y = arith.addf %sum, %x : !tile\n{NEXT}"
    _, slots = scheduled(body)
    assert slots["scf.if"] == (0, 0)
    body = f"{LOAD}\n%y = arith.addf %sum, %x : !tile\nscf.if %b {{ tt.store %other, %y : !pointers }}\n{NEXT}"
    _, slots = scheduled(body)
    stage, cluster = slots["scf.if"]
    assert stage == 2
    assert cluster == max(cluster for _, cluster in slots.values())


def test_loads_and_stores_of_one_pointer_stay() -> None:
    _, slots = scheduled(f"{LOAD}\n%y = arith.addf %sum, %x : !tile\ntt.store %p, %y : !pointers\n{NEXT}")
    assert slots == {}


@pytest.mark.parametrize("barrier", ["ttg.barrier local", 'tt.print ": " {hex = false, isSigned = array<i32>}'])
def test_loops_with_barriers_stay(barrier: str) -> None:
    _, slots = scheduled(f"{LOAD}\n{barrier}\n%y = arith.addf %sum, %x : !tile\n{NEXT}")
    assert slots == {}


def test_schedules_are_text() -> None:
    module, _ = scheduled(f"{LOAD}\n%y = arith.addf %sum, %x : !tile\n{NEXT}")
    loop = loop_of(module)
    before = {op: dict(op.attributes) for op in module.walk()}
    schedule = Schedule.read(loop)
    assert schedule is not None
    assert [op.name for op, _ in schedule.in_order(loop)] == ["arith.addf", "tt.addptr", "tt.load"]
    schedule.write(loop)
    assert {op: dict(op.attributes) for op in module.walk()} == before


@pytest.mark.parametrize("is_shared", [False, True])
def test_stages_of_a_loop_that_groups_of_warps_share_go_if_nothing_needs_them(is_shared: bool) -> None:
    """One load alone is asynchronous; another loop without latencies keeps what somebody said of it."""
    module, slots = scheduled(f"{LOAD}\n%y = arith.addf %sum, %x : !tile\n{NEXT}")
    loop = loop_of(module)
    loop.attributes = {**loop.attributes, **({"tt.warp_specialize": UNIT} if is_shared else {})}
    assert schedule_loops(module) == is_shared
    found = {op.name: slot_of(op) for op in loop.regions[0].block if "loop.stage" in op.attributes}
    assert found == (dict.fromkeys(slots, (0, 0)) if is_shared else slots)
