"""Settings: defaults, parsing, refresh, and the generated table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.support import settings
from tilewright.tools.settings_table import page

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def test_defaults() -> None:
    found = settings.parse({})
    assert not found.interpret
    assert found.cache_dir == Path("~/.tilewright/cache").expanduser()
    assert found.dump_dir == Path("~/.tilewright/dump").expanduser()
    assert found.num_threads == 0


def test_values() -> None:
    found = settings.parse({"TRITON_INTERPRET": "1", "TRITON_HOME": "/h", "TILEWRIGHT_NUM_THREADS": "3"})
    assert found.interpret
    assert found.cache_dir == Path("/h/.tilewright/cache")
    assert found.num_threads == 3


def test_cache_dir_beats_home() -> None:
    assert settings.parse({"TRITON_HOME": "/h", "TRITON_CACHE_DIR": "/c"}).cache_dir == Path("/c")


def test_empty_is_unset() -> None:
    assert settings.parse({"TRITON_CACHE_DIR": "", "TILEWRIGHT_NUM_THREADS": ""}) == settings.parse({})


@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_bad_value_names_the_variable(text: str) -> None:
    with pytest.raises(settings.SettingError, match="TILEWRIGHT_NUM_THREADS"):
        settings.parse({"TILEWRIGHT_NUM_THREADS": text})


def test_read_once_until_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings.refresh()
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "7")
    assert settings.current() is before
    assert settings.refresh().num_threads == 7
    monkeypatch.undo()
    settings.refresh()


def test_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == page(), "python -m tilewright settings > docs/settings.md"
