"""Starts from torch's caches: keys are remembered, templates are parsed when they are used."""

from __future__ import annotations

import gc
import logging
import os
import weakref
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright.compat import torch_starts
from tilewright.compat.torch_starts import (
    RARE,
    capture_rarely_collected,
    name_for_logs,
    no_collections,
    parse_later,
    rare_collections,
    remembered,
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a subpackage, whose files count as settled."""
    monkeypatch.setattr(torch_starts, "_folder", lambda: tmp_path / "caches")
    monkeypatch.setattr(torch_starts, "SETTLED", -(10**18))
    for folder in (tmp_path / "package", tmp_path / "package" / "inner"):
        folder.mkdir()
        (folder / "__init__.py").write_text("a = 1\n")
    return tmp_path / "package"


def counting(texts: list[str]) -> SimpleNamespace:
    """A reader of files, and the texts that it has given."""
    given: list[str] = []

    def read() -> str:
        given.append(texts[len(given)])
        return given[-1]

    return SimpleNamespace(read=read, given=given)


def test_files_that_have_not_changed_are_not_read_again(package: Path) -> None:
    """A second process has the first one's answer."""
    reader = counting(["one", "two"])
    assert [remembered("key", package, reader.read) for _ in range(3)] == ["one", "one", "one"]
    assert reader.given == ["one"]


@pytest.mark.parametrize("file", ["__init__.py", "inner/__init__.py"])
def test_a_file_of_the_same_size_that_was_written_again_is_read(package: Path, file: str) -> None:
    """The date tells, and where the date is set back, that of the entry does."""
    reader = counting(["one", "two"])
    remembered("key", package, reader.read)
    before = (package / file).stat()
    (package / file).write_text("a = 2\n")
    os.utime(package / file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert remembered("key", package, reader.read) == "two"


def test_a_new_file_is_read(package: Path) -> None:
    """A module that was not there."""
    reader = counting(["one", "two"])
    remembered("key", package, reader.read)
    (package / "inner" / "more.py").write_text("")
    assert remembered("key", package, reader.read) == "two"


def test_what_is_damaged_is_read_again(package: Path, tmp_path: Path) -> None:
    """A file of the cache that was cut off is none."""
    reader = counting(["one", "two"])
    remembered("key", package, reader.read)
    (cached,) = (tmp_path / "caches").iterdir()
    cached.write_text(cached.read_text()[:-1])
    assert remembered("key", package, reader.read) == "two"


def test_files_that_were_just_written_are_read_each_time(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be written again within a tick of the clock."""
    monkeypatch.setattr(torch_starts, "SETTLED", 10**18)
    reader = counting(["one", "two"])
    assert [remembered("key", package, reader.read) for _ in range(2)] == ["one", "two"]


def test_a_folder_that_cannot_be_written_is_no_error(package: Path, tmp_path: Path) -> None:
    """A file stands where the folder would be."""
    (tmp_path / "caches").write_text("")
    reader = counting(["one", "two"])
    assert [remembered("key", package, reader.read) for _ in range(2)] == ["one", "two"]


def test_templates_are_parsed_once_and_when_they_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is parsed for a template that is not used."""
    monkeypatch.setattr(torch_starts, "find_spec", lambda name: name)  # Jinja counts as installed
    parsed: list[str] = []

    class KernelTemplate:
        @staticmethod
        def _template_from_string(source: str) -> SimpleNamespace:
            parsed.append(source)
            return SimpleNamespace(render=lambda **named: source.format(**named))

    parse_later(SimpleNamespace(KernelTemplate=KernelTemplate))
    used, unused = (KernelTemplate._template_from_string(source) for source in ("{x}!", "{y}?"))
    assert unused  # torch asserts that there is a template
    assert not parsed
    assert [used.render(x=number) for number in (1, 2)] == ["1!", "2!"]
    assert parsed == ["{x}!"]


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """Nothing is frozen, where the tests have frozen what was there before them."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


class Node:
    """A piece of garbage."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.spared
def test_garbage_is_collected_behind_imports_and_not_within(unfrozen: None) -> None:
    """Objects that are made within are old, and not kept."""
    with no_collections():
        assert not gc.isenabled()
        made = weakref.ref(Node())
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert made() is None


def test_what_a_program_has_set_stays(unfrozen: None) -> None:
    """A program without collections has none behind imports, and what it has frozen stays frozen."""
    gc.disable()
    try:
        with no_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.freeze()
    try:
        with no_collections():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_collections_are_rare_while_a_graph_is_compiled(unfrozen: None) -> None:
    """Many new objects are not looked through, and garbage does not pile up without an end."""
    before, counted = gc.get_threshold(), gc.get_stats
    with rare_collections(), rare_collections():
        assert gc.get_threshold() == (RARE, *before[1:])
        collections = counted()[0]["collections"]
        kept: list[list[int]] = [[] for _ in range(RARE // 2)]
        assert counted()[0]["collections"] <= collections + 1
        for _ in range(2 * RARE):
            Node()
        assert counted()[0]["collections"] > collections
    assert gc.get_threshold() == before
    assert kept


@pytest.mark.parametrize("own", [0, 10 * RARE])
def test_a_program_that_collects_as_rarely_is_left_alone(own: int) -> None:
    """0 means never."""
    before = gc.get_threshold()
    gc.set_threshold(own, *before[1:])
    try:
        with rare_collections():
            assert gc.get_threshold()[0] == own
        assert gc.get_threshold()[0] == own
    finally:
        gc.set_threshold(*before)


@pytest.mark.needs_torch
def test_the_key_is_torchs_own() -> None:
    """It is the one that torch makes of its files."""
    import_module("tilewright.torch_compile")
    caches = import_module("torch._inductor.codecache")
    known = caches.torch_key()
    caches.torch_key.clear()
    assert caches.torch_key() == known


@pytest.mark.needs_torch
def test_torchs_templates_wait() -> None:
    """A template of torch is parsed by Jinja when it is rendered."""
    import_module("tilewright.torch_compile")
    template = import_module("torch._inductor.codegen.common").KernelTemplate._template_from_string("{{ x }} + 1")
    assert template._template is None
    assert template.render(x=2) == "2 + 1"


def test_collections_are_rare_whenever_a_graph_is_captured(unfrozen: None) -> None:
    """Its result is returned, and the program's own threshold holds again after each call."""
    before = gc.get_threshold()
    frames = SimpleNamespace(_compile=lambda code, *, frame: (code, frame, gc.get_threshold()[0]))
    capture_rarely_collected(frames)
    for number in range(2):
        assert frames._compile(number, frame=2) == (number, 2, RARE)
        assert gc.get_threshold() == before


@pytest.mark.parametrize("shown", [None, "trace_call_log", "trace_source_log"])
def test_names_of_functions_are_looked_for_if_a_log_shows_them(shown: str | None) -> None:
    """Each of the two logs that have them."""
    names = ("trace_call_log", "trace_source_log")
    logs = {name: logging.Logger(name, logging.DEBUG if name == shown else logging.INFO) for name in names}
    tracer = SimpleNamespace(get_funcname=lambda path, line: f"{path}:{line}", **logs)
    name_for_logs(tracer)
    assert tracer.get_funcname("a.py", 3) == ("a.py:3" if shown else None)
