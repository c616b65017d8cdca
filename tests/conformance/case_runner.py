"""Cases that run in processes of their own: one that crashes or hangs ends its process, and the next goes on behind it.

    run_cases(["a", "b"], [sys.executable, __file__, "--child"], Path("out.jsonl"), Limits(seconds=120, cases=150))

A process writes a line when it is ready. It reads the name of a case per line, and answers each with a line of JSON,
`{"case": …, "result": …}`. The answers are added to a file; `outcomes` reads it, so that a run which was stopped leaves
out what it knows.
"""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.support.progress import Progress

Outcome = dict[str, Any]
"""The answer of a process: `case`, `result`, and what else it has found out."""


@dataclass(frozen=True)
class Limits:
    """The seconds that a case may take, and how many cases a process runs, since compiled functions pile up."""

    seconds: float
    cases: int


class NotReady(Exception):
    """A process ended before its first case: no case is the cause."""


def outcomes(path: Path) -> dict[str, Outcome]:
    """The answers in a file by their cases; nothing where there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {outcome["case"]: outcome for outcome in map(json.loads, lines)}


def run_cases(
    cases: Sequence[str], command: Sequence[str], out: Path, limits: Limits, variables: Mapping[str, str] | None = None
) -> None:
    """Run the cases that the file does not know yet.

    Args:
        cases: their names, which are lines.
        command: starts a process that reads names and answers.
        out: where the answers are added.
        limits: of a case, and of a process.
        variables: the environment of the processes; None: that of this one.

    Raises:
        NotReady: a process ended before it was ready.
    """
    known = outcomes(out)
    left = [case for case in cases if case not in known]
    with Progress("running cases", len(left)) as progress:
        done = 0
        while done < len(left):
            some = left[done : done + limits.cases]
            done += _run_some(some, command, out, limits.seconds, variables, partial(_show, progress, done))


def _show(progress: Progress, before: int, number: int) -> None:
    progress.at(before + number)


def _run_some(
    cases: Sequence[str],
    command: Sequence[str],
    out: Path,
    seconds: float,
    variables: Mapping[str, str] | None,
    on_answer: Callable[[int], object],
) -> int:
    """Run cases in one process until it ends or hangs; gives how many have an outcome now."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process: Any = subprocess.Popen(command, text=True, env=variables, **pipes)
    with process as child, out.open("a") as log:
        try:
            if not child.stdout.readline():
                raise NotReady(" ".join(command))
            for number, case in enumerate(cases, 1):
                answer = _answer(child, case, seconds)
                log.write(answer or f"{json.dumps({'case': case, **_end(child)})}\n")
                log.flush()
                on_answer(number)
                if not answer:
                    return number
        finally:
            child.kill()
    return len(cases)


def _answer(child: Any, case: str, seconds: float) -> str:
    """The line that a process answers; empty if it ended, or took too long."""
    try:
        child.stdin.write(f"{case}\n")
        child.stdin.flush()
    except BrokenPipeError:
        return ""
    ready, _, _ = select.select([child.stdout], [], [], seconds)
    return str(child.stdout.readline()) if ready else ""


def _end(child: Any) -> Outcome:
    """The outcome of a case that has no answer."""
    try:
        status = child.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return {"result": "crashes", "detail": "takes too long"}
    return {"result": "crashes", "detail": f"exit status {status}"}
