"""The language in a bundle: the conformance sample, and the launches of the language's tests."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import conformance_sample
import pytest
import recorded_tests
import sample_kernels
from bundle import TESTS, build, tasks
from conformance_sample import SAMPLE
from launches import difference
from parts import measured
from recorded_tests import FILES, Recorder, reason_of, recorded_file
from recording import recorded
from repeated_programs import PROGRAMS, ROOT
from simulator import Simulated

import tilewright as tw

QUICK = ("core.atomic_max_fp32", "tuple.pairs", "core.sum_of_axis_0_i8", "block_pointer.advance")
EVERY = 9
"""The step with which these tests run the other launches; `make gpu-bundle` runs all."""


def check_on_cpu(name: str, capability: int, folder: Path) -> None:
    """The simulator's result is the CPU's."""
    with recorded(capability, folder, name, "conformance") as launches:
        SAMPLE[name]()
    (launch,) = launches
    assert launch.has_cpu
    before, simulated, on_cpu = (launch.memory(folder, state) for state in ("before", "simulated", "cpu"))
    for found, expected, (element, _) in zip(simulated, on_cpu, launch.pieces, strict=True):
        assert difference(found, expected, element) <= 1, name
    assert any((found != old).any() for found, old in zip(simulated, before, strict=True)), "something is written"


@pytest.mark.parametrize("name", QUICK)
def test_the_sample_is_the_same_on_the_cpu(name: str, tmp_path: Path) -> None:
    check_on_cpu(name, 90, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("start", "capability"), [(0, 80), (4, 90)])
def test_more_of_the_sample_is_the_same_on_the_cpu(start: int, capability: int, tmp_path: Path) -> None:
    for name in [name for name in SAMPLE if name not in QUICK][start::EVERY]:
        check_on_cpu(name, capability, tmp_path)


TEXTS = {"annotations", "compile_errors", "compile_only", "decorator", "frontend", "line_info", "subprocess"}
"""Files of the conformance page about texts and errors, not about arrays."""


def test_subjects_of_the_sample() -> None:
    """The files of the conformance page that launch kernels and compare arrays."""
    plan = tomllib.loads((ROOT / "tests" / "conformance" / "reasons.toml").read_text())
    names = [name for name in plan["files"] if name.startswith("language/") and " on " not in name]
    files = {Path(name).stem.removeprefix("test_") for name in names}
    assert files >= TEXTS
    assert {name.partition(".")[0] for name in SAMPLE} == files - TEXTS
    assert PROGRAMS["conformance"] is SAMPLE
    assert len(SAMPLE) > 200


def test_every_kernel_of_the_sample_is_launched() -> None:
    text = Path(conformance_sample.__file__).read_text()
    named = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    helpers = {"affine", "exchanged", "largest_size", "outlined"}
    kernels = {name for name, value in vars(sample_kernels).items() if isinstance(value, tw.JITFunction)}
    assert kernels - helpers == kernels & named


def test_every_kernel_of_the_examples_is_launched() -> None:
    """By functions that programs call: who launches a kernel is called in the list of programs."""
    text = (ROOT / "bench" / "gpu" / "repeated_programs.py").read_text()
    files = [file for file in (ROOT / "examples").glob("*.py") if file.stem not in ("arrays", "demo")]
    for file in files:
        functions = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
        launchers = {node.name for node in functions if re.search(r"\w+_kernel\[", ast.unparse(node))}
        assert launchers, file.stem
        assert not {name for name in launchers if not re.search(rf"\b{name}\(", text)}


def test_files_of_tests() -> None:
    assert all(path.exists() for path in FILES.values())
    assert {"lowering_memory", "lowering_dots", "language_numerics"} <= FILES.keys()
    chosen = [task for task in tasks(Path(), (80, 86, 90), "") if task.kind == TESTS]
    assert {task.capability for task in chosen} == {80, 90}
    assert {task.name for task in chosen} == FILES.keys()


@pytest.mark.slow
def test_launches_of_tests(tmp_path: Path) -> None:
    """They are recorded, and repeated; the simulator gives again what it gave."""
    found = build(tmp_path, (90,), only="^pointer_offsets$", keeps_ptx=True)
    names = [launch.name for launch in found.launches]
    assert names[0] == "pointer_offsets.offsets_have_the_sign_of_their_type_bool_0_90"
    assert found.left_out == []

    class Again(Simulated):
        def repeat(self, launch: Any, code: bytes, memory: Any) -> Any:
            return super().repeat(launch, launch.stored(tmp_path, "ptx").tobytes(), memory)

    for part in ("right", "agrees"):
        rows = measured(part, Again(90), tmp_path)["rows"]
        assert [row["name"] for row in rows] == names
        assert all(row["good"] and row["kind"] == TESTS for row in rows)


def test_tests_that_end_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recorded_tests.sys, "executable", "/bin/false")
    launches, reasons = recorded_file("lowering_calls", 90, tmp_path)
    assert launches == []
    assert reasons == {"lowering_calls_90": "the tests ended with status 1: "}


def report(outcome: str, longrepr: Any) -> Any:
    return SimpleNamespace(outcome=outcome, skipped=outcome == "skipped", longrepr=longrepr, nodeid="a.py::test_b[x-1]")


def test_reasons(tmp_path: Path) -> None:
    recorder = Recorder("a", 90, tmp_path)
    recorder.pytest_runtest_logreport(report("passed", None))
    recorder.pytest_runtest_logreport(report("skipped", ("a.py", 3, "Skipped: only a CPU promises it")))
    assert recorder.left_out == {"a.b_x_1_90": "only a CPU promises it"}
    crash = SimpleNamespace(reprcrash=SimpleNamespace(message="AssertionError: 1\nassert 2"))
    assert reason_of(report("failed", crash)) == "the test fails on a simulated GPU: AssertionError: 1"


def test_names_of_tests_differ(tmp_path: Path) -> None:
    recorder = Recorder("a", 90, tmp_path)
    names = [recorder._name(node) for node in ("f.py::test_b[1]", "f.py::test_b[-1]", "f.py::test_b[1]")]
    assert names == ["a.b_1", "a.b_1_2", "a.b_1"]
