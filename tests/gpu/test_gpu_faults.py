"""Faults for compute-sanitizer: that they are faults, how it is called, and what its output means."""

from __future__ import annotations

import sys
from typing import Any

import faults
import numpy as np
import pytest
from driver import Device
from faults import FAULTS, FOUND, command, observed, provoke, row_of, verdict
from simulator import Simulated

from tilewright import SimulationError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.lines])
def test_the_simulator_reports_it(name: str) -> None:
    with pytest.raises(SimulationError) as caught:
        provoke(name, Simulated(FAULTS[name].needs))
    assert caught.value.kind == FAULTS[name].kind


def test_with_its_fence_the_engine_turns_every_array_round() -> None:
    """Two programs, each in three rounds through the same memory; without the fence the simulator stops them."""
    gpu = Simulated(90)
    sizes = {"rounds": "3", "stride": str(3 * 256)}
    right = faults.text("missing fence", **sizes, fence=faults.RIGHT["fence"])
    assert faults.wrong_elements(faults.launch("missing fence", 2), right, gpu, 2 * 3 * faults.N) == 0
    with pytest.raises(SimulationError, match=r"no fence\.proxy\.async"):
        observed("missing fence", gpu, programs=2, rounds=3)


class Hardware:
    """Gets so many elements wrong in each launch."""

    capability = 90

    def __init__(self, *wrong: int) -> None:
        self.wrong = list(wrong)

    def repeat(self, launch: Any, code: bytes, memory: Any) -> Any:
        assert (b"fence.proxy.async" in code) == (len(self.wrong) == 2), "first with the fence, then without"
        result = memory[0].view(np.int32).reshape(-1, faults.N)[:, ::-1].reshape(-1).copy()
        result[: self.wrong.pop(0)] = -1
        return [result.view(np.uint8)]


def test_a_fault_that_only_shows_in_results() -> None:
    row = observed("missing fence", Hardware(0, 7))
    assert row == {"good": True, "report": "no tool looks for it; 7 of 4194304 elements wrong, 0 without it"}
    assert observed("missing fence", Hardware(0, 0))["good"], "hardware may get it right by chance"
    assert not observed("missing fence", Hardware(1, 7))["good"]
    older = Hardware(0, 0)
    older.capability = 89
    assert observed("missing fence", older) == {"skipped": "capability 89 has no such fault, 90 has"}


def test_without_a_fault_the_kernel_is_right() -> None:
    assert provoke("none", Simulated(80)) == 0


def test_the_driver_gets_the_kernel(fake: Any) -> None:
    fake.expect(8, 8, 8)
    assert provoke("none", Device()) == faults.N, "the fake computes nothing"
    (launch,) = fake.launches()
    assert (launch.grid, launch.block) == ((1, 1, 1), (64, 1, 1))


def test_the_command() -> None:
    assert command("missing barrier", "/bin/cs") == [
        *("/bin/cs", "--tool", "racecheck", "--error-exitcode", "86"),
        *(sys.executable, faults.__file__, "--launch", "missing barrier"),
    ]


RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reversed+0x90
=========     and Read access at reversed+0xc0 [256 hazards]
=========
0 elements are wrong
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
BOUNDS = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at reversed+0xd0
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 64 errors
"""
CLEAN = """========= COMPUTE-SANITIZER
0 elements are wrong
========= ERROR SUMMARY: 0 errors
"""
OTHER = BOUNDS.replace("write of size 4", "read of size 8")


@pytest.mark.parametrize(
    ("name", "status", "printed", "good", "report"),
    [
        ("missing barrier", FOUND, RACE, True, "1 hazard displayed (1 error, 0 warnings)"),
        ("out of bounds", FOUND, BOUNDS, True, "64 errors"),
        ("out of bounds", FOUND, OTHER, False, "64 errors"),
        ("out of bounds", 0, CLEAN, False, "0 errors"),
        (
            "missing barrier",
            0,
            RACE.replace("1 hazard", "0 hazards"),
            False,
            "0 hazards displayed (1 error, 0 warnings)",
        ),
        ("none", 0, CLEAN, True, "0 errors"),
        ("none", FOUND, BOUNDS, False, "64 errors"),
    ],
)
def test_what_it_printed(name: str, status: int, printed: str, good: bool, report: str) -> None:
    assert verdict(name, status, printed) == {"good": good, "tool": FAULTS[name].tool, "report": report}


def test_it_may_fail_itself() -> None:
    row = verdict("out of bounds", 255, "Error: no device\n")
    assert row == {"good": False, "problem": "compute-sanitizer ended with status 255: Error: no device"}


def test_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.shutil.which", lambda name: None)
    assert row_of("out of bounds") == {"skipped": "compute-sanitizer is not installed"}


def test_it_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A stand-in that prints what was stored."""
    program = tmp_path / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{BOUNDS}END\nexit {FOUND}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert row_of("out of bounds") == {"good": True, "tool": "memcheck", "report": "64 errors"}
    assert not row_of("missing barrier")["good"]
