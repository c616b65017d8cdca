"""`tests/conformance/run.py` on a checkout with one test file of our own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

RUNNER = Path(__file__).parents[1] / "conformance" / "run.py"

TESTS = """
import os
import pytest
import triton

def test_passes(device):
    assert device == "cpu" and "tilewright" in triton.__file__

@pytest.mark.parametrize("n", [1, 2])
def test_fails(n):
    assert n == 3, "not three"

def test_crashes():
    os._exit(7)

@pytest.mark.skip(reason="why")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert False
"""
CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--device")

@pytest.fixture
def device(request):
    return request.config.getoption("--device")
"""


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_runner", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_outcomes_survive_a_crash(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "unit" / "test_own.py").write_text(TESTS)

    found = list(runner.outcomes(tmp_path, "test_own.py", 100, runner.Choice("", 1)))

    assert {test.name: test.outcome for test in found} == {
        "test_passes": "passed",
        "test_fails[1]": "failed",
        "test_fails[2]": "failed",
        "test_crashes": "failed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
    }
    sample = list(runner.outcomes(tmp_path, "test_own.py", 100, runner.Choice("not crashes", 2)))
    assert [test.name for test in sample] == ["test_passes", "test_fails[2]", "test_expected"]


def test_page_has_numbers_and_reasons(runner: ModuleType) -> None:
    failed = [runner.Outcome(f"test_a[{n}]", "failed", "AssertionError: words\nmore", True) for n in (1, 2)]
    odd = runner.Outcome("test_b", "failed", "odd | thing")
    passed = [runner.Outcome(f"test_c[{n}]", "passed", "", True) for n in range(6)]
    found = {("new", "x.py"): runner.Run([*failed, odd, *passed], 2.4), ("old", "x.py"): runner.Run([odd], 1.0)}
    found["new", "x.py on sm_90"] = runner.Run(passed, 1.0)
    plan = {
        "introduction": "Results.",
        "trees": {"new": "abc", "old": "def"},
        "every": {"x.py": 8},
        "reasons": {"*: *words*": "other words"},
        "left_out": {"y.py": "needs a GPU"},
    }

    lines = runner.page(found, plan).splitlines()

    assert lines[4] == "## new (abc)"
    assert "| x.py, one case in 8 | 6 | 3 | 0 | 0 | 2 |" in lines
    assert "| x.py on sm_90 | 6 | 0 | 0 | 0 | 1 |" in lines
    assert "| all on the CPU | 6 | 3 | 0 | 0 | 2 |" in lines
    assert "| those with the mark `interpreter` | 6 | 2 | 0 | 0 |  |" in lines
    assert "Of the tests with the mark `interpreter` that were not skipped, 75.00 % pass." in lines
    assert "| x.py::test_a | 2 | 0 | other words |" in lines
    assert "| x.py::test_b | 1 | 1 | not explained yet: odd \\| thing |" in lines
    assert lines[-1] == "| y.py | needs a GPU |"


def test_kept_results_come_back(runner: ModuleType, tmp_path: Path) -> None:
    found = {("new", "x.py"): runner.Run([runner.Outcome("test_a", "failed", "why", True)], 2.5)}

    runner.keep_results(tmp_path / "kept.json", found)

    assert runner.kept_results(tmp_path / "kept.json") == found
    assert runner.kept_results(tmp_path / "none.json") == {}


def test_other_parts_of_the_page_stay(runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Triton's own tests\n\nold\n\n# Triton's tutorials\n\nT\n\n# Triton's lit tests\n\nL\n")
    monkeypatch.setattr(runner, "PAGE", page)

    runner.write_part("# Triton's own tests\n\nnew\n")

    assert page.read_text() == "# Triton's own tests\n\nnew\n\n# Triton's tutorials\n\nT\n\n# Triton's lit tests\n\nL\n"
