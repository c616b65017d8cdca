"""Fixtures of the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages that are installed here, but no Triton."""
    folder = tmp_path_factory.mktemp("installed")
    places = [Path(place) for place in sys.path if Path(place).name == "site-packages"]
    for entry in (entry for place in places for entry in place.iterdir()):
        if not entry.name.lower().startswith("triton") and not (folder / entry.name).exists():
            (folder / entry.name).symlink_to(entry)
    return folder
