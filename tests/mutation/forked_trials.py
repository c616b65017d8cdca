"""A plugin of pytest that tries many mutants in forks of one process: `-p forked_trials`.

    TRIALS=5 python -m pytest -p forked_trials          5 is one end of a socket
    {"module": …, "old": …, "new": …, "tests": […], "seconds": {…}}  →  "tests/ir/test_core.py::test_walk"

The process imports and collects all tests once, then serves requests instead of running tests. For each it forks, gives
the functions of one module the code of a mutant, and runs tests until one fails. That takes a tenth of a new process.
The answer is that test, or an empty text; "?" if only a new process can tell, because the mutant changes what is
executed when the module is imported. The file has the mutant, too: processes that tests start import it.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol
from endless_tests import MIN_SECONDS, PATIENCE

PACKAGE = "tilewright"
UNKNOWN = "?"
ENDLESS = "it does not end"
Place = tuple[str, int]
"""The qualified name of a function and its first line."""
Change = tuple[FunctionType, CodeType]
"""A function and the code that it gets."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Serve requests until nobody asks any more."""
    items = {item.nodeid: item for item in session.items}
    functions = _functions_by_file()
    gc.freeze()
    with socket.socket(fileno=int(os.environ["TRIALS"])) as connection, connection.makefile("rw") as lines:
        for line in lines:
            lines.write(json.dumps(_answer(json.loads(line), items, functions)) + "\n")
            lines.flush()
    return True


def _functions_by_file() -> dict[str, list[FunctionType]]:
    """The functions of the package that exist, by the file that they are written in."""
    found: dict[str, list[FunctionType]] = {}
    gc.unfreeze()
    for function in gc.get_objects():
        if type(function) is FunctionType and f"{os.sep}{PACKAGE}{os.sep}" in function.__code__.co_filename:
            found.setdefault(function.__code__.co_filename, []).append(function)
    return found


def _answer(request: dict, items: dict[str, pytest.Item], functions: dict[str, list[FunctionType]]) -> str:
    """The answer of a fork; it is ended when a test computes or waits for too long."""
    module = sys.modules.get(request["module"])
    tests = [items[test] for test in request["tests"] if test in items]
    if module is None or len(tests) < len(request["tests"]):
        return UNKNOWN
    file = str(module.__file__)
    code = new_code(file, request["old"], request["new"], functions.get(file, []))
    if code is None:
        return UNKNOWN
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        for function, changed in code:
            function.__code__ = changed
        _run(tests, request["seconds"], writes)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    _end(child)
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return ENDLESS if ended else f"the process ends with signal {os.WTERMSIG(status)}"
    return said[0] if said else "the process ends"


def _end(child: int) -> None:
    """End the processes that tests have left."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def new_code(file: str, old: str, new: str, functions: list[FunctionType]) -> list[Change] | None:
    """The functions whose code a mutant changes with their new code; None if it changes more than functions.

    Args:
        file: the name of the file.
        old, new: its text, without and with the mutant.
        functions: those that exist, by the old text.
    """
    before, after = (dict(_codes(compile(text, file, "exec", dont_inherit=True))) for text in (old, new))
    there = {_place(function.__code__) for function in functions}
    if before.keys() != after.keys():
        return None
    for place, code in before.items():
        if _own(code) != _own(after[place]) and place not in there and "<locals>" not in place[0]:
            return None
    placed = [(function, _place(function.__code__)) for function in functions]
    changed = [(function, after[place]) for function, place in placed if before.get(place) != after.get(place)]
    fits = all(len(code.co_freevars) == len(function.__code__.co_freevars) for function, code in changed)
    return changed if fits and (changed or old == new) else None


def _codes(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    yield _place(code), code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _place(code: CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def _own(code: CodeType) -> tuple:
    """The instructions and constants of a code, without the functions inside it."""
    constants = tuple((type(one), one) for one in code.co_consts if not isinstance(one, CodeType))
    return code.co_code, constants, code.co_names, code.co_varnames


def _run(tests: list[pytest.Item], seconds: dict[str, float], pipe: int) -> None:
    """Run tests until one fails, and say which."""
    folder = tempfile.mkdtemp(prefix="mutant-")
    os.environ["TRITON_CACHE_DIR"] = folder
    try:
        failed = ""
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            cost = seconds.get(test.nodeid, 0)
            signal.setitimer(signal.ITIMER_PROF, MIN_SECONDS + PATIENCE * cost)
            signal.alarm(int(120 + 20 * cost))
            reports = runtestprotocol(test, nextitem=following, log=False)
            if any(report.failed for report in reports):
                failed = test.nodeid
                break
        os.write(pipe, f"{failed}\n".encode())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Forks:
    """The process that forks, as it is seen by who asks it.

    Args:
        folder: where the tests are started.
        environment: what the process finds there.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        mine, other = socket.socketpair()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "forked_trials"]
        with other:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, "TRIALS": str(other.fileno())},
                pass_fds=[other.fileno()],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._lines = mine.makefile("rw")
        mine.close()

    def first_failure(self, module: str, old: str, new: str, seconds: dict[str, float]) -> str:
        """The first of some tests that fails with another text of a module.

        Args:
            module: its name.
            old, new: its text, without and with the mutant.
            seconds: the tests, with what they took before.
        """
        request = {"module": module, "old": old, "new": new, "tests": list(seconds), "seconds": seconds}
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        answer: str = json.loads(self._lines.readline())
        return answer

    def end(self) -> None:
        """End the process."""
        self._lines.close()
        self._process.wait()
