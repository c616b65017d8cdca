"""Functions that wait for modules of other packages are called with them, once each."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from time import sleep
from types import ModuleType
from typing import Any, cast
from zipfile import ZipFile
from zipimport import zipimporter

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules; the finders are those of before when the test has ended."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return tmp_path


def test_what_refuses_a_module_waits_for_its_next_import(folder: Path) -> None:
    """Inductor goes on after some failed imports: the second one gave a module that nothing had changed."""
    (folder / "refused_once.py").write_text("VALUE = 5\n")
    called: list[str] = []

    def refuse(module: ModuleType) -> None:
        called.append("refuse")
        if len(called) < 3:
            raise ValueError("not this one")

    when_imported("refused_once", lambda _: called.append("first"))
    when_imported("refused_once", refuse)
    with pytest.raises(ValueError, match="not this one"):
        import_module("refused_once")
    import_module("refused_once")
    assert called == ["first", "refuse"] * 2


def test_modules_of_one_loader_are_told_apart(folder: Path) -> None:
    """Modules of an archive have one loader; the function for the first was called with the second."""
    with ZipFile(folder / "archive.zip", "w") as archive:
        for name in ("zipped_first", "zipped_second"):
            archive.writestr(f"{name}.py", f"VALUE = {name!r}\n")
    sys.path.insert(0, str(folder / "archive.zip"))
    called: list[str] = []
    when_imported("zipped_first", lambda module: called.append(module.VALUE))
    assert find_spec("zipped_first") is not None
    import_module("zipped_second")
    first = import_module("zipped_first")
    assert called == ["zipped_first"]
    assert isinstance(first.__loader__, zipimporter)
    assert first.__spec__ is not None
    assert first.__spec__.loader is first.__loader__


def test_finders_without_specs_and_forbidden_modules(folder: Path) -> None:
    """Programs put objects of their own among the finders, and None for a module that must not be imported."""
    (folder / "beside_old_finder.py").write_text("VALUE = 6\n")
    sys.meta_path.insert(0, cast(Any, object()))
    called: list[int] = []
    when_imported("beside_old_finder", lambda module: called.append(module.VALUE))
    import_module("beside_old_finder")
    assert called == [6]
    sys.modules["forbidden_module"] = cast(Any, None)
    try:
        when_imported("forbidden_module", lambda module: called.append(0))
        with pytest.raises(ModuleNotFoundError):
            import_module("forbidden_module")
    finally:
        del sys.modules["forbidden_module"]
    assert called == [6]


def test_a_module_that_another_thread_executes_is_whole_when_functions_get_it(folder: Path) -> None:
    """Both threads ask while the module sleeps: each function is called once, with all names there."""
    (folder / "slow_module.py").write_text("import time\ntime.sleep(0.3)\nVALUE = 7\n")
    called: list[tuple[str, int]] = []
    when_imported("slow_module", lambda module: called.append(("before", module.VALUE)))
    thread = Thread(target=import_module, args=("slow_module",))
    thread.start()
    while "slow_module" not in sys.modules:
        sleep(0.001)
    when_imported("slow_module", lambda module: called.append(("during", module.VALUE)))
    thread.join()
    assert sorted(called) == [("before", 7), ("during", 7)]
