"""Launches that a bundle has with their memory: how they are written down, repeated and compared."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bundle import LARGEST, all_recorded, tasks
from driver import Device
from entries import read
from gpu_only import NEEDS, RUNS, SHOWS
from launches import Launch, difference
from parts import measured
from recording import is_exact, recorded
from repeated_programs import GENERATED, PROGRAMS, ROOT, WHOLE


def launch_named(bundle: Path, name: str) -> Launch:
    return next(launch for launch in read(bundle).launches if launch.name == name)


def test_memory_is_that_of_the_program(bundle: Path) -> None:
    launch = launch_named(bundle, "vector_add_0_90")
    before, on_cpu, simulated = (launch.memory(bundle, state) for state in ("before", "cpu", "simulated"))
    assert (launch.grid, [piece[0] for piece in launch.pieces]) == ([2, 1, 1], ["fp32"] * 3)
    assert launch.exact
    assert launch.has_cpu
    kinds = [parameter[0] for parameter in launch.parameters]
    assert kinds == ["memory"] * 3 + ["number"]
    assert launch.parameters[3][1] == struct.pack("<i", 2003).hex()
    x, y, out = (parameter[1] for parameter in launch.parameters[:3])
    sums = before[x].view(np.float32) + before[y].view(np.float32)
    for after in (on_cpu, simulated):
        np.testing.assert_array_equal(after[out].view(np.float32), sums)
        np.testing.assert_array_equal(after[x], before[x])
    assert (before[out].view(np.float32) != sums).any()


def test_a_wrong_result_is_seen(bundle: Path) -> None:
    class Wrong:
        capability, facts = 90, {"device": "wrong"}

        def repeat(self, launch: Launch, code: bytes, memory: Any) -> Any:
            return memory

    for part in ("right", "agrees"):
        rows = measured(part, Wrong(), bundle, only="vector_add|clusters|cooperative")["rows"]
        assert len(rows) == 3
        assert not any(row["good"] for row in rows)


def test_a_launch_on_the_driver(bundle: Path, fake: Any) -> None:
    """Every array lies where its parameter says, at its address modulo 256."""
    launch, device = launch_named(bundle, "vector_add_0_90"), Device()
    memory = launch.memory(bundle, "before")
    fake.expect(8, 8, 8, 4, 8, 8)
    results = device.repeat(launch, launch.code(bundle), memory)
    (seen,) = fake.launches()
    assert (seen.grid, seen.block, seen.attributes) == ((2, 1, 1), (128, 1, 1), {})
    for parameter, given in zip(launch.parameters[:3], seen.parameters, strict=False):
        assert int.from_bytes(given, "little") % 256 == launch.pieces[parameter[1]][1]
    assert seen.parameters[3] == struct.pack("<i", 2003)
    assert all((found == before).all() for found, before in zip(results, memory, strict=True))
    assert len(fake.calls("cuMemFree_v2")) == 3


def test_attributes_of_launches(bundle: Path, fake: Any) -> None:
    device = Device()
    for name, attributes in (("clusters", {4: (2, 1, 1)}), ("cooperative_launch", {2: (1, 0, 0)})):
        launch = launch_named(bundle, f"{name}_0_90")
        device.repeat(launch, launch.code(bundle), launch.memory(bundle, "before"))
        assert fake.launches()[-1].attributes == attributes
        assert fake.launches()[-1].grid == (launch.grid[0] * launch.ctas, 1, 1)
    dependent = launch._replace(cooperative=False, dependent=True)
    device.repeat(dependent, b"", launch.memory(bundle, "before"))
    assert fake.launches()[-1].attributes == {6: (1, 0, 0)}


def test_tensor_maps_are_made_by_the_driver(bundle: Path, fake: Any) -> None:
    launch, device = launch_named(bundle, "tensor_maps_0_90"), Device()
    device.repeat(launch, launch.code(bundle), launch.memory(bundle, "before"))
    maps = fake.calls("cuTensorMapEncodeTiled")
    assert len(maps) == 2
    assert {call[2:4] for call in maps} == {(6, 2)}, "fp16, two axes"


@pytest.mark.parametrize("name", SHOWS)
def test_the_code_is_what_the_program_is_about(name: str, tmp_path: Path) -> None:
    with recorded(90, tmp_path, name, "gpu_only") as launches:
        RUNS[name]()
    assert re.search(SHOWS[name], launches[0].stored(tmp_path, "ptx").tobytes().decode())


def test_every_example_is_there() -> None:
    there = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"arrays", "demo"}
    missing = {name for name in there if not any(program.startswith(name) for program in PROGRAMS["examples"])}
    assert missing == {"flash_attention"}, "whose programs are called attention"


def test_what_is_asked_of_which_architecture() -> None:
    few, many = tasks(Path(), (86,), ""), tasks(Path(), (80, 86, 90), "")
    assert sum(task.kind == "generated" for task in few) == GENERATED == 300
    assert {task.capability for task in many if task.kind == "generated"} == {80, 90}
    assert not [task for task in many if task.capability < NEEDS.get(task.name, 0)]
    names = {name for programs in PROGRAMS.values() for name in programs}
    assert names >= WHOLE


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("add.rn.f32 %f1, %f2, %f3;", True),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1}", True),
        ("atom.global.gpu.acq_rel.add.s32 %r1, [%rd1], 1;", True),
        ("ex2.approx.f32 %f1, %f2;", False),
        ("div.full.f32 %f1, %f2, %f3;", False),
        ("\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}", False),
        ("@%p1 wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}", False),
        ("@%p2 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [ %r2 ], 0;", True),
        ("@%p2 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [ %r2 ], 1;", False),
        ("red.global.gpu.relaxed.add.f32 [%rd1], %f1;", False),
    ],
)
def test_what_leaves_bits_to_the_hardware(text: str, exact: bool) -> None:
    assert is_exact(text) == exact


@pytest.mark.slow
def test_several_processes_record_the_same(tmp_path: Path) -> None:
    wanted = tasks(tmp_path, (80,), "^(early_return_17|merged_21|prefix_sum)$")
    assert len(wanted) == 3
    found = [all_recorded(wanted, jobs)[0] for jobs in (1, 2)]
    names = [[launch.name for launch in launches] for launches in found]
    assert names[0] == names[1] == ["prefix_sum_0_80", "early_return_17_0_80", "merged_21_0_80"]
    assert all(launch.file(tmp_path).exists() for launch in found[0])


@pytest.mark.parametrize("seed", [5, pytest.param(26, marks=pytest.mark.slow)])
def test_drawn_kernels_take_little_room(seed: int, tmp_path: Path) -> None:
    """300 of them for two architectures stay within a bundle's size.

    The CPU's result is the simulator's, but for a last bit of functions that round.
    """
    (task,) = tasks(tmp_path, (90,), f"^seed_{seed}$")
    ((launch,), _) = all_recorded([task], 1)
    size = launch.file(tmp_path).stat().st_size
    assert 2 * GENERATED * size < LARGEST
    states = (launch.memory(tmp_path, state) for state in ("simulated", "cpu"))
    for found, expected, (element, _) in zip(*states, launch.pieces, strict=True):
        assert difference(found, expected, element) < 0.01


def as_bytes(values: Any, dtype: Any) -> Any:
    return np.array(values, dtype).view(np.uint8)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("fp64", np.float64),
        ("fp32", np.float32),
        ("fp16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("fp8e4nv", ml_dtypes.float8_e4m3fn),
        ("fp8e5", ml_dtypes.float8_e5m2),
    ],
)
def test_floats_may_differ_a_little(element: str, dtype: Any) -> None:
    expected = as_bytes([1, -0.0, np.nan, 2], dtype)
    assert difference(as_bytes([1, 0.0, np.nan, 2], dtype), expected, element) == 0
    assert difference(as_bytes([3, 0.0, np.nan, 2], dtype), expected, element) > 1
    assert difference(as_bytes([1, 0.0, 5, 2], dtype), expected, element) == np.inf
    assert difference(as_bytes([np.nan, 0.0, np.nan, 2], dtype), expected, element) == np.inf
    near = 1 + float(ml_dtypes.finfo(dtype).eps)
    assert 0 < difference(as_bytes([near, 0.0, np.nan, 2], dtype), expected, element) < 1


def test_integers_may_not_differ() -> None:
    assert difference(as_bytes([1, 2], np.int32), as_bytes([1, 2], np.int32), "i32") == 0
    assert difference(as_bytes([1, 3], np.int32), as_bytes([1, 2], np.int32), "i32") == np.inf
