"""Where the files of the project are on the site, and links between pages rewritten accordingly.

README.md → overview.md        ARCHITECTURE.md → architecture.md        docs/index.md → pages.md
docs/gpu.md → gpu.md           docs/tutorials/softmax.py → tutorials/softmax.ipynb
src/tilewright/runtime/jit.py → source/src/tilewright/runtime/jit.py.md: a page with its text
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
RENAMED = {"README.md": "overview.md", "ARCHITECTURE.md": "architecture.md", "docs/index.md": "pages.md"}
_CODE_OR_LINK = re.compile(
    r"(?P<code>^```.*?^```|^    .*?$|`[^`\n]*`)|(?P<text>\[[^\]]*\])\((?P<target>[^)\s]+)\)", re.MULTILINE | re.DOTALL
)


class BrokenLinkError(Exception):
    """A page of the project links to a file that is not there."""


def page_of(file: str) -> str:
    """The page of the site for a file or folder of the project, both as paths from its top."""
    if file in RENAMED:
        return RENAMED[file]
    if file.startswith("docs/tutorials/") and file.endswith(".py"):
        return file.removeprefix("docs/").removesuffix(".py") + ".ipynb"
    if file.startswith("docs/") and file.endswith(".md"):
        return file.removeprefix("docs/")
    return f"source/{file}/index.md" if (ROOT / file).is_dir() else f"source/{file}.md"


def rewritten(text: str, file: str, page: str, linked: set[str]) -> str:
    """The text of a page whose links lead to pages of the site.

    Args:
        text: Markdown.
        file: the file that it is from, which its links start from.
        page: the page that it becomes.
        linked: the files that its links lead to are added.

    Raises:
        BrokenLinkError: a link leads to no file.
    """

    def link(found: re.Match[str]) -> str:
        if found["code"] or found["target"].startswith(("http:", "https:", "mailto:", "#")):
            return found[0]
        path, hash_sign, anchor = found["target"].partition("#")
        target = os.path.normpath(PurePosixPath(file).parent / path)
        if not (ROOT / target).exists():
            raise BrokenLinkError(f"{file} links to {found['target']}, and there is no {target}")
        linked.add(target)
        relative = os.path.relpath(page_of(target), PurePosixPath(page).parent)
        return f"{found['text']}({relative}{hash_sign}{anchor})"

    return _CODE_OR_LINK.sub(link, text)
