"""`tests/conformance/tutorials.py` on tutorials of our own."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

RUNNER = Path(__file__).parents[1] / "conformance" / "tutorials.py"
PLAN = {
    "introduction": "How they run.",
    "files": ["01-good", "02-bad"],
    "parts": {"02-bad": ["-m pytest 02-bad.py"]},
    "reasons": {"* 02-bad.py: failed: *no GPU*": "needs a GPU", "?.? -m pytest*": "{said}"},
}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_tutorials", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look for their module
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "limit", "outcome", "said"),
    [
        ("import triton; print(triton.__version__)", 100, "ended", "3.5.1"),
        ("print('first'); raise RuntimeError('no GPU')", 100, "failed", "RuntimeError: no GPU"),
        ("import time; print('still here'); time.sleep(100)", 2, "stopped", "still here"),
        ("import os; print(os.environ['SETTING'])", 100, "ended", "of the plan"),
    ],
)
def test_programs_end_fail_or_are_stopped(
    runner: ModuleType, tmp_path: Path, program: str, limit: float, outcome: str, said: str
) -> None:
    (tmp_path / "01-own.py").write_text(program)

    done = runner.outcome(tmp_path, "01-own.py", limit, {"SETTING": "of the plan"})

    assert (done.outcome, done.said) == (outcome, said)


FOR_A_GPU = """
import torch, triton
import triton.language as tl

@triton.jit
def double(x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(x + at, 2 * tl.load(x + at))

x = torch.ones(32, device="cuda")
assert x.is_cuda
double[(1,)](x, 32)
print(triton.runtime.driver.active.get_current_target().backend, x.sum().item())
"""


@pytest.mark.slow
@pytest.mark.needs_torch
def test_a_file_for_a_gpu_runs_on_a_simulated_one(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "12-own.py").write_text(FOR_A_GPU)

    done = runner.outcome(tmp_path, "tutorial_parts.py --simulate 90 12-own.py", 100, {})

    assert (done.outcome, done.said) == ("ended", "cuda 64.0")


def test_what_is_run_are_tutorials_and_their_parts(runner: ModuleType, tmp_path: Path) -> None:
    for tree, name in (("new", "01-good"), ("new", "02-bad"), ("old", "01-good")):
        (tmp_path / tree).mkdir(exist_ok=True)
        (tmp_path / tree / f"{name}.py").write_text("")
    trees = {"new": tmp_path / "new", "old": tmp_path / "old"}

    found = list(runner.programs(trees, PLAN["files"], PLAN["parts"]))

    assert found == [
        ("new", "01-good", "01-good.py"),
        ("old", "01-good", "01-good.py"),
        ("new", "02-bad", "02-bad.py"),
        ("new", "02-bad", "-m pytest 02-bad.py"),
    ]


def test_points_of_limited_tables_are_counted(runner: ModuleType) -> None:
    text = """one.py:9: UserWarning: one: 3 of 10 points were measured; the others are NaN: TILEWRIGHT_BENCH_SECONDS=9
      one.run()
    one.py:9: UserWarning: two: 4 of 4 points were measured (1 by the first call alone): TILEWRIGHT_BENCH_SECONDS=9
    """

    assert runner.points(text) == [7, 14]
    assert runner.points("3 of 10 points were measured by hand") == []
    assert str(runner.Outcome("ended", 12.3, "", [7, 14])) == "ran to its end, 12 s, 7 of 14 points"
    assert str(runner.Outcome("ended", 12.3, "", [])) == "ran to its end, 12 s"


def test_page_has_times_and_reasons(runner: ModuleType, tmp_path: Path) -> None:
    found = {
        ("new", "01-good.py"): runner.Outcome("ended", 12.3, "last"),
        ("old", "01-good.py"): runner.Outcome("stopped", 900.1, "some | line"),
        ("new", "02-bad.py"): runner.Outcome("failed", 2, "RuntimeError: no GPU"),
    }
    kept = tmp_path / "kept.json"
    runner.keep_results(kept, found)
    assert runner.kept_results(kept) == found
    assert len(json.loads(kept.read_text())) == 3

    lines = list(runner.page(found, ["new", "old"], PLAN))

    assert lines[:3] == ["", "# Triton's tutorials", ""]
    assert lines[-2:] == [
        "| 01-good.py | ran to its end, 12 s | stopped after 900 s | not explained yet: some \\| line |",
        "| 02-bad.py | failed after 2 s | – | needs a GPU |",
    ]


def test_remarks_may_be_what_a_program_said(runner: ModuleType) -> None:
    done = runner.Outcome("ended", 1, "8 passed")

    assert runner.remark("3.7", "-m pytest 02-bad.py", done, PLAN["reasons"]) == "8 passed"
    assert runner.remark("3.7", "01-good.py", done, PLAN["reasons"]) == ""


def test_only_its_own_part_of_the_page_is_replaced(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(runner, "PAGE", page)
    before, after = "# Triton's own tests\n\nx\n", "\n# Triton's lit tests\n\ny\n"
    for old in (before + after, before + "\n# Triton's tutorials\n\nold\n" + after):
        page.write_text(old)

        runner.write_part("\n# Triton's tutorials\n\nnew\n")

        assert page.read_text() == before + "\n# Triton's tutorials\n\nnew\n" + after


def test_every_reason_is_about_a_program_of_the_list(runner: ModuleType) -> None:
    plan = runner.tomllib.loads((RUNNER.parent / "tutorials.toml").read_text())

    assert [name for name in plan["parts"] if name not in plan["files"]] == []
    assert [name for name in plan["limits"] if name not in [*plan["files"], "all"]] == []
    assert [name for name in plan["settings"] if name not in plan["files"]] == []
