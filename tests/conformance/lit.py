"""Triton's lit tests on the passes of `tilewright opt`: a part of `docs/conformance.md` is what this prints.

    python tests/conformance/lit.py ~/triton Triton/combine.mlir             # one file: what passes, what fails
    python tests/conformance/lit.py ~/triton.git@8a34c216a Triton/combine.mlir -v     # and what FileCheck says
    python tests/conformance/lit.py ~/triton Triton/combine.mlir -f test_combine_dot -v       # one function
    python tests/conformance/lit.py ~/triton.git --page                      # all of lit.toml, into the page

The first argument is a source tree of Triton, or a repository with a revision; nothing of it is in this repository.
FileCheck comes with Triton's wheel: it is looked for beside `TRITON_PYTHON`, the interpreter of an environment with
Triton, unless `--filecheck` says where it is.

Flags of the RUN lines are passes of `tilewright opt` (`tools/opt_passes.py`). What is counted are functions. FileCheck
looks at whole files; where it is not content, or a pass fails, each function is tried with its own comments only. Of a
diagnostic that a file expects the place must be right, and the text of remarks; words of errors are our own.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lit_files import (
    Expectation,
    Function,
    OptCommand,
    RunLine,
    Tree,
    expectations,
    functions,
    has_directives,
    only,
    run_lines,
)

from tilewright.ir.core import Op
from tilewright.ir.errors import ParseError, VerificationError, source_of
from tilewright.ir.printer import print_op
from tilewright.support.progress import Progress
from tilewright.tools.kernels import UsageError
from tilewright.tools.opt_passes import find_passes
from tilewright.tools.opt_run import Segment, read_module, run_requests, split_segments

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
HEADING = "# Triton's lit tests"
SPELLINGS = {
    "3.5": (
        (re.compile(r"ttg\.barrier local"), "gpu.barrier"),
        (re.compile(r"(?<=pendings = 0 : i32), read_only(?=})"), ""),
        (re.compile(r"(?<=[{ ])contiguity = \d+ : i32, | {contiguity = \d+ : i32}"), ""),
    )
}
"""Texts that a version writes otherwise.

In 3.5 barriers do not say which memory they order, waits not what for, and copies not how many neighbours they copy.
"""
NAMES = re.compile(
    r'(?:[a-z]\w*\.[a-z][\w.]*|\bpartition\d?|\btc_gen5_mma|\btmem_load)(?: = (?:\d+|array<[^>]*>))?|"\w+"'
)
"""Ops and attributes with their numbers in a line that FileCheck looks for."""
SECONDS = 30
"""Max seconds that the passes may take for one segment."""


@dataclass(frozen=True)
class Result:
    """The outcome of one function; `problem` is empty when it passed."""

    name: str
    problem: str = ""


@dataclass(frozen=True)
class Said:
    """A diagnostic of ours."""

    kind: str
    line: int
    text: str


class Failure(Exception):
    """A text did not get through the passes."""


class Runner:
    """Runs files of one tree.

    Args:
        tree: where the files are.
        filecheck: the program.
        options: per flag options that the passes of this version have.
    """

    def __init__(self, tree: Tree, filecheck: str, options: Mapping[str, Mapping[str, str]]) -> None:
        self.tree, self.filecheck = tree, filecheck
        self._options = options.get(tree.version, {})

    def results(self, name: str) -> list[Result] | None:
        """One result per function of a file, over all its RUN lines; None when there is no such file."""
        text = self.tree.read(name)
        if text is None:
            return None
        found: dict[tuple[int, str], str] = {}
        for line in run_lines(text, self._options):
            for (start, function), problem in self._run(text, name, line):
                found[start, function] = found.get((start, function)) or problem
        return [Result(function, problem) for (_, function), problem in found.items()]

    def _run(self, text: str, name: str, line: RunLine) -> Iterator[tuple[tuple[int, str], str]]:
        """The problem of each function in one RUN line."""
        split = any(command.split for command in line.commands)
        segments = split_segments(text) if split else [Segment(text, 1)]
        for segment in segments:
            found = functions(segment.text)
            try:
                checked = self._check_segment(segment, found, name, line)
            except Failure as failure:
                checked = [str(failure)] * len(found)
            yield from (((f.start, f.name), problem) for f, problem in zip(found, checked, strict=True))

    def _check_segment(self, segment: Segment, found: list[Function], name: str, line: RunLine) -> list[str]:
        """The problem of each function of a segment."""
        if line.missing or not line.commands:
            raise Failure(f"needs {line.missing or 'another program'}")
        if line.commands[-1].verify and (expected := list(expectations(segment.text))):
            return self._check_diagnostics(segment, found, name, line, expected)
        if line.check is None:
            return [self._printed(segment.text, name, line)[1]] * len(found)
        printed, problem = self._printed(segment.text, name, line)
        if not problem and not self._filecheck(segment.text, printed, line):
            return [""] * len(found)
        return [self._check_alone(segment.text, found, function, name, line, printed) for function in found]

    def _check_alone(
        self, text: str, found: list[Function], function: Function, name: str, line: RunLine, printed: str
    ) -> str:
        """The problem of one function, checked with its own comments only."""
        wanted = only(text, found, function, comments=True)
        if not printed:
            printed, problem = self._printed(only(text, found, function), name, line)
            if problem:
                return problem
        made = functions(printed)
        same = [f for f in made if f.name == function.name]
        return self._filecheck(wanted, only(printed, made, same[0]) if same else printed, line)

    def _printed(self, text: str, name: str, line: RunLine) -> tuple[str, str]:
        """The text that the commands make of a text, and what went wrong."""
        try:
            for command in line.commands:
                module = _module(text, name, command)
                _run_passes(module, command)
                text = self._text(module, command)
        except Failure as failure:
            return "", str(failure)
        return text, ""

    def _text(self, module: Op, command: OptCommand) -> str:
        """The module as this version of Triton spells it."""
        text = print_op(module, locations=command.locations, triton=self.tree.version)
        for ours, theirs in SPELLINGS.get(self.tree.version, ()):
            text = ours.sub(theirs, text)
        return text

    def _filecheck(self, wanted: str, printed: str, line: RunLine) -> str:
        """The message of FileCheck; nothing if it is content, or has nothing to do."""
        if not has_directives(wanted, line.prefixes):
            return ""
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(wanted)
            file.flush()
            command = [self.filecheck, *(line.check or ()), "--allow-unused-prefixes", "--dump-input=never", file.name]
            done = subprocess.run(command, input=printed, text=True, capture_output=True, check=False)
        return done.stderr.replace(file.name, "check") + printed if done.returncode else ""

    def _check_diagnostics(
        self, segment: Segment, found: list[Function], name: str, line: RunLine, expected: list[Expectation]
    ) -> list[str]:
        """The diagnostics that are missing, or not expected, per function."""
        said = _diagnostics(segment.text, name, line.commands[-1])
        texts = [segment.text]
        if any(s.kind == "error" for s in said) and len(found) > 1:  # the first error hides the others
            texts = [only(segment.text, found, function) for function in found]
            said = [s for text in texts for s in _diagnostics(text, name, line.commands[-1])]
        everything = line.commands[-1].verify == "all"
        return [_differences(f, found, expected, said, unexpected=everything) for f in found]


def _differences(
    function: Function, found: list[Function], expected: list[Expectation], said: list[Said], *, unexpected: bool
) -> str:
    last = max((f.end for f in found), default=0)

    def is_here(number: int) -> bool:
        return function.lead <= number <= function.end or (function.end == last and number > last)

    wanted = [e for e in expected if is_here(e.line) and e.kind != "note"]
    left = [s for s in said if is_here(s.line)]
    lines = []
    for expectation in wanted:
        candidates = said if expectation.kind == "error" else left  # MLIR may say twice that something is wrong
        match = next((s for s in candidates if _is_same(expectation, s)), None)
        if match is None:
            lines.append(f"line {expectation.line}: expected {expectation.kind}: {expectation.text}")
        elif match in left:
            left.remove(match)
    if lines or unexpected:
        lines += [f"line {s.line}: {s.kind}: {s.text}" for s in left]
    return "\n".join(lines)


def _is_same(expected: Expectation, said: Said) -> bool:
    """Errors need not be in Triton's words."""
    if expected.kind != said.kind or expected.line != said.line:
        return False
    return said.kind == "error" or expected.matches(said.text)


def _diagnostics(text: str, name: str, command: OptCommand) -> list[Said]:
    """The errors, warnings and remarks about a text."""
    try:
        with _limited():
            module = _read(text, name, command)
            said = run_requests(module, _requests(command), levels=False)
        return [Said(kind, source_of(op.location).line, text) for op, text, kind in said]
    except ParseError as error:
        return [Said("error", error.line, error.problem)]
    except VerificationError as error:
        return [Said("error", source_of(error.op.location).line, error.rule)]
    except UsageError as error:
        raise Failure(str(error).partition("\n")[0]) from error
    except Exception as error:
        raise Failure(_crash(error)) from error


def _module(text: str, name: str, command: OptCommand) -> Op:
    try:
        with _limited():
            return _read(text, name, command)
    except (ParseError, VerificationError) as error:
        raise Failure(str(error)) from error
    except Exception as error:
        raise Failure(_crash(error)) from error


def _read(text: str, name: str, command: OptCommand) -> Op:
    return read_module(text, name, unregistered=command.unregistered, names=command.names)


def _run_passes(module: Op, command: OptCommand) -> None:
    try:
        with _limited():
            run_requests(module, _requests(command), levels=False)
    except UsageError as error:
        raise Failure(str(error).partition("\n")[0]) from error
    except VerificationError as error:
        raise Failure(str(error)) from error
    except Exception as error:
        raise Failure(_crash(error)) from error


def _requests(command: OptCommand) -> list[Any]:
    return [request for flag in command.passes for request in find_passes(flag)]


def _crash(error: Exception) -> str:
    """Our own mistake: the exception, and where it comes from."""
    return "".join(traceback.format_exception(error)[-4:]).rstrip()


@contextmanager
def _limited() -> Iterator[None]:
    """A TimeoutError after some time."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no result within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- the command ----------------------------------------------------------------------------------------------------


def main() -> int:
    """Run the files; print the failures, or write the page."""
    parser = argparse.ArgumentParser(description="Triton's lit tests on Tilewright")
    parser.add_argument("tree", help="a source tree of Triton; PATH@REVISION for a repository")
    parser.add_argument("files", nargs="*", help="files below its folder `test`; without them, those of lit.toml")
    parser.add_argument("--filecheck", default=None, help="the program FileCheck")
    parser.add_argument(
        "-f", "--function", default="*", help="only functions with such a name (* and ? may stand in it)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print all that FileCheck says")
    parser.add_argument("--page", action="store_true", help="write the part of docs/conformance.md")
    options = parser.parse_intermixed_args()
    filecheck = options.filecheck or find_filecheck()
    if filecheck is None:
        parser.error("there is no FileCheck: set TRITON_PYTHON, or say where it is with --filecheck")
    plan = tomllib.loads((HERE / "lit.toml").read_text())
    if options.page:
        write_page(options.tree.partition("@")[0], filecheck, plan)
        return 0
    runner = Runner(tree_of(options.tree), filecheck, plan.get("options", {}))
    names = options.files or [name for group in plan["files"].values() for name in group]
    failed = 0
    with Progress("running files", len(names)) as progress:
        for number, name in enumerate(names):
            progress.at(number)
            failed += report(runner, name, options.function, options.verbose, progress.write)
    return 1 if failed else 0


def tree_of(text: str) -> Tree:
    """`PATH` or `PATH@REVISION`."""
    path, _, revision = text.partition("@")
    return Tree(Path(path).expanduser(), revision)


def find_filecheck() -> str | None:
    """FileCheck of the environment of `TRITON_PYTHON`, or of this machine."""
    python = os.environ.get("TRITON_PYTHON")
    if python:
        found = sorted(Path(python).parents[1].glob("lib/python*/site-packages/triton/FileCheck"))
        if found:
            return str(found[0])
    return shutil.which("FileCheck")


def report(runner: Runner, name: str, wanted: str, verbose: bool, write: Callable[[str], None]) -> int:
    """Write how the functions of one file fare; returns how many fail."""
    results = runner.results(name)
    if results is None:
        write(f"{name:60} absent")
        return 0
    results = [result for result in results if fnmatch(result.name, wanted)]
    failed = [result for result in results if result.problem]
    write(f"{name:60} {len(results) - len(failed):4} of {len(results)}")
    for result in failed:
        lines = result.problem.strip().splitlines() or [""]
        write(f"  {result.name}: {lines[0]}")
        if verbose:
            write("\n".join(f"      {line}" for line in lines[1:]))
    return len(failed)


def write_page(path: str, filecheck: str, plan: dict[str, Any]) -> None:
    """Replace the part of the page behind its heading, or add it."""
    folder, options = Path(path).expanduser(), plan.get("options", {})
    columns = {title: Runner(Tree(folder, revision), filecheck, options) for title, revision in plan["trees"].items()}
    found = {
        name: {title: runner.results(name) for title, runner in columns.items()}
        for group in plan["files"].values()
        for name in group
    }
    text = PAGE.read_text().partition(f"{HEADING}\n")[0].rstrip()
    PAGE.write_text("\n".join([text, "", *page(found, plan)]) + "\n")


def page(found: dict[str, dict[str, list[Result] | None]], plan: dict[str, Any]) -> Iterator[str]:
    """The lines of the part: a table per group of files, then the failures by reason."""
    titles = list(plan["trees"])
    yield from (HEADING, "", plan["introduction"].strip())
    for group, names in plan["files"].items():
        yield from ("", f"## {group}", "", f"| file | {' | '.join(titles)} |", f"|---|{'---:|' * len(titles)}")
        for name in names:
            yield f"| {name} | {' | '.join(_cell(found[name][title]) for title in titles)} |"
        yield f"| all | {' | '.join(_total([found[name][title] for name in names]) for title in titles)} |"
    yield from ("", "## Functions that fail", "", "| file | functions | reason |", "|---|---|---|")
    for name, columns in found.items():
        yield from _failures(name, columns, plan.get("reasons", {}))
    yield from ("", plan["details"]["introduction"].strip(), "")
    yield from ("| file | function | version | not there |", "|---|---|---|---|")
    yield from _details(found, plan["details"]["files"])


def _cell(results: list[Result] | None) -> str:
    if results is None:
        return "–"
    return f"{sum(not result.problem for result in results)} of {len(results)}"


def _total(columns: Sequence[list[Result] | None]) -> str:
    everything = [result for results in columns for result in results or ()]
    passed = sum(not result.problem for result in everything)
    return f"{passed} of {len(everything)} ({passed / max(1, len(everything)):.1%})"


def _details(found: dict[str, dict[str, list[Result] | None]], names: Sequence[str]) -> Iterator[str]:
    """A row per function that fails in these files: what it wants first that is not there."""
    for name in names:
        rows: dict[tuple[str, str], list[str]] = {}
        for title, results in found[name].items():
            for result in results or ():
                if result.problem:
                    rows.setdefault((result.name, unmet(result.problem)), []).append(title)
        for (function, wanted), titles in rows.items():
            yield f"| {name} | `{function}` | {', '.join(dict.fromkeys(titles))} | {wanted} |"


def unmet(problem: str) -> str:
    """The first thing that a function wants and does not get: ops and attributes of a line, or a diagnostic."""
    first, *lines = problem.strip().splitlines()
    wanted = re.search(r"CHECK[\w-]*: *(.*)", lines[0]) if lines and "error: CHECK" in first else None
    if wanted is None:
        return first.partition(", did you")[0].replace("|", "\\|")
    return ", ".join(f"`{name}`" for name in dict.fromkeys(NAMES.findall(wanted[1]))) or "another line"


def _failures(name: str, columns: dict[str, list[Result] | None], reasons: dict[str, str]) -> Iterator[str]:
    """One row per reason."""
    failed = {result.name: result.problem for results in columns.values() for result in results or () if result.problem}
    rows: dict[str, list[str]] = {}
    for function, problem in failed.items():
        patterns = (reason for pattern, reason in reasons.items() if fnmatch(f"{name}::{function}", pattern))
        rows.setdefault(next(patterns, _by_itself(problem)), []).append(f"`{function}`")
    for reason, names in rows.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        yield f"| {name} | {shown} | {reason} |"


def _by_itself(problem: str) -> str:
    """The reason of a failure that nobody has looked at."""
    first = problem.strip().splitlines()[0]
    for start in ("there is no pass", "needs "):
        if first.startswith(start):
            return first.partition(", did you")[0]
    return "not yet looked at"


if __name__ == "__main__":
    sys.exit(main())
