"""Functions that wait for modules of other packages are called with them, once each."""

from __future__ import annotations

import sys
from importlib import import_module
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
