"""docs/hardware.md, from stored JSON."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from page import NOTHING, kept_as, kept_in, page

ROOT = Path(__file__).parents[2]
FACTS = {"device": "NVIDIA H100", "capability": 90, "driver": "12.9", "date": "2026-01-02 03:04 UTC", "commit": "abc"}
RIGHT: dict[str, Any] = {
    "part": "right",
    **FACTS,
    "rows": [
        {"name": "add_90", "kind": "anchors", "good": True, "error": 0.0},
        {"name": "mm_90", "kind": "anchors", "good": False, "problem": "cuLaunchKernelEx: X (1)"},
        {"name": "fa_90", "kind": "anchors", "skipped": "not reached within 480 s"},
    ],
}


def test_without_results_the_first_line_says_so() -> None:
    assert page([]).splitlines()[0] == NOTHING
    assert page([{**RIGHT, "rows": [RIGHT["rows"][2]]}]).splitlines()[0] == NOTHING


def test_rows() -> None:
    text = page([RIGHT])
    assert text.splitlines()[0] == "Run on NVIDIA H100."
    assert "1 of 2 good, 1 skipped. Capability 90, driver 12.9, 2026-01-02 03:04 UTC, commit abc." in text
    assert text.splitlines()[-12:] == [
        "| kind | good | failed | skipped |",
        "| --- | --- | --- | --- |",
        "| anchors | 1 | 1 | 1 |",
        "",
        "| kernel | good | error | problem |",
        "| --- | --- | --- | --- |",
        "| add_90 | yes | 0.0 |  |",
        "| mm_90 | no |  | cuLaunchKernelEx: X (1) |",
        "",
        "| skipped, because | rows | which |",
        "| --- | --- | --- |",
        "| not reached within 480 s | 1 | fa_90 |",
    ]


def test_what_is_skipped_is_grouped_by_reason() -> None:
    rows = [{"name": f"t{number}_90", "kind": "tests", "skipped": "takes | minutes"} for number in range(7)]
    text = page([{**RIGHT, "rows": [*RIGHT["rows"][:2], *rows]}])
    assert "1 of 2 good, 7 skipped." in text
    assert "| takes / minutes | 7 | t0_90, t1_90, t2_90, t3_90, t4_90, … |" in text
    assert "| tests | 0 | 0 | 7 |" in text


def test_what_is_good_of_many_has_no_line() -> None:
    drawn = [
        {"name": "seed_1_0_90", "kind": "generated", "good": True, "error": 0.0},
        {"name": "seed_2_0_90", "kind": "generated", "good": False, "error": 3.0},
    ]
    text = page([{**RIGHT, "rows": [*RIGHT["rows"], *drawn]}])
    assert "2 of 4 good, 1 skipped." in text
    assert "| generated | 1 | 1 | 0 |" in text
    assert "seed_1_0_90" not in text
    assert "| seed_2_0_90 | no | 3.0 |  |" in text


FAST: dict[str, Any] = {
    **FACTS,
    "part": "fast",
    "device": "NVIDIA H200",
    "rows": [
        {"name": "launch", "good": True, "Triton / ours": 1.8},
        {"name": "mm128x128x64_w8s3_90", "kind": "anchors", "good": True, "TFLOP/s": 600.1},
        {"name": "matmul fp16 against others", "good": True, "Triton / ours": 0.98, "TFLOP/s": 648.0},
        {"name": "attention forward d64 against others", "good": True, "Triton / ours": 1.25},
        {"name": "softmax fp32 against others", "good": True, "Triton / ours": 1.02},
        {"name": "matmul fp8 against others", "skipped": "torch is not installed"},
    ],
}


def test_bars() -> None:
    lines = page([FAST]).splitlines()
    start = lines.index("| bar | found | at least | reached |")
    assert lines[start + 2 : start + 7] == [
        "| launch: Triton's time / ours | 1.8 | 1.667 | yes |",
        "| slowest kernel: Triton's time / ours | 0.98 | 0.97 | yes |",
        "| median kernel: Triton's time / ours | 1.02 | 1.0 | yes |",
        "| attention forward: Triton's time / ours | 1.25 | 1.0 | yes |",
        "| fp16 product 8192³: TFLOP/s | 648.0 | 650.0 | no |",
    ]
    assert "TFLOP/s | 648.0 | 650.0" not in page([{**FAST, "device": "NVIDIA L4"}]), "that bar is for one device"


def write(folder: Path, *results: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    files = []
    for number, result in enumerate(results):
        files.append(folder / f"{number}.json")
        files[-1].write_text(json.dumps(result))
    kept = folder / "hardware"
    monkeypatch.setattr(sys, "argv", ["page.py", str(kept), *map(str, files)])
    runpy.run_path(str(ROOT / "bench" / "gpu" / "page.py"), run_name="__main__")
    return kept.with_suffix(".md").read_text()


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second device is added, a newer result of a part takes the place of the older one."""
    other = {**RIGHT, "device": "NVIDIA A100"}
    write(tmp_path, RIGHT, other, monkeypatch=monkeypatch)
    text = write(tmp_path, {**RIGHT, "commit": "def"}, monkeypatch=monkeypatch)
    assert kept_as(RIGHT) == "right-nvidia-h100.json"
    assert text.splitlines()[0] == "Run on NVIDIA A100, NVIDIA H100."
    assert text.count("commit abc") == text.count("commit def") == 1


def test_the_page_is_what_the_command_writes() -> None:
    """`python bench/gpu/page.py docs/hardware` writes it again."""
    assert (ROOT / "docs" / "hardware.md").read_text() == page(kept_in(ROOT / "docs" / "hardware"))


def test_tritons_tests_have_a_line_for_each_file_and_each_reason() -> None:
    rows = [
        {"name": "unit/a.py", "passed": 5, "failed": 2, "skipped": 1, "all": 9},
        {"name": "gluon/b.py", "passed": 3, "failed": 0, "skipped": 0, "all": 3},
    ]
    failures = [{"test": "unit/a.py::test_one", "reason": "wants | more", "cases": 2}]
    text = page([{"part": "tritons", **FACTS, "rows": rows, "failures": failures}])
    assert text.startswith("Run on NVIDIA H100.")
    assert "8 of 10 tests that ran passed, 1 were skipped by themselves, of 12 in all" in text
    assert "| unit/a.py | 5 | 2 | 1 | 9 |\n| gluon/b.py | 3 | 0 | 0 | 3 |\n" in text
    assert text.endswith("| unit/a.py::test_one | 2 | wants / more |\n")
