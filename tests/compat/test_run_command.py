"""`tilewright run`: programs see what they see under plain Python, and our `triton`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.tools.main import main
from tilewright.tools.run_command import PACKAGE_PATH, interpreter_flags

KERNEL = """
import sys
import numpy as np
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def doubled(n):
    x = np.arange(n, dtype=np.int32)
    double[(1,)](x, n, BLOCK=16)
    return x.tolist()
"""


def run(
    folder: Path, *arguments: str, flags: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """`tilewright run` in `folder`."""
    command = [sys.executable, *flags, "-m", "tilewright", "run", *arguments]
    return subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=100, check=False
    )


def output(folder: Path, *arguments: str, **variables: str) -> list[str]:
    done = run(folder, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_script_sees_its_arguments_and_launches_kernels(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        KERNEL + "print(__name__, __file__, sys.argv, sys.path[0])\n"
        "if __name__ == '__main__':\n    print(doubled(5), triton.__file__)\n"
    )

    about, result = output(tmp_path, "program.py", "-m", "--help", "a b")

    assert about == f"__main__ {tmp_path}/program.py ['program.py', '-m', '--help', 'a b'] {tmp_path}"
    assert result == f"[0, 2, 4, 6, 8] {PACKAGE_PATH / 'triton' / '__init__.py'}"


@pytest.mark.slow
def test_module_is_found_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys, triton\nprint(__name__, __package__, sys.argv[1:])\n"
    )

    assert output(tmp_path, "-m", "package", "-q") == ["__main__ package ['-q']"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_exit_status_is_that_of_the_program(program: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)

    assert run(tmp_path, "program.py").returncode == status


@pytest.mark.slow
def test_traceback_begins_in_the_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import triton\n\ndef fail():\n    return 1 / 0\n\nfail()\n")

    lines = run(tmp_path, "program.py").stderr.splitlines()

    assert lines[:2] == ["Traceback (most recent call last):", f'  File "{tmp_path}/program.py", line 6, in <module>']
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.spared
def test_compilation_error_names_the_line_of_the_program(tmp_path: Path) -> None:
    text = "import triton\n\n@triton.jit\ndef wrong(x):\n    y = unknown\n\nwrong[(1,)](1)\n"
    (tmp_path / "program.py").write_text(text)

    assert f"--> {tmp_path}/program.py:5:9" in run(tmp_path, "program.py").stderr


@pytest.mark.slow
def test_compilation_error_that_nobody_catches_is_short(tmp_path: Path) -> None:
    text = (
        "import triton\nimport triton.language as tl\n\n"
        "@triton.jit\ndef helper(x):\n    return tl.arange(0, 33)\n\n"
        "@triton.jit\ndef wrong(x):\n    helper(x)\n\nwrong[(1,)](1)\n"
    )
    (tmp_path / "program.py").write_text(text)

    lines = run(tmp_path, "program.py").stderr.splitlines()
    assert len(lines) == 11
    assert lines[2] == "    wrong[(1,)](1)"
    assert lines[-1].startswith("help: ")

    caught = "import sys\nsys.excepthook = lambda kind, error, trace: print(type(error.__cause__).__name__)\n"
    (tmp_path / "program.py").write_text(caught + text)
    assert run(tmp_path, "program.py").stdout == "CompilationError\n"


@pytest.mark.slow
def test_child_processes_have_our_triton_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        KERNEL + "import multiprocessing, subprocess\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'forkserver'):\n"
        "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
        "            print(pool.map(doubled, [3]))\n"
        "    question = [sys.executable, '-c', 'import triton; print(triton.__file__)']\n"
        "    print(subprocess.check_output(question, text=True).strip() == triton.__file__)\n"
    )

    assert output(tmp_path, "program.py") == ["[[0, 2, 4]]", "[[0, 2, 4]]", "True"]


@pytest.mark.slow
def test_other_tritons_do_not_shadow_ours(tmp_path: Path) -> None:
    for folder in ("beside", "installed"):  # a checkout next to the script, a package that is installed
        (tmp_path / folder / "triton" / "_C").mkdir(parents=True)
        (tmp_path / folder / "triton" / "__init__.py").write_text("raise ImportError('the wrong one')")
    (tmp_path / "beside" / "helper.py").write_text("NAME = 'helper'")
    (tmp_path / "beside" / "program.py").write_text(
        "import triton, helper\nprint(triton.__version__, helper.NAME)\n"
        "try:\n    import triton._C.other\nexcept ImportError as error:\n    print(error)\n"
    )

    lines = output(tmp_path, "beside/program.py", PYTHONPATH=str(tmp_path / "installed"))

    assert lines == ["3.5.1 helper", "No module named 'triton._C.other'"]
    assert output(tmp_path / "beside", "-m", "program") == lines


@pytest.mark.spared
def test_earlier_entries_of_the_path_stay(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.path[2])")

    assert output(tmp_path, "program.py", PYTHONPATH="/some/folder") == ["/some/folder"]


@pytest.mark.parametrize("arguments", [(), ("-m",)])
def test_nothing_to_run(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *arguments]) == 1
    assert capsys.readouterr().err == "tilewright run needs a script, or -m and a module\n"


@pytest.mark.spared
def test_the_command_does_not_import_the_compiler() -> None:
    code = "import sys; from tilewright.tools.main import main; main(['run']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tilewright.tools.run_command" in done.stdout.split()
    assert not {"tilewright.tools.explain", "tilewright.transforms.pipeline"} & set(done.stdout.split())


@pytest.mark.slow
def test_python_that_ignores_its_path_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "program.py", flags=("-E",))

    assert done.returncode == 1
    assert "needs PYTHONPATH, which Python ignores under -E and -I" in done.stderr


@pytest.mark.slow
def test_flags_of_python_go_along(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.flags.optimize, sys.flags.dev_mode)")

    assert run(tmp_path, "program.py", flags=("-O", "-X", "dev")).stdout == "1 True\n"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (["python", "-m", "tilewright", "run", "a.py"], []),
        (["python", "-X", "dev", "-m", "tilewright", "run", "a.py"], ["-X", "dev"]),
        (["python", "-Om", "tilewright", "run", "a.py"], ["-O"]),
        (["python", "-mtilewright", "run", "a.py"], []),
        (["python", "-W", "error", "/bin/tilewright", "run", "a.py"], ["-W", "error"]),
    ],
)
def test_flags_are_what_precedes_the_program(command: list[str], flags: list[str]) -> None:
    assert interpreter_flags(command, ["tilewright", "run", "a.py"]) == flags
