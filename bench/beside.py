"""Another tree of this project beside this one, row by row: `python bench/beside.py ../old`.

    python bench/beside.py ../old --only 'matmul|flash' --threads 2 --json beside.json
    python bench/beside.py ../old --threads 1 2 --cpus znver4 x86-64-v3 x86-64-v2 --seconds 0.5

Each tree has a process of its own with its own package and its own `launch.py`, which asks the package for more than
is public; the other rows are those of this tree. The two take turns of a few milliseconds, in the order old new new
old, so that a busy neighbour or a change of clock frequency hits both. `ratio` is the new time over the old one, the
median over all turns; in brackets its quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TURN = 4e-3
"""Seconds that a turn takes at least: shorter calls are repeated."""
LEAST = 12
"""Min number of turns of each tree per row."""
SLOWER = 1.03
"""The ratio above which rows are counted at the end of a table."""


class Tree:
    """A process that runs rows of one tree, compiled for a CPU; "": this one."""

    def __init__(self, root: Path, threads: int, cpu: str) -> None:
        self.caches = tempfile.TemporaryDirectory()
        folders = (root / "src", root / "bench", root / "examples")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "PYTHONDONTWRITEBYTECODE": "",
            "TRITON_CACHE_DIR": self.caches.name,
            "TRITON_ALWAYS_COMPILE": "1",
            "TILEWRIGHT_CPU": cpu,
        }
        command = [sys.executable, str(HERE / "beside.py"), str(root), "--threads", str(threads), "--serve"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *request: object) -> Any:
        """Send a request; returns the answer."""
        questions, answers = self.process.stdin, self.process.stdout
        assert questions, "it is piped"
        assert answers, "it is piped"
        print(json.dumps(request), file=questions, flush=True)
        answer = answers.readline()
        if not answer:
            raise ChildProcessError(f"a process ended with {self.process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin, "it is piped"
        self.process.stdin.close()
        self.process.wait()
        self.caches.cleanup()


class Server:
    """The process of a tree: rows are prepared by name, then run in turns."""

    def __init__(self, threads: int) -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        self.threads = threads
        self.clock = time.thread_time if threads == 1 else time.perf_counter
        self.works = dict(works(threads))
        self.work: Callable[[], object] | None = None
        self.count = 1

    def names(self) -> list[str]:
        """The names of all rows."""
        return list(self.works)

    def prepare(self, name: str) -> str:
        """Make the row ready; returns why it cannot be run, or nothing."""
        try:
            self.work = self.works[name]()
            once = min(self._seconds() for _ in range(3))
        except Exception as error:  # noqa: BLE001 - one broken row must not hide the others
            return f"{type(error).__name__}: {error}"
        self.count = max(1, int(TURN / max(once, 1e-9)))
        return ""

    def turn(self) -> float:
        """Seconds per call."""
        return self._seconds(self.count)

    def _seconds(self, count: int = 1) -> float:
        assert self.work, "a row was prepared"
        start = self.clock()
        for _ in range(count):
            self.work()
        return (self.clock() - start) / count


def works(threads: int) -> Iterator[tuple[str, Callable[[], Callable[[], object]]]]:
    """Names of rows, and what makes each ready."""
    from contests import CONTESTS
    from foreign import ROWS
    from foreign.problem import SIZES
    from functions import function_works
    from measure_start import COMPILED

    for row in CONTESTS:
        yield row.name, partial(ready, row, threads)
    for number, size in enumerate(SIZES):
        for problem in ROWS:
            yield f"{problem.name}, in {size}", partial(ready_problem, problem, number, threads)
    yield from function_works(threads)
    if threads == 1:
        yield from vectorized_works()
        for name, (make, *_) in COMPILED.items():
            yield f"compile {name}", partial(compilation, make)
        sys.path.remove(str(HERE))
        from launch import launches

        for name, statement, scope in launches():
            if "np." not in name and "torch.add" not in name:
                yield name, partial(statement_work, statement, scope)


def vectorized_works() -> Iterator[tuple[str, Callable[[], Callable[[], object]]]]:
    """Calls of vectorized functions: with Python's numbers, for the first time, and each expression on arrays."""
    import numpy as np
    from expressions import EXPRESSIONS, SIZES

    import tilewright as tw

    for expression in EXPRESSIONS:
        function = expression.function(np)
        yield f"vectorized {expression.name}, first call", partial(partial, first_call, tw.vectorize, function)
        scope = {"f": tw.vectorize(function)}
        yield f"vectorized {expression.name}, numbers", partial(statement_work, "f(2.0, 3.0)", scope)
        for size in SIZES[:2]:
            a, b = (np.linspace(-2, last, size) for last in (2, 2.5))
            yield f"vectorized {expression.name}, {size}", partial(partial, scope["f"], a, b)


def first_call(vectorize: Callable[[Any], Any], function: Any) -> None:
    """A new function, and its call with Python's numbers, which compiles it."""
    vectorize(function)(2.0, 3.0)


def ready(row: Any, threads: int) -> Callable[[], object]:
    """The launch of a contest, whose result was checked once."""
    contest = row.make()
    contest.check()
    return partial(contest.launch, contest.out, threads)


def ready_problem(row: Any, number: int, threads: int) -> Callable[[], object]:
    """The launch of a kernel of others on arrays of the size with that number, whose result was checked once."""
    problem = row.make(*row.shapes[number])
    problem.check({})
    return partial(problem.launch, problem.out, threads)


def compilation(make: Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]) -> Callable[[], object]:
    """A compilation from source to what can be launched; it includes executing the example's module."""

    def compile_once() -> None:
        kernel, values, constants = make()
        kernel.warmup(*values, **constants, grid=(1,))

    return compile_once


def statement_work(statement: str, scope: dict[str, Any]) -> Callable[[], object]:
    """Executing a statement a hundred times."""
    scope = dict(scope)
    exec(f"def repeat():\n for _ in range(100): {statement}", scope)
    work: Callable[[], object] = scope["repeat"]
    return work


def serve(threads: int) -> None:
    """Answer requests, one per line, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels and libraries print is no answer
    server = Server(threads)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(server, name)(*arguments)), file=answers, flush=True)


def compared(old: Tree, new: Tree, name: str, seconds: float) -> dict[str, Any]:
    """One row: times in seconds, and their ratio in each pair of turns."""
    for tree in (old, new):
        if error := tree.ask("prepare", name):
            return {"row": name, "error": error}
    end = time.perf_counter() + seconds
    ratios: list[float] = []
    times: dict[str, list[float]] = {"old": [], "new": []}
    while len(ratios) < LEAST or time.perf_counter() < end:
        first, second, third, fourth = (tree.ask("turn") for tree in (old, new, new, old))
        ratios += [second / first, third / fourth]
        times["old"] += [first, fourth]
        times["new"] += [second, third]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {"row": name, "ratio": middle, "quartiles": (low, high)} | {key: min(all) for key, all in times.items()}


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    if "error" in row:
        return f"{row['row']:52} {row['error']}"
    low, high = row["quartiles"]
    return f"{row['row']:52} {row['ratio']:6.3f} ({low:.3f} to {high:.3f})  {row['old'] * 1e6:12.2f} µs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the other tree")
    parser.add_argument("--only", default="", metavar="PATTERN", help="rows whose name matches this regular expression")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N", help="1 by default")
    parser.add_argument("--cpus", nargs="+", default=[""], metavar="CPU", help="to compile for; by default this one")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="per row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured there")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.threads)
        return
    rows = []
    for cpu in arguments.cpus:
        for threads in arguments.threads:
            print(f"\n{cpu or 'this CPU'}, threads: {threads}")
            rows += table(arguments, threads, cpu)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False))


def table(arguments: argparse.Namespace, threads: int, cpu: str) -> list[dict[str, Any]]:
    """All rows that are asked for, printed as they are measured."""
    old, new = (Tree(root.resolve(), threads, cpu) for root in (arguments.old, HERE.parent))
    shared = set(old.ask("names"))
    rows = []
    print(f"{'row':52} ratio (quartiles)              old, least")
    for name in new.ask("names"):
        if name in shared and re.search(arguments.only, name):
            rows.append(compared(old, new, name, arguments.seconds) | {"threads": threads, "cpu": cpu})
            print(line(rows[-1]), flush=True)
    for tree in (old, new):
        tree.close()
    found = [row["ratio"] for row in rows if "ratio" in row]
    if found:
        slower = f"{sum(ratio > SLOWER for ratio in found)} of {len(found)} above {SLOWER}"
        print(f"\nmedian {statistics.median(found):.3f}, greatest {max(found):.3f}, {slower}")
    return rows


if __name__ == "__main__":
    main()
