"""Rows that a process prints one by one, and behind a fault of the GPU another one: what fails takes nothing with it.

rows = list(collected([sys.executable, "parts.py", "right", "--rows"], names, seconds=480))
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

PART_SECONDS = 480
"""Max seconds of a part, with the rows that others add to it."""
ROW_SECONDS = 90
"""Max seconds of a row; then its process is ended."""
GIVES_UP = 3
"""The exit status of a process that printed a row behind which its GPU is of no more use."""


def collected(
    command: Sequence[str], names: Sequence[str], *, seconds: float, row_seconds: float = 0.0
) -> Iterator[dict[str, Any]]:
    """A row per name.

    Args:
        command: with `--skip n` behind it, prints the rows from the n-th on, each a line of JSON.
        names: of all rows, in order.
        seconds: what all may take; what is not reached has a row that says so.
        row_seconds: what one may take; 0 for `ROW_SECONDS`.
    """
    end, done = time.monotonic() + seconds, 0
    while done < len(names) and time.monotonic() < end:
        before, status = done, 0
        with subprocess.Popen([*command, "--skip", str(done)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None, "asked for"
            while (line := _line(process, min(row_seconds or ROW_SECONDS, end - time.monotonic()))).startswith("{"):
                yield {"name": names[done], **json.loads(line)}
                done += 1
        status = process.returncode
        if done < len(names) and time.monotonic() < end and (status != GIVES_UP or done == before):
            yield {"name": names[done], "good": False, "problem": f"the process ended with status {status}"}
            done += 1
    for name in names[done:]:
        yield {"name": name, "skipped": f"not reached within {seconds:.0f} s"}


def _line(process: subprocess.Popen[str], seconds: float) -> str:
    """The next line; "" where the process ends, which it does at the latest after so many seconds."""
    assert process.stdout is not None, "asked for"
    timer = threading.Timer(max(seconds, 0.0), process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()


def print_one(row_of: Callable[[str], dict[str, Any]], names: Sequence[str], skip: int) -> NoReturn:
    """Print the row that `--skip` asks for, and end: the next one is of another process."""
    print(json.dumps(row_of(names[skip])), flush=True)
    os._exit(GIVES_UP)  # a context that a fault has spoilt may not even be taken down


def print_rows(row_of: Callable[[str], dict[str, Any]], names: Sequence[str], skip: int) -> int:
    """Print the rows from the `--skip`-th on, until one has a problem: then the next process begins behind it.

    Returns:
        The exit status.
    """
    for name in names[skip:]:
        row = row_of(name)
        print(json.dumps(row), flush=True)
        if "problem" in row:
            return GIVES_UP
    return 0


def add_rows(
    file: Path, command: Sequence[str], names: Sequence[str], *, row_seconds: float = 0.0, seconds: float = 0.0
) -> None:
    """Collect rows in so many seconds, or what a part has left, and put them behind its own, in place of older ones."""
    result, start = json.loads(file.read_text()), time.monotonic()
    left = seconds or PART_SECONDS - result.get("seconds", 0)
    kept = [row for row in result["rows"] if row["name"] not in names]
    result["rows"] = [*kept, *collected(command, names, seconds=left, row_seconds=row_seconds)]
    result["seconds"] = round(result.get("seconds", 0) + time.monotonic() - start)
    file.write_text(json.dumps(result, indent=1) + "\n")
