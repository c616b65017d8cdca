"""Mutants of Triton's tutorials of Gluon: one barrier, wait or fence is missing, and the simulator is to say so.

    python tests/conformance/gluon_mutants.py ~/triton.git                 # all tutorials
    python tests/conformance/gluon_mutants.py ~/triton.git 04 08           # some
    python tests/conformance/gluon_mutants.py ~/triton.git --into counts.json --minutes 10

With `--into` a file keeps the outcomes of each tutorial, and those that it has of the same sources of Tilewright are
not tried again: a call that was stopped, or stopped itself after some minutes, is continued by the next one. At the end
the script prints one table of all that the file has.

Each statement that synchronises is taken out in turn, and the cases of `gluon_tutorials.py` run until one reports, with
only the fences that the program has (those of the compiler, too, where it is reported as it is), on a GPU of two
multiprocessors, so that persistent programs have several tiles.
`reported` are mutants that end with a report. `other result` are those whose results are wrong without
one, and `same result` those that run as ever; mutants whose kernels are the same as without the change, because no case
comes to the statement or the compiler puts one there itself, are not counted, nor are those of EQUIVALENT.
Arguments are as for `gluon_tutorials.py`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gluon_tutorials import CASES, SOURCE, unpack

GOES = (
    "arrive", "barrier", "fence_async_shared", "mbarrier_arrive", "store_wait", "tcgen05_commit", "wait", "wait_group"
)
"""Functions whose calls are taken out."""
EQUIVALENT = {
    "08-warp-specialization:215": "a fence between loads of shared memory and the arrival that the next copy to the "
    "place waits for: the loads have their values before the arrival, and the fence orders stores, of which there are "
    "none",
    "11-tcgen05-mma-scaled:1311": "a barrier between loads of tensor memory and the product that writes there: without "
    "it, the compiler puts one between the copies of scales in front of the product, which read what threads share",
}
"""Mutants that do what the program does, by tutorial and line, and why."""
RUNS_ON = "warpgroup_mma_wait"
"""A function whose first argument says how many products may run on: all may."""
MOST = "7"
SAME = "same result"
SECONDS = 120
"""For each run of a case."""
PROGRAM = """
import hashlib, importlib.util, json, os, signal, sys, types
import numpy, torch, tilewright
import triton._C.libtriton
import tilewright.runtime.drivers.simulated.gpu as gpu
triton._C.libtriton.gluon_ir = types.ModuleType("gluon_ir")
torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(multi_processor_count=2)
seen, load = [], gpu.load

def noted(text):
    lines = [line for line in text.splitlines() if not line.strip().startswith((".loc", "//", ".file"))]
    seen.append(hashlib.sha256("\\n".join(lines).encode()).hexdigest())
    return load(text)

gpu.load = noted

def outcome(path, function, arguments, capability):
    try:
        with tilewright.simulate(f"cuda:{capability}"):
            spec = importlib.util.spec_from_file_location("tutorial", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules["tutorial"] = module
            spec.loader.exec_module(module)
            torch.manual_seed(0)
            found = [eval(value[1:], vars(module)) if str(value)[:1] == "=" else value for value in arguments]
            getattr(module, function)(*found)
    except tilewright.SimulationError as error:
        return f"reported {error.kind}"
    except AssertionError:
        return "other result"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "same result"

for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(task.pop("seconds"))
        answer = json.dumps([outcome(**task), sorted(set(seen))])
        os.write(1, f"{answer}\\n".encode())
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        os.write(1, b'["has not ended in time", []]\\n')
"""


class Runner:
    """A process that has everything imported, and a process of its own for each run."""

    def __init__(self, folder: Path, *, fences: bool) -> None:
        (folder / "mutants.py").write_text(PROGRAM)
        paths = [str(SOURCE), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TILEWRIGHT_INSERT_FENCES": str(int(fences))}
        command = [sys.executable, "-m", "tilewright", "run", "mutants.py"]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        """No more runs."""
        self._process.communicate()

    def run(self, path: Path, case: tuple[str, str, tuple[object, ...], int]) -> tuple[str, list[str]]:
        """The outcome of a case, and the digests of its kernels."""
        _, function, arguments, capability = case
        task = {"path": str(path), "function": function, "arguments": arguments, "capability": capability}
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(json.dumps({**task, "seconds": SECONDS}) + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            if line.startswith("["):
                said, kernels = json.loads(line)
                return said, kernels
        raise RuntimeError("the process that runs tutorials has ended")


def mutants(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, statement and text of each mutant; lines keep their numbers."""
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    kernels = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_kernel(node)]
    for node in sorted((n for kernel in kernels for n in ast.walk(kernel) if isinstance(n, ast.stmt)), key=_line):
        call = getattr(node, "value", None)
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func).rpartition(".")[2]
        if isinstance(node, ast.Expr) and name in GOES:
            yield node.lineno, ast.unparse(call), _replaced(lines, node, "pass")
        elif name == RUNS_ON:
            count = call.args[0] if call.args else next(k.value for k in call.keywords if k.arg == "num_outstanding")
            yield node.lineno, ast.unparse(call), _replaced(lines, count, MOST)


def _line(node: ast.stmt) -> int:
    return node.lineno


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).startswith("gluon.jit") for decorator in node.decorator_list)


def _replaced(lines: list[str], node: ast.stmt | ast.expr, by: str) -> str:
    assert node.end_lineno is not None, "the parser knows where a node ends"
    first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
    rest = last.encode()[node.end_col_offset :].decode()
    changed = first.encode()[: node.col_offset].decode() + by + rest
    gap = ["\n"] * (node.end_lineno - node.lineno)
    return "".join([*lines[: node.lineno - 1], changed, *gap, *lines[node.end_lineno :]])


def tried(runners: list[Runner], folder: Path, tutorial: str) -> Iterator[tuple[str, str]]:
    """Each mutant of a tutorial and its outcome; the first runner that a case ends well with has it."""
    original, mutant = (folder / f"{tutorial}.py").read_text(), folder / f"mutant-{tutorial}.py"
    mutant.write_text(original)  # kernels know the name of their file
    sound: list[tuple[Runner, tuple[str, str, tuple[object, ...], int], list[str]]] = []
    for case in (case for case in CASES if case[0] == tutorial):
        said = ""
        for runner in runners:
            said, kernels = runner.run(mutant, case)
            if said == SAME:
                sound.append((runner, case, kernels))
                break
        if said != SAME:
            yield f"{case[1]} as it is", f"not tried: {said}"
    for line, statement, text in mutants(original):
        mutant.write_text(text)
        found = "not reached"
        for runner, case, kernels in sound:
            said, changed = runner.run(mutant, case)
            if said != SAME or changed != kernels:
                found = said
            if said.startswith("reported"):
                break
        found = "equivalent" if found == SAME and f"{tutorial}:{line}" in EQUIVALENT else found
        yield f"{tutorial}:{line} {statement}", found


def counts_of(runners: list[Runner], folder: Path, tutorial: str) -> Counter[str]:
    """How many mutants of a tutorial have each outcome; those that nobody expects are printed."""
    own = Counter[str]()
    for what, outcome in tried(runners, folder, tutorial):
        own[outcome.split()[0] if outcome.startswith("reported") else outcome.partition(":")[0]] += 1
        if not outcome.startswith(("reported", "not reached", "equivalent")):
            sys.stdout.write(f"{what}: {outcome}\n")
    return own


def digest_of_sources() -> str:
    """A digest of what the outcomes depend on."""
    paths = [*sorted(SOURCE.rglob("*.py")), Path(__file__), Path(__file__).with_name("gluon_tutorials.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def table(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The lines of a table of mutants, tutorial by tutorial."""
    yield "| tutorial | mutants | reported | equivalent |"
    yield "|---|---:|---:|---:|"
    rows = {tutorial: _row(Counter(own)) for tutorial, own in counts.items()}
    everything = tuple(map(sum, zip(*rows.values(), strict=True)))
    for tutorial, (mutants, reported, equivalent) in {**rows, "all": everything}.items():
        yield f"| {tutorial} | {mutants} | {reported} | {equivalent} |"


def _row(own: Counter[str]) -> tuple[int, int, int]:
    counted = own.total() - own["not reached"] - own["not tried"]
    return counted, own["reported"], own["equivalent"]


def count(repository: Path, wanted: Sequence[str], kept: Path | None, deadline: float) -> dict[str, dict[str, int]]:
    """The counts of the tutorials that are wanted, and of those that the file `kept` has of the same sources."""
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    digest = digest_of_sources()
    counts: dict[str, dict[str, int]] = known["counts"] if known.get("sources") == digest else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(repository, folder)
        for tutorial in dict.fromkeys(case[0] for case in CASES):
            is_wanted = tutorial.startswith(tuple(wanted)) if wanted else tutorial not in counts
            if not is_wanted or time.monotonic() > deadline:
                continue
            runners = [Runner(folder, fences=fences) for fences in (False, True)]
            counts[tutorial] = counts_of(runners, folder, tutorial)
            for runner in runners:
                runner.close()
            sys.stdout.write(f"{tutorial}: {dict(counts[tutorial])}\n")
            sys.stdout.flush()
            if kept is not None:
                kept.write_text(json.dumps({"sources": digest, "counts": counts}))
    return dict(sorted(counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("tutorials", nargs="*", help="the numbers of some")
    parser.add_argument("--into", type=Path, help="a file that keeps the counts")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further tutorial is begun")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    counts = count(arguments.repository, arguments.tutorials, arguments.into, deadline)
    sys.stdout.write("\n".join(table(counts)) + "\n")


if __name__ == "__main__":
    main()
