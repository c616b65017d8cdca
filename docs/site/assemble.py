"""Fills the folder that Sphinx reads: pages of the project whose links lead within the site, and generated pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import jupytext
import nbformat
from links import ROOT, page_of, rewritten
from reference import reference_pages
from sources import source_pages

SITE = Path(__file__).parent
INDEX = "docs/index.md"
SECTIONS = {
    "Tutorials": "tutorials",
    "Users": "users",
    "Kernel authors": "authors",
    "Coming from another tool": "coming",
    "Contributors": "contributors",
}
"""The sections of the index, and the folders of their pages on the site."""
PAGES = ("README.md", "ARCHITECTURE.md", "docs/*.md")
NO_TORCH = "torch was not installed where this page was built, so that the page shows no output."
TUTORIALS = "docs/tutorials/*.py"


def assemble(folder: Path) -> None:
    """Write every page of the site; files that are as they should be stay, so that Sphinx reads only what changed.

    Raises:
        BrokenLinkError: a page links to a file that is not there.
    """
    linked: set[str] = set()
    pages = {"index.md": (SITE / "home.md").read_text()}
    for file in _files(*PAGES):
        pages[page_of(file)] = rewritten((ROOT / file).read_text(), file, page_of(file), linked)
    for file in _files(TUTORIALS):
        pages[page_of(file)] = _notebook(file, linked)
        pages[file.removeprefix("docs/")] = (ROOT / file).read_text()  # to be downloaded
    pages[page_of(INDEX)] = "---\norphan: true\n---\n\n" + pages[page_of(INDEX)]  # its sections are pages, too
    pages |= dict(section_pages())
    pages |= dict(reference_pages())
    pages |= dict(source_pages(linked))
    _write(folder, pages)


def section_pages() -> Iterator[tuple[str, str]]:
    """A page for each section of the index, which is also the table of contents of what it lists."""
    text = (ROOT / INDEX).read_text()
    for title, entry in re.findall(r"^## \d+\. (.*?)$\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        name, _, about = title.partition(": ")
        page = f"{SECTIONS[name]}/index.md"
        shown = rewritten(entry, INDEX, page, set()).replace("\n### ", "\n## ")
        listed = re.findall(r"^\d+\. \[\S+\]\((\S+)\)", entry, re.MULTILINE)
        targets = [page_of(os.path.normpath(f"docs/{target}")) for target in listed]
        contents = "\n".join(f"/{target.rpartition('.')[0]}" for target in targets)
        heading = f"# {name}" + (f": {about}" if about else "")
        yield page, f"{heading}\n{shown}\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{contents}\n```\n"


def _files(*patterns: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def _notebook(file: str, linked: set[str]) -> str:
    """A tutorial as a notebook that was not run yet."""
    notebook = jupytext.read(ROOT / file, fmt="py:percent")
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    if "\nimport torch\n" in (ROOT / file).read_text() and find_spec("torch") is None:
        notebook.metadata["mystnb"] = {"execution_mode": "off"}
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(NO_TORCH))
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "markdown":
            cell.source = rewritten(cell.source, file, page_of(file), linked)
    name = Path(file).name
    own_text = f"This page is a program: [{name}]({name}) runs as it is, with `python {file}`."
    notebook.cells.append(nbformat.v4.new_markdown_cell(own_text, id="cell-program"))
    return str(jupytext.writes(notebook, fmt="ipynb"))


def _write(folder: Path, pages: dict[str, str]) -> None:
    for old in [path for path in folder.rglob("*") if path.is_file()]:
        if str(old.relative_to(folder)) not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
