"""Triton's tutorials on Tilewright: a part of `docs/conformance.md` is what this prints.

    python tests/conformance/tutorials.py ~/triton.git                                  # all, into the page
    python tests/conformance/tutorials.py ~/triton/python/tutorials 05-layer-norm       # one, to the terminal
    python tests/conformance/tutorials.py ~/triton.git --kept results.json 05-layer-norm          # one, into the page

The first argument is a repository of Triton, whose commits `reasons.toml` names, or a folder of tutorials; nothing of
it is in this repository. They need torch, matplotlib, pandas and tabulate. Each runs unchanged by `tilewright run`,
on its own, with an empty cache and in an empty folder; what is the same in both trees runs once. `tutorials.toml` has
their list, time limits, settings, what else is run of those that a CPU cannot finish, and the reasons.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from run import FOLDER, HERE, PAGE, unpacked

HEADING = "\n# Triton's tutorials\n"
NEXT_HEADING = "\n# Triton's lit tests\n"
ENDED, FAILED, STOPPED = "ended", "failed", "stopped"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program: `ended`, `failed` or `stopped` at the limit, and its last line.

    Attributes:
        points: measured ones, and all, of tables whose time was limited.
    """

    outcome: str
    seconds: float
    said: str
    points: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        points = ", {} of {} points".format(*self.points) if self.points else ""
        return {
            ENDED: f"ran to its end, {self.seconds:.0f} s{points}",
            FAILED: f"failed after {self.seconds:.0f} s",
            STOPPED: f"stopped after {self.seconds:.0f} s",
        }[self.outcome]


Found = dict[tuple[str, str], Outcome]
"""The outcomes by tree and program, which is a tutorial or a line of `parts`."""


def main() -> int:
    """Run the tutorials and write the page, or print what became of those that were named."""
    options = parsed_arguments()
    plan = tomllib.loads((HERE / "tutorials.toml").read_text())
    commits = tomllib.loads((HERE / "reasons.toml").read_text())["trees"]
    found = kept_results(options.kept)
    with tempfile.TemporaryDirectory() as folder:
        trees = folders(options.triton.resolve(), commits, Path(folder))
        again: dict[tuple[str, bytes], Outcome] = {}  # trees share files
        for tree, name, program in programs(trees, options.names or plan["files"], plan["parts"]):
            key = program, (trees[tree] / f"{name}.py").read_bytes()
            if key not in again:
                limit = options.limit or plan["limits"].get(name, plan["limits"]["all"])
                again[key] = outcome(trees[tree], program, limit, plan["settings"].get(name, {}))
            found[tree, program] = done = again[key]
            print(f"{tree} {program}: {done}: {done.said}", flush=True)
            keep_results(options.kept, found)
    if FOLDER not in trees and (options.kept or not options.names):
        write_part("\n".join(page(found, list(commits), plan)) + "\n")
    return 0


def parsed_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Triton's tutorials on Tilewright")
    parser.add_argument("triton", type=Path, help="a repository of Triton, or a folder of tutorials")
    parser.add_argument("names", nargs="*", help="tutorials, without .py; without them, those of tutorials.toml")
    parser.add_argument("--kept", type=Path, help="results of earlier runs, for what is not run now")
    parser.add_argument("--limit", type=float, default=0, help="seconds for one program; 0: as tutorials.toml says")
    return parser.parse_intermixed_args()


def folders(triton: Path, commits: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """The tutorials of every tree, by the tree's name; arguments as for `unpacked`."""
    if list(triton.glob("01-*.py")):
        return {FOLDER: triton}
    return unpacked(triton, commits, folder, "python/tutorials", beside=["third_party/nvidia/backend/lib"])


def programs(
    trees: Mapping[str, Path], names: Sequence[str], parts: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, str]]:
    """The runs: tree, tutorial, and arguments of `tilewright run`."""
    for name in names:
        for program in (f"{name}.py", *parts.get(name, ())):
            yield from ((tree, name, program) for tree, folder in trees.items() if (folder / f"{name}.py").exists())


def outcome(folder: Path, program: str, limit: float, settings: Mapping[str, str]) -> Outcome:
    """Run one program of `folder` with these environment variables; nothing that it starts outlives the limit."""
    words = [str(place(folder, word)) if word.endswith(".py") else word for word in program.split()]
    with tempfile.TemporaryDirectory() as here:
        variables = os.environ | {"TRITON_CACHE_DIR": f"{here}/cache", "TORCHINDUCTOR_CACHE_DIR": f"{here}/torch"}
        variables |= {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1", **settings}
        output = Path(here, "output")
        began = time.monotonic()
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tilewright", "run", *words],
                cwd=here,
                env=variables,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                kind = FAILED if process.wait(limit) else ENDED
            except subprocess.TimeoutExpired:
                kind = STOPPED
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text = output.read_text(errors="replace")
        return Outcome(kind, time.monotonic() - began, last_line(text), points(text))


def place(folder: Path, name: str) -> Path:
    """A file of the tutorials, or of this folder."""
    return folder / name if (folder / name).exists() else HERE / name


def last_line(text: str) -> str:
    """The last line with something in it."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def points(text: str) -> list[int]:
    """The numbers of points in the warnings of limited tables, measured and all; nothing without such warnings."""
    found = re.findall(r"Warning: .*: (\d+) of (\d+) points were measured", text)
    return [sum(map(int, numbers)) for numbers in zip(*found, strict=True)]


def kept_results(path: Path | None) -> Found:
    """The results in a file that `--kept` named earlier."""
    if path is None or not path.exists():
        return {}
    return {(tree, program): Outcome(*rest) for tree, program, *rest in json.loads(path.read_text())}


def keep_results(path: Path | None, found: Found) -> None:
    """Write that file."""
    if path is not None:
        path.write_text(json.dumps([[*key, *astuple(done)] for key, done in found.items()]))


def page(found: Found, trees: Sequence[str], plan: dict[str, Any]) -> Iterator[str]:
    """This program's part of the page: one line per program, and why it is not at its end."""
    yield from ("", HEADING.strip(), "", plan["introduction"].strip(), "")
    yield "| program | " + " | ".join(trees) + " | remark |"
    yield "|---|" + "---|" * (len(trees) + 1)
    for program in (line for name in plan["files"] for line in (f"{name}.py", *plan["parts"].get(name, ()))):
        done = {tree: found[tree, program] for tree in trees if (tree, program) in found}
        cells = [str(done.get(tree, "–")) for tree in trees]
        remarks = dict.fromkeys(filter(None, (remark(tree, program, done[tree], plan["reasons"]) for tree in done)))
        if done:
            yield f"| {program} | " + " | ".join(cells) + " | " + "; ".join(remarks) + " |"


def remark(tree: str, program: str, done: Outcome, reasons: Mapping[str, str]) -> str:
    """The text of the table of reasons; for a program that did not end, and has no reason, its own last words."""
    said = f"{tree} {program}: {done.outcome}: {done.said}"
    for pattern, reason in reasons.items():
        if fnmatch(said, pattern):
            return reason.replace("{said}", done.said)
    return "" if done.outcome == ENDED else "not explained yet: " + done.said.replace("|", "\\|")[:160]


def write_part(text: str) -> None:
    """Put `text` into the page in place of this program's part."""
    before, _, rest = PAGE.read_text().partition(NEXT_HEADING)
    PAGE.write_text(before.partition(HEADING)[0] + text + (NEXT_HEADING + rest if rest else ""))


if __name__ == "__main__":
    sys.exit(main())
