"""`python -m tilewright doctor`: good and bad states of everything it looks at."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright.language as tl
from tilewright.backends.llvm import machine
from tilewright.runtime.drivers.cpu import launcher, process
from tilewright.support import knobs, tested_versions
from tilewright.support.system import SYSTEM
from tilewright.tools import doctor
from tilewright.tools.doctor import NOTE, OK, WRONG, Line
from tilewright.tools.main import COMMANDS, main, parser
from tilewright.tools.run_command import PACKAGE_PATH

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]

Check = Callable[[], Iterator[Line]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    return folder


def line_of(check: Check, subject: str) -> Line:
    (found,) = [line for line in check() if line.subject == subject]
    return found


def assert_wrong(line: Line, fact: str, remedy: str = "") -> None:
    assert line.state == WRONG
    assert fact in line.fact
    assert line.remedy
    assert remedy in line.remedy


def test_all_is_well_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check is not doctor.torch])
    assert main(["doctor"]) == 0
    page = capsys.readouterr().out
    assert WRONG not in {line.split()[0] for line in page.splitlines()}
    for subject in ("Python", "numpy", "llvmlite", "LLVM", "CPU found", "CPU used", "native launcher", "thread pool"):
        assert re.search(rf"^(ok|note) +{subject} ", page, re.MULTILINE), page


def test_the_features_of_the_processor_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine.host_target()
    fact = f"{here.cpu} ({', '.join(here.features)}), tuned for {here.tune}"
    assert line_of(doctor.processor, "CPU found").fact == fact
    if here.cpu != "x86-64-v2" and here.cpu.startswith(("x86-64", "znver")):
        monkeypatch.setenv("TILEWRIGHT_CPU", "x86-64-v2")
        used = line_of(doctor.processor, "CPU used")
        assert used.state == NOTE
        assert used.fact.startswith("TILEWRIGHT_CPU: x86-64-v2 (")


def test_one_wrong_line_is_an_exit_status_and_notes_are_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        doctor, "CHECKS", [lambda: iter([Line(OK, "a", "there"), Line(NOTE, "b", "not there", "get it")])]
    )
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == f"ok     {'a':16} there\nnote   {'b':16} not there\n{'':23} -> get it\n"
    monkeypatch.setattr(
        doctor, "CHECKS", [lambda: iter([Line(WRONG, "c", "broken", "mend it"), Line(OK, "a", "there")])]
    )
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.startswith(f"wrong  {'c':16} broken\n{'':23} -> mend it\nok ")


def test_a_check_that_fails_is_a_line_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Line]:
        raise OSError("no such\ndevice")

    monkeypatch.setattr(doctor, "CHECKS", [broken, doctor.interpreter])
    first, *rest = doctor.lines()
    assert_wrong(first, "no such")
    assert (first.subject, len(rest)) == ("broken", 2)


def test_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert line_of(doctor.interpreter, "Python").state == OK
    monkeypatch.setattr(sys, "gettotalrefcount", lambda: 0, raising=False)
    assert_wrong(line_of(doctor.interpreter, "Python"), "debug build", "CPython")


def test_settings_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line.state for line in doctor.settings()] == [OK]
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "many")
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "nothing.of.the.kind:Manager")
    threads, manager = sorted(doctor.settings(), key=lambda line: "CACHE" in line.fact)
    assert_wrong(threads, "TILEWRIGHT_NUM_THREADS", "settings")
    assert_wrong(manager, "TRITON_CACHE_MANAGER")


@pytest.mark.parametrize(
    ("version", "state", "fact"),
    [
        ("0.47.3", WRONG, "older than 0.48"),
        ("0.48.0rc1", OK, "0.48.0rc1"),
        ("0.50.9", OK, "0.50.9"),
        ("0.51.0", NOTE, "newer than 0.50"),
        ("1.0", NOTE, "newer than 0.50"),
        ("unknown", WRONG, "older"),
    ],
)
def test_versions_of_llvmlite(version: str, state: str, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    line = line_of(doctor.libraries, "llvmlite")
    assert (line.state, bool(line.remedy)) == (state, state != OK)
    assert fact in line.fact
    assert state != WRONG or line.remedy == "pip install 'llvmlite>=0.48'"


def test_libraries_that_are_missing_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert_wrong(line_of(doctor.libraries, "llvmlite"), "cannot be imported", "pip install")

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert_wrong(line_of(doctor.libraries, "numpy"), "not installed", "numpy>=1.26")


def test_the_project_asks_for_the_oldest_versions_that_work() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert sorted(asked) == sorted(map(tested_versions.requirement, tested_versions.TESTED))


def test_old_llvmlite_is_refused_when_something_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    monkeypatch.setattr(llvmlite, "__version__", "0.44.0")
    with pytest.raises(ImportError, match=r"llvmlite 0\.44\.0 is older than 0\.48.*pip install 'llvmlite>=0\.48'"):
        machine._llvm.__wrapped__()


def test_new_versions_are_warned_of_when_something_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    monkeypatch.setattr(llvmlite, "__version__", "0.99.0")
    with pytest.warns(RuntimeWarning, match=r"llvmlite 0\.99\.0 is newer than"):
        assert machine._llvm.__wrapped__() is machine._llvm()


@pytest.mark.parametrize("error", [machine.LlvmError("no such target"), ImportError("llvmlite is too old")])
def test_llvm_that_does_not_compile(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> bytes:
        raise error

    assert line_of(doctor.llvm, "LLVM").state == OK
    monkeypatch.setattr(machine, "compile_object", broken)
    assert_wrong(line_of(doctor.llvm, "LLVM"), str(error))


def foreign_cpu() -> str:
    return "x86-64-v2" if machine.host_target().neon else "neoverse-n1"


def test_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line.state for line in doctor.processor()] == [OK, OK]
    monkeypatch.setenv("TILEWRIGHT_CPU", foreign_cpu())
    assert_wrong(line_of(doctor.processor, "CPU used"), "cannot run here", "unset TILEWRIGHT_CPU")
    monkeypatch.setenv("TILEWRIGHT_CPU", "pentium")
    assert_wrong(line_of(doctor.processor, "CPU used"), "there is no CPU 'pentium'")
    assert list(doctor.llvm()) == []


def test_an_older_cpu_that_was_asked_for_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = "aarch64" if machine.host_target().neon else "x86-64-v2"
    monkeypatch.setenv("TILEWRIGHT_CPU", oldest)
    line = line_of(doctor.processor, "CPU used")
    assert (line.state, "TILEWRIGHT_CPU" in line.fact) == (NOTE, True)


def test_no_code_for_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(override: str | None = None) -> machine.Target:
        raise machine.UnknownCpuError("no code generation for the architecture 'riscv64'")

    monkeypatch.setattr(machine, "host_target", unknown)
    assert_wrong(line_of(doctor.processor, "CPU found"), "riscv64", "TRITON_INTERPRET")


def test_a_good_cache(own_cache: Path) -> None:
    line = line_of(doctor.kept_kernels, "cache")
    assert (line.state, line.fact) == (OK, f"{own_cache} (0700): 0 kernels, 0.0 of 1024 MiB")
    assert list(own_cache.iterdir()) == []


@pytest.mark.parametrize("state", ["everybody", "file", "below a file", "read-only", "full"])
def test_bad_caches(state: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if state == "everybody":
        own_cache.mkdir()
        own_cache.chmod(0o777)
        expected = "(0777): everybody may write to it"
    elif state == "file":
        own_cache.write_text("")
        expected = "not a folder"
    elif state == "below a file":
        own_cache.write_text("")
        monkeypatch.setenv("TRITON_CACHE_DIR", str(own_cache / "cache"))
        expected = "Not a directory"
    elif state == "read-only":

        def refuse(path: Path, content: bytes) -> None:
            raise OSError(30, os.strerror(30), str(path))

        monkeypatch.setattr(doctor, "write_whole", refuse)
        expected = "(0700): cannot be written to: Read-only file system"
    else:
        monkeypatch.setattr(
            doctor.shutil, "disk_usage", lambda path: doctor.shutil._ntuple_diskusage(1 << 40, 1 << 40, 9)
        )
        expected = "the disk is full"
    assert_wrong(line_of(doctor.kept_kernels, "cache"), expected)


def test_an_own_cache_manager_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "tilewright.runtime.cache.remote:RemoteCacheManager")
    assert line_of(doctor.kept_kernels, "cache manager").fact.endswith("remote:RemoteCacheManager")


def test_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "is_native", lambda: False)
    monkeypatch.setattr(process._Refusal, "reason", "")
    with pytest.warns(RuntimeWarning):
        process.warn_of_slow_launches("the system does not let this process make memory executable")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {line.subject: line for line in doctor.launches()}
    assert_wrong(found["native launcher"], "make memory executable")
    assert found["a kernel"].state == OK
    assert "thread pool" not in found


@pytest.mark.skipif(not launcher.is_native(), reason="there is no native launcher here")
def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, cpus, state in ((0, 4, OK), (4, 4, OK), (8, 4, NOTE), (1, 4, NOTE)):
        monkeypatch.setattr(type(SYSTEM), "usable_cpus", lambda self, cpus=cpus: cpus)
        monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", str(asked))
        assert line_of(doctor.launches, "thread pool").state == state


def wrong_numbers(out_ptr, size: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0) * size + tl.arange(0, size), 7)


def no_kernel(out_ptr, size: tl.constexpr):
    tl.store(out_ptr, nothing)  # noqa: F821 - wrong on purpose


def test_kernels_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_numbered", wrong_numbers)
    assert_wrong(line_of(doctor.launches, "a kernel"), "wrong numbers", "report")
    monkeypatch.setattr(doctor, "_numbered", no_kernel)
    assert_wrong(line_of(doctor.launches, "a kernel"), "nothing")


def test_interpreted_kernels_are_noted() -> None:
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        assert line_of(doctor.launches, "a kernel").state == NOTE


def test_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.8, V12.8.61'\n")
    program.chmod(0o700)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(program))
    assert line_of(doctor.assembler, "ptxas") == Line(OK, "ptxas", f"12.8, {program}")
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\nexit 3\n")
    other.chmod(0o700)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(other))
    assert_wrong(line_of(doctor.assembler, "ptxas"), "does not run")
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path / "nothing"))
    assert_wrong(line_of(doctor.assembler, "ptxas"), "TRITON_PTXAS_PATH is")


def test_no_ptxas_and_no_libdevice_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(capability: int) -> str:
        raise doctor.MissingToolError("it was not found")

    monkeypatch.setattr(doctor, "find_ptxas", lambda capability: None)
    monkeypatch.setattr(doctor, "find_libdevice", missing)
    assert [(line.state, bool(line.remedy)) for line in doctor.assembler()] == [(NOTE, True), (NOTE, True)]
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", "/nothing")
    assert line_of(doctor.assembler, "libdevice").state == WRONG


def test_no_torch_and_a_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert line_of(doctor.torch, "torch").state == NOTE
    monkeypatch.undo()
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open shared object file')\n")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert_wrong(line_of(doctor.torch, "torch"), "libtorch.so")


@pytest.mark.needs_torch
def test_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert line_of(doctor.torch, "torch").state == OK
    monkeypatch.setattr(doctor.python_memory, "tensor_access", lambda torch: None)
    assert line_of(doctor.torch, "torch").state == NOTE


def test_what_import_triton_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> Line:
        return line_of(doctor.triton, "import triton")

    monkeypatch.delitem(sys.modules, "triton", raising=False)
    with monkeypatch.context() as nothing:
        nothing.setattr(sys, "path", [])
        assert "finds nothing here" in found().fact
    (tmp_path / "triton.py").write_text("")
    with monkeypatch.context() as another:
        another.syspath_prepend(tmp_path)
        assert f"finds {tmp_path} here" in found().fact
    with monkeypatch.context() as ours:
        ours.syspath_prepend(PACKAGE_PATH)
        assert found() == Line(OK, "import triton", "finds Tilewright")
    monkeypatch.setattr(doctor, "PACKAGE_PATH", tmp_path / "gone")
    assert_wrong(found(), "lacks its package `triton`")


def test_the_readme_lists_all_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    (row,) = re.findall(r"^\| tools \| (.*) \| \|$", readme, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", row)) == sorted(name for name, *_ in COMMANDS)
    assert [name for name, *_ in COMMANDS if not re.search(rf"tilewright {name}\b", readme)] == []


def test_the_help_names_all_commands() -> None:
    text = " ".join(parser().format_help().split())
    assert [name for name, purpose, *_ in COMMANDS if f"{name} {purpose}" not in text] == []
