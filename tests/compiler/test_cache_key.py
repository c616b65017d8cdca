"""The cache key: every field counts, and what cannot change the code does not."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from tilewright.backends.cpu.options import CpuOptions, parse_options
from tilewright.compiler.cache_key import CacheKey, current_identity, llvm_identity, portable_identity, source_identity

pytestmark = pytest.mark.quick

KEY = CacheKey(function="f", name="n", signature="s", target="t", options="o", changes="", compiler="c", llvm="l")


@pytest.mark.parametrize("field", CacheKey._fields)
def test_every_field_counts(field: str) -> None:
    assert KEY._replace(**{field: "other"}).digest != KEY.digest


def test_fields_do_not_run_together() -> None:
    assert KEY._replace(function="fn", name="").digest != KEY._replace(function="f", name="n").digest


def test_identity_follows_the_sources(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    source = tmp_path / "inner" / "a.py"
    source.write_text("x = 1\n")
    before = source_identity(tmp_path)
    assert source_identity(tmp_path) == before
    source.write_text("x = 10\n")
    changed = source_identity(tmp_path)
    assert changed != before
    (tmp_path / "inner" / "b.py").write_text("")
    assert source_identity(tmp_path) != changed


def test_a_process_whose_files_were_written_meanwhile_keeps_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run text that is no longer there, so no other process may take what it compiles for its own."""
    source, second = tmp_path / "a.py", 10**9
    source.write_text("x = 1\n")
    written = source.stat().st_mtime_ns
    assert current_identity(str(tmp_path), since=written) == source_identity(tmp_path)
    own = current_identity(str(tmp_path), since=written - second)
    assert own != source_identity(tmp_path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert current_identity(str(tmp_path), since=written - second) != own
    os.utime(source, ns=(written, written + 3600 * second))
    assert current_identity(str(tmp_path), since=written) == source_identity(tmp_path), "a clock that is ahead"


def test_llvm_identity_is_known() -> None:
    assert llvm_identity() not in ("", "none")


def test_llvm_identity_follows_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("llvmlite")
    installed = llvm_identity.__wrapped__()
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "_version.py").write_text("other")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert llvm_identity.__wrapped__() != installed
    monkeypatch.setattr(sys, "path", [])
    assert llvm_identity.__wrapped__() == installed, "found through the module that is imported"


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"num_warps": 8}, True),
        ({"num_stages": 1, "num_ctas": 2, "maxnreg": 64}, True),
        ({"num_threads": 2}, True),
        ({"num_cpu_threads": 2}, True),
        ({"enable_fp_fusion": False}, False),
        ({"debug": True}, False),
        ({"default_dot_input_precision": "ieee"}, False),
    ],
)
def test_options_that_change_the_code(options: dict[str, object], same: bool) -> None:
    assert (parse_options(options).identity == CpuOptions().identity) is same


def test_unknown_option() -> None:
    with pytest.raises(KeyError, match="num_wraps"):
        parse_options({"num_wraps": 4})


def test_bad_number_of_threads() -> None:
    with pytest.raises(ValueError, match="num_threads"):
        parse_options({"num_threads": -1})


def test_portable_identity_depends_on_content_alone(tmp_path: Path) -> None:
    for machine in ("first", "second"):
        (tmp_path / machine / "folder").mkdir(parents=True)
        (tmp_path / machine / "folder" / "a.py").write_text("a = 1")
        (tmp_path / machine / "b.py").write_text("b = 2")
    os.utime(tmp_path / "second" / "b.py", (1, 1))
    same = portable_identity(tmp_path / "first")
    assert portable_identity(tmp_path / "second") == same
    (tmp_path / "second" / "b.py").write_text("b = 3")
    portable_identity.cache_clear()
    assert portable_identity(tmp_path / "second") != same
