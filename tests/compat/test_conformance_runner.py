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
    failed = [runner.Outcome(f"test_a[{n}]", "failed", "AssertionError: words\nmore") for n in (1, 2)]
    found = {
        "x.py": [*failed, runner.Outcome("test_b", "failed", "odd | thing"), runner.Outcome("test_c", "passed", "")]
    }
    plan = {
        "introduction": "Results.",
        "every": {"x.py": 8},
        "reasons": {"*: *words*": "other words"},
        "left_out": {"y.py": "needs a GPU"},
        "tutorials": {"introduction": "By hand.", "01": "runs"},
    }

    lines = runner.page(found, plan).splitlines()

    assert "| x.py, one case in 8 | 1 | 3 | 0 | 0 |" in lines
    assert "| all | 1 | 3 | 0 | 0 |" in lines
    assert "| x.py::test_a | 2 | other words |" in lines
    assert "| x.py::test_b | 1 | not explained yet: odd \\| thing |" in lines
    assert "| y.py | needs a GPU |" in lines
    assert lines[-5:] == ["By hand.", "", "| tutorial | what happens |", "|---|---|", "| 01 | runs |"]
