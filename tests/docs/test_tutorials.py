"""The tutorials run as programs; `make docs` runs them as notebooks."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.py"))
NEEDS = {"import torch": pytest.mark.needs_torch, "import matplotlib": pytest.mark.needs_matplotlib}


def cases() -> list[object]:
    """A case for each tutorial, with the markers of what it imports."""
    return [
        pytest.param(path, id=path.stem, marks=[mark for text, mark in NEEDS.items() if text in path.read_text()])
        for path in TUTORIALS
    ]


@pytest.mark.parametrize("path", cases())
def test_tutorial_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.syspath_prepend(str(tmp_path))  # what a tutorial puts on the path goes again
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})


def test_each_tutorial_leads_to_the_next() -> None:
    """In the order of the index, from the first to the last."""
    index = (TUTORIALS[0].parents[1] / "index.md").read_text()
    order = re.findall(r"\(tutorials/(\w+\.py)\)", index)
    texts = {path.name: path.read_text() for path in TUTORIALS}
    for name, following in itertools.pairwise(order):
        assert re.search(rf"^# Next: \[.*\]\({following}\)", texts[name], re.MULTILINE), name
    assert sorted(order) == sorted(texts)
