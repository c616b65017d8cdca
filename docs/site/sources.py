"""Pages that show files of the project which others link to: programs coloured, folders as lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from links import ROOT, page_of

LANGUAGES = {".py": "python", ".pyi": "python", ".sh": "bash", ".toml": "toml", ".c": "c"}
HEAD = "---\norphan: true\nnosearch: true\n---\n\n"


def source_pages(files: set[str]) -> Iterator[tuple[str, str]]:
    """Pages of the site with their Markdown, for files and folders, given as paths from the top of the project."""
    remaining = sorted(files)
    for file in remaining:
        page = page_of(file)
        if not page.startswith("source/"):
            continue
        path = ROOT / file
        if path.is_dir():
            children = sorted(child for child in path.iterdir() if child.suffix in LANGUAGES)
            yield page, HEAD + _listing(file, children)
            remaining += [f"{file}/{child.name}" for child in children if f"{file}/{child.name}" not in files]
        else:
            yield page, HEAD + _text(file, path)


def _text(file: str, path: Path) -> str:
    language = LANGUAGES.get(path.suffix, "text")
    return f"# {path.name}\n\n`{file}`\n\n````{{code-block}} {language}\n:linenos:\n\n{path.read_text()}\n````\n"


def _listing(file: str, children: list[Path]) -> str:
    """A folder: a link to the page of each file, which need not be one of these here."""
    pages = {child.name: os.path.relpath(page_of(f"{file}/{child.name}"), f"source/{file}") for child in children}
    return f"# {file}\n\n" + "".join(f"- [{name}]({page})\n" for name, page in pages.items())
