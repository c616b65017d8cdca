"""The programs of docs/torch.md, one after the other in a process, as a reader would try them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_torch, pytest.mark.needs_gxx, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"


def test_programs_of_the_page(run: Callable[..., list[str]], tmp_path: Path) -> None:
    """The second one exported what the first had compiled, which torch refuses."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    programs = [text for language, text in blocks if not language and "import " in text]
    assert len(programs) == 2
    folder = f"import os\nos.chdir({str(tmp_path)!r})\n"
    assert run("\n".join([folder, *programs, "print(*y.shape)"])) == ["5 256"]
