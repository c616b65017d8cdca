"""README, ARCHITECTURE and docs: programs run and print what the page says, links lead somewhere, paths exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Program, links, programs

from tilewright.support import settings

PACKAGE = ROOT / "src" / "tilewright"
PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md)|(?:[a-z_]+/)+)`")


@pytest.mark.parametrize("program", programs(), ids=[program.name for program in programs()])
def test_program_prints_what_the_page_says(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    settings.refresh()
    path = tmp_path / "program.py"  # kernels are read from files
    path.write_text(program.code)

    try:
        exec(compile(program.code, str(path), "exec"), {"__name__": "__main__"})
    finally:
        monkeypatch.undo()
        settings.refresh()

    if program.output is not None:
        assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == program.output


def test_readme_has_programs_with_output() -> None:
    assert sum(p.name.startswith("README") and p.output is not None for p in programs()) >= 2


@pytest.mark.parametrize(("page", "target"), links(), ids=[f"{page.name}:{target}" for page, target in links()])
def test_link_leads_somewhere(page: Path, target: str) -> None:
    assert (page.parent / target.partition("#")[0]).exists()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_paths_in_backquotes_exist(page: Path) -> None:
    """`compiler/compile.py` is below the package, `tests/ir/` below the root."""
    named = set(PATH.findall(page.read_text()))
    assert {name for name in named if not ((PACKAGE / name).exists() or (ROOT / name).exists())} == set()
