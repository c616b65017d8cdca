"""The outcome of each mutant, kept in a file line by line, and mutants that do the same as the original.

    outcomes = Outcomes(Path("mutants.jsonl"))
    outcomes.add(Outcome(mutant.key, "tests/ir/test_core.py::test_walk", tests=3))

A run that was stopped goes on with the mutants of its file, whatever has changed in the package since.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from source_mutants import Key, Mutant, mutants_of

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


class Outcome(NamedTuple):
    """The outcome of a mutant: the test that noticed it, or "", and the number of tests that had the chance.

    `noticed` is None before the mutant is tried.
    """

    key: Key
    noticed: str | None = None
    tests: int = 0

    @property
    def folder(self) -> str:
        return self.key[0].partition("/")[0]


class Outcomes:
    """The outcomes of a run, in the order in which mutants were drawn; each is in the file as soon as it is known."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.by_key: dict[Key, Outcome] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            row = json.loads(line)
            self._keep(Outcome(_key(row), row["noticed"], row["tests"]))

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome, in place of an earlier one of the same mutant."""
        self._keep(outcome)
        row = dict(zip(("path", "function", "original", "change", "number"), outcome.key, strict=True))
        with self._file.open("a") as lines:
            lines.write(json.dumps({**row, "noticed": outcome.noticed, "tests": outcome.tests}) + "\n")

    def _keep(self, outcome: Outcome) -> None:
        self.by_key[outcome.key] = outcome


def equivalent_mutants(file: Path = EQUIVALENT) -> dict[Key, str]:
    """Mutants that somebody has looked at and that do what the original does, with the reason."""
    return {_key(row): row["reason"] for row in tomllib.loads(file.read_text()).get("mutant", ())}


def mutant_of(key: Key, package: Path) -> Mutant | None:
    """The mutant with this key, or None if the source has no such mutant any more."""
    file = package / key[0]
    mutants = mutants_of(file.read_text(), key[0]) if file.exists() else []
    return next((mutant for mutant in mutants if mutant.key == key), None)


def _key(row: dict[str, Any]) -> Key:
    return row["path"], row["function"], row["original"], row["change"], row.get("number", 0)
