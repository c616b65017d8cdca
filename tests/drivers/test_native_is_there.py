"""The native launcher is there where it should be; where it is refused, a warning says why and Python launches."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path

import pytest

from tilewright.runtime import lazy_imports
from tilewright.runtime.drivers.cpu import launcher, process, python_memory
from tilewright.runtime.drivers.cpu.loader import NativeCodeError

HERE = Path(__file__).parent

LAUNCH = """
import sys, warnings
{before}
import numpy as np
import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.drivers.cpu import guards, launcher, python_memory

FACTOR = tl.constexpr(3)

@tw.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, FACTOR * tl.load(x + i, mask=i < n), mask=i < n)

x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        out[:] = 0
        scaled[(4,)](x, out, 100, BLOCK=32)
        assert np.array_equal(out, 3 * x), out
print(launcher.is_native())
print([str(warning.message) for warning in caught if warning.category is RuntimeWarning])
"""


def outcome(folder: Path, before: str = "", **environment: str) -> tuple[str, str]:
    """Is the launcher native in a new process, and what it warned of; three launches came out right."""
    file = folder / "program.py"
    file.write_text(LAUNCH.format(before=before))
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    is_native, warned = done.stdout.splitlines()
    return is_native, warned


def test_this_machine_launches_natively_if_it_is_one_that_can() -> None:
    """Never skipped: a launcher that quietly does not work leaves all results right, and everything slow."""
    expected = (
        (sys.platform, platform.machine())
        in (("linux", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64"), ("darwin", "arm64"))
        and sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_DEBUG")
    )
    assert launcher.is_native() is expected


@pytest.mark.spared
def test_a_debug_build_is_refused_before_any_object_is_read(tmp_path: Path) -> None:
    """As far as an ordinary Python can play one: whoever reads an object's memory there ends the process."""
    poison = "sys.gettotalrefcount = int\n"
    poison += "import tilewright.runtime.drivers.cpu.python_memory as memory\n"
    poison += "def refuse(address): raise SystemExit('memory of an object was read')\n"
    poison += "memory._word = refuse\n"
    is_native, warned = outcome(tmp_path, poison)
    assert is_native == "False"
    assert warned.count("debug build") == 1


@pytest.mark.quick
@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (lambda: python_memory.slot_offset(launcher.NativeKernel, "_state"), None),
        (python_memory.cell_offset, None),
        (python_memory.subscript_definition, None),
        (python_memory.ndarray_is_as_expected, False),
        (lambda: python_memory.tensor_access(None), None),
    ],
)
def test_no_layout_is_looked_for_where_objects_are_unknown(
    reader: object, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "gettotalrefcount", int, raising=False)
    monkeypatch.setattr(python_memory, "_known_kinds", set())
    monkeypatch.setattr(python_memory, "_word", lambda address: pytest.fail("memory of an object was read"))
    assert callable(reader)
    assert reader() is expected


def test_the_reason_is_told_where_there_is_neither_a_compiler_nor_a_cached_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(machine: str, cpu: str) -> None:
        raise NativeCodeError("the launcher cannot be compiled: expected a comma")

    monkeypatch.setattr(lazy_imports, "native_runtime_blob", broken)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="launched by Python.*cannot be compiled: expected a comma"):
        assert process._set_up.__wrapped__() is None


@pytest.mark.parametrize("error", [OSError("no executable memory"), ValueError("PyErr_Clear: symbol not found")])
def test_the_reason_is_told_where_the_launcher_cannot_be_loaded(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(blob: object) -> None:
        raise error

    monkeypatch.setattr(process, "NativeRuntime", broken)
    monkeypatch.setattr(process, "runtime_blob", lambda machine, folder: None)
    with pytest.warns(RuntimeWarning, match=str(error)):
        assert process._set_up.__wrapped__() is None


def test_other_errors_are_not_taken_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "runtime_blob", lambda machine, folder: {}["key"])
    with pytest.raises(KeyError):
        process._set_up.__wrapped__()


def test_a_launcher_that_cannot_be_put_in_place_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_memory, "slot_offset", lambda owner, name: None)
    if launcher.native_runtime() is not None:
        with pytest.warns(RuntimeWarning, match="elsewhere than is known"):
            assert launcher._set_up.__wrapped__() is None


@pytest.mark.spared
@pytest.mark.parametrize("system", ["freebsd14", "cygwin"])
def test_systems_on_which_code_cannot_be_mapped_say_so(system: str, tmp_path: Path) -> None:
    """As far as this system can play one; what can be done instead works."""
    file = tmp_path / "program.py"
    body = LAUNCH.format(before="import llvmlite.binding").partition("with warnings")[0]
    file.write_text(
        f"{body}sys.platform = {system!r}\n"
        "warnings.simplefilter('ignore')\n"
        "try:\n    scaled[(4,)](x, out, 100, BLOCK=32)\n"
        "except tw.TilewrightError as error:\n    print(error)\n"
        "tw.jit(scaled.fn, interpret=True)[(4,)](x, out, 100, BLOCK=32)\n"
        "print(np.array_equal(out, 3 * x))\n"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=True)
    message, right = done.stdout.splitlines()
    assert f"made for Linux, macOS and Windows, and this is {system}; TRITON_INTERPRET=1" in message
    assert right == "True"


def test_nothing_is_warned_of_where_all_is_well(tmp_path: Path) -> None:
    if launcher.is_native():
        assert outcome(tmp_path) == ("True", "[]")
    else:
        with warnings.catch_warnings(record=True) as caught:
            assert process.native_runtime() is None
        assert not caught, "once is enough"


@pytest.mark.spared
def test_functions_are_made_native_although_the_runtime_was_there_first(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "from tilewright.runtime.drivers.cpu import launcher\n"
        "assert launcher.is_native()\n"
        "import numpy as np, tilewright as tw\n"
        "@tw.jit\n"
        "def kernel(x): pass\n"
        "kernel[(1,)](np.zeros(1))\n"
        "print(type(tw.JITFunction.__getitem__).__name__)\n"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("wrapper_descriptor\n", "")
