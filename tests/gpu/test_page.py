"""docs/hardware.md, from stored JSON."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from page import NOTHING, kept_as, page

ROOT = Path(__file__).parents[2]
FACTS = {"device": "NVIDIA H100", "capability": 90, "driver": "12.9", "date": "2026-01-02 03:04 UTC", "commit": "abc"}
RIGHT: dict[str, Any] = {
    "part": "right",
    **FACTS,
    "rows": [
        {"name": "add_90", "good": True, "error": 0.0},
        {"name": "mm_90", "good": False, "problem": "cuLaunchKernelEx: X (1)"},
        {"name": "fa_90", "skipped": "not reached within 480 s"},
    ],
}


def test_without_results_the_first_line_says_so() -> None:
    assert page([]).splitlines()[0] == NOTHING
    assert page([{**RIGHT, "rows": [RIGHT["rows"][2]]}]).splitlines()[0] == NOTHING


def test_rows() -> None:
    text = page([RIGHT])
    assert text.splitlines()[0] == "Run on NVIDIA H100."
    assert "1 of 3 good. Capability 90, driver 12.9, 2026-01-02 03:04 UTC, commit abc." in text
    assert text.splitlines()[-5:] == [
        "| kernel | good | error | problem | skipped |",
        "|---|---|---|---|---|",
        "| add_90 | yes | 0.0 |  |  |",
        "| mm_90 | no |  | cuLaunchKernelEx: X (1) |  |",
        "| fa_90 | no |  |  | not reached within 480 s |",
    ]


def test_drawn_kernels_that_are_good_have_no_line() -> None:
    drawn = [{"name": "seed_1_0_90", "good": True, "error": 0.0}, {"name": "seed_2_0_90", "good": False, "error": 3.0}]
    text = page([{**RIGHT, "rows": [*RIGHT["rows"], *drawn]}])
    assert "2 of 5 good." in text
    assert "The 1 drawn kernels that are good have no line." in text
    assert "seed_1_0_90" not in text
    assert "| seed_2_0_90 | no | 3.0 |" in text


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
    kept = ROOT / "docs" / "hardware"
    results = [json.loads(file.read_text()) for file in sorted(kept.glob("*.json"))]
    assert (ROOT / "docs" / "hardware.md").read_text() == page(results)
