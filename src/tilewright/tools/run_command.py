"""`tilewright run`: a program written for Triton runs unmodified; its `import triton` finds Tilewright.

    tilewright run train.py --epochs 3
    tilewright run -m pytest tests

The process becomes a new Python with the folder of our `triton` package first on PYTHONPATH, so child processes find it
too. Scripts have the same environment as under plain `python`: `__main__`, `sys.argv`, exit status, signals,
tracebacks. Programs that Triton refuses are refused, unless the environment allows them, so that a program that runs
here also runs there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.support.diagnostics import TilewrightError
from tilewright.support.knob_kinds import getenv, setenv

PACKAGE_PATH = Path(__file__).parents[1] / "compat" / "path"
"""The folder that holds our `triton`."""
LEAVE_LOOPS = "TILEWRIGHT_LEAVE_LOOPS"


class RunError(TilewrightError):
    """`tilewright run` was called in a way that cannot work."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """A module or a script, and everything behind it."""
    rest = argparse.REMAINDER
    command.add_argument("-m", dest="module", nargs=rest, metavar="MODULE", help="run a module, as `python -m` does")
    command.add_argument("script", nargs=rest, metavar="SCRIPT [ARGS]", help="run a file, with these arguments")


def run(options: argparse.Namespace) -> int:
    """Replace this process by the program; returns only when that fails."""
    program: list[str] = options.script if options.module is None else ["-m", *options.module]
    if not program or program == ["-m"]:
        raise RunError("tilewright run needs a script, or -m and a module")
    if sys.flags.ignore_environment:
        raise RunError("tilewright run needs PYTHONPATH, which Python ignores under -E and -I")
    flags = interpreter_flags(sys.orig_argv, sys.argv)
    path = [str(PACKAGE_PATH)]
    folder = Path() if options.module is not None else Path(program[0]).parent
    if has_triton(folder):  # Python would look there first: let it look there second
        flags.append("-P")
        path.append(str(folder.resolve()))
    path += filter(None, [getenv("PYTHONPATH")])
    setenv("PYTHONPATH", os.pathsep.join(path))
    if getenv(LEAVE_LOOPS) is None:
        setenv(LEAVE_LOOPS, "0")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *flags, *program])


def interpreter_flags(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The flags with which Python itself was started, such as `-X faulthandler`.

    Args:
        command: the whole command line (`sys.orig_argv`).
        arguments: what the program sees of it (`sys.argv`).
    """
    flags = list(command[1 : -len(arguments)])
    if flags and flags[-1].startswith("-") and flags[-1].endswith("m"):  # of `python -m tilewright`
        flags[-1] = flags[-1][:-1]
    return [flag for flag in flags if flag != "-"]


def has_triton(folder: Path) -> bool:
    """Whether Python would find another `triton` in `folder`, such as a checkout of Triton's sources."""
    return (folder / "triton").is_dir() or (folder / "triton.py").is_file()
