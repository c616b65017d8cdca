"""The Python in README and docs works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def programs() -> list[tuple[str, str]]:
    return [(f"{page.name}:{i}", code) for page in PAGES for i, code in enumerate(BLOCK.findall(page.read_text()))]


@pytest.mark.parametrize(("name", "code"), programs(), ids=[name for name, _ in programs()])
def test_program_runs(name: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"  # kernels are read from files
    path.write_text(code)
    exec(compile(code, str(path), "exec"), {"__name__": "__main__"})


def test_readme_has_a_program() -> None:
    assert any(name.startswith("README") for name, _ in programs())
