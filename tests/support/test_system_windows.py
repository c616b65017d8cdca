"""Windows' decisions, which need no Windows; what its functions do is tested there (`tests/machines/windows.sh`)."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.support.system import interface, windows
from tilewright.support.system.windows import Windows, problem_of_rights

ME = "S-1-5-21-1004336348-1177238915-682003330-1001"
YOU = "S-1-5-21-1004336348-1177238915-682003330-1002"
FULL = "(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("rights", "problem"),
    [
        (f"O:{ME}D:PAI(A;OICI;FA;;;{ME})", None),
        (f"O:{ME}G:{ME}D:AI(A;OICIID;FA;;;{ME}){FULL}", None),
        (f"O:BAD:AI(A;OICI;FA;;;{ME}){FULL}", None),
        (f"O:{ME}D:(A;OICI;FA;;;{ME})(A;OICI;0x1200a9;;;BU)", None),
        (f"O:{ME}D:(A;OICI;FA;;;{ME})(A;;GRGX;;;WD)", None),
        (f"O:{ME}D:(D;;FA;;;WD)(A;OICI;FA;;;{ME})", None),
        (f"O:{ME}D:(A;OICIIO;GA;;;CO)(A;;FA;;;OW)", None),
        (f"O:{ME}D:(A;OICI;FA;;;{ME})(A;OICI;0x1301bf;;;AU)", "AU may write to it"),
        (f"O:{ME}D:(A;OICI;FA;;;{ME})(A;OICI;FA;;;WD)", "WD may write to it"),
        (f"O:{ME}D:(A;;CCDC;;;BU)", "BU may write to it"),
        (f"O:{ME}D:(A;;2;;;{YOU})", f"{YOU} may write to it"),
        (f"O:{ME}D:(A;;??;;;{YOU})", f"{YOU} may write to it"),
        (f"O:{ME}D:(A;OICIIO;GW;;;BU)", "BU may write to it"),
        (f"O:{YOU}D:(A;OICI;FA;;;{ME})", f"it belongs to {YOU}, not to {ME}"),
        (f"O:{ME}D:NO_ACCESS_CONTROL", "everybody may write to it"),
        (f"O:{ME}", "everybody may write to it"),
        ("D:(A;OICI;FA;;;WD)", f"it belongs to nobody, not to {ME}"),
        ("", f"it belongs to nobody, not to {ME}"),
    ],
)
def test_who_may_write_to_a_folder(rights: str, problem: str | None) -> None:
    assert problem_of_rights(rights, ME) == problem


def test_rights_by_name() -> None:
    """Those of files to write, append, delete, and change attributes, rights or the owner have other names there."""
    found = {right: problem_of_rights(f"O:{ME}D:(A;;{right};;;BU)", ME) for right in windows._RIGHTS}
    assert [right for right in found if found[right]] == [
        *("DC", "LC", "RP", "DT", "SD", "WD", "WO"),
        *("FA", "FW", "GA", "GW"),
    ]


def test_the_first_administrator_is_known_by_two_names() -> None:
    first = "S-1-5-21-1-2-3-500"
    assert problem_of_rights("O:LAD:(A;;FA;;;LA)", first) is None
    assert problem_of_rights("O:LAD:(A;;FA;;;LA)", ME) == f"it belongs to LA, not to {ME}"


def test_links_and_files_are_no_folders_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    link = SimpleNamespace(st_mode=stat.S_IFLNK | 0o777)
    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", lambda folder: link)
        assert Windows().problem_of(tmp_path) == "it is a link"
    assert Windows().problem_of(tmp_path / "file") == "it is not a folder"
    with pytest.raises(FileNotFoundError):
        Windows().problem_of(tmp_path / "absent")


def test_a_folder_that_leads_elsewhere_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    junction = SimpleNamespace(st_mode=stat.S_IFDIR | 0o700, st_reparse_tag=0xA0000003)
    monkeypatch.setattr(os, "lstat", lambda folder: junction)
    assert Windows().problem_of(tmp_path) == "it is a link"


def test_a_file_that_somebody_reads_is_replaced_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[Any] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def replace(source: Any, target: Any) -> None:
        replaced.append(target)
        if len(replaced) < 4:
            raise PermissionError(13, "somebody has it open")

    monkeypatch.setattr(os, "replace", replace)
    Windows().replace("a", "b")
    assert len(replaced) == 4
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "for ever")))
    with pytest.raises(PermissionError, match="for ever"):
        Windows().replace("a", "b")


def test_bytes_are_read_and_written_where_they_are(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    system = Windows()
    system.write_at(file, b"abcdef", 0)
    system.write_at(file, b"XY", 2)
    assert system.read_at(file, 3, 1) == b"bXY"
    assert system.read_at(file, 9, 4) == b"ef"
    os.close(file)


def test_files_of_a_folder_are_listed_as_elsewhere(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "c.txt"):
        (tmp_path / name).write_text(name)
    found = Windows().facts_of_files(str(tmp_path), ".py")
    assert [(name, facts and facts.st_size) for name, facts in found] == [("a.py", 4), ("b.py", 4), ("c.txt", None)]


@pytest.mark.parametrize(("machine", "expected"), [("AMD64", ""), ("ARM64", "on Windows it is made for x86-64")])
def test_only_x86_is_known(machine: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface.platform, "machine", lambda: machine)
    assert expected in Windows().why_no_code()


def test_a_lock_is_for_a_byte_behind_all_files() -> None:
    assert windows._Overlapped(offset=windows._LOCKED_BYTE).offset == 1 << 62
    assert windows._Overlapped.offset.offset == 16
