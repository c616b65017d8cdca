"""Functions that wait for modules of other packages are called with them, once each."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright.compat.torch_bridge import when_imported


def test_all_that_waits_for_one_module_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finder of the second asked Python's own finder alone, so the first was never called."""
    (tmp_path / "waited_for.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    called: list[tuple[str, int]] = []
    for name in ("first", "second"):
        when_imported("waited_for", lambda module, name=name: called.append((name, module.VALUE)))
    module = import_module("waited_for")
    assert called == [("first", 3), ("second", 3)]
    when_imported("waited_for", lambda found: called.append(("third", found.VALUE)))
    monkeypatch.delitem(sys.modules, "waited_for")
    assert import_module("waited_for") is not module
    assert [name for name, _ in called] == ["first", "second", "third"]


def test_who_asks_whether_a_module_is_there_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers asks for torch with `find_spec` before it imports it, and nothing waited any more."""
    (tmp_path / "asked_for.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    called: list[int] = []
    when_imported("asked_for", lambda module: called.append(module.VALUE))
    assert find_spec("asked_for") is not None
    assert find_spec("asked_for") is not None
    import_module("asked_for")
    assert called == [3]


def test_a_module_whose_import_fails_is_waited_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first import may want something that the program makes before the second."""
    (tmp_path / "failing_once.py").write_text("import sys\nVALUE = sys.failing_once_value\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    called: list[int] = []
    when_imported("failing_once", lambda module: called.append(module.VALUE))
    with pytest.raises(AttributeError):
        import_module("failing_once")
    monkeypatch.setattr(sys, "failing_once_value", 4, raising=False)
    import_module("failing_once")
    assert called == [4]
