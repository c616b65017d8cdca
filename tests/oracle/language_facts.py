"""The results of Triton 3.9 and 3.5.1 for the kernels of `language_cases.py`, as a file, so that tests need neither.

    python tests/oracle/language_facts.py /path/to/3.9/bin/python /path/to/3.5.1/bin/python

writes `language_facts.json`: for each case its body, the different outcomes, and which of them each signature has, in
order (`0*3 1` is 0, 0, 0, 1). An outcome is what `note` took down, with the ops that made it (`int32 | arith.addi`),
or `!` and the class of the error, or `?` where Triton's own code breaks: then it says nothing about the language.
Where the versions differ, both stand there: `int32 or !CompilationError`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from language_cases import Case, casts, debugging, functions, memory, operators, programs, shapes

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.errors import ParseError
from tilewright.ir.parser import parse_module
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.cse import cse
from tilewright.transforms.inline import inline, symbol_dce
from tilewright.transforms.structure_control_flow import structure_control_flow

assert tilewright.dialects.__all__

FILE = Path(__file__).with_suffix(".json")
GROUPS = {
    "operators": operators,
    "functions": functions,
    "debugging": debugging,
    "casts": casts,
    "memory": memory,
    "shapes": shapes,
    "programs": programs,
}
WITH_OPS = ("operators", "functions", "debugging", "casts")
"""Groups whose ops are compared; the others consist of functions that are written in other ways."""
FRAME = ("arith.constant", "builtin.module", "tt.func", "tt.print", "tt.return")
NAMED = {
    "CompileTimeAssertionFailure": "!CompileTimeAssertionFailure",
    "InternalError": "!InternalError",
    "Unsupported": "!Unsupported",
    "UnsupportedLanguageConstruct": "!Unsupported",
}
BROKEN = ("AttributeError", "IndexError", "KeyError", "RuntimeError", "crash")
BROKEN_TEXTS = ("incompatible function arguments", "is not in list", "AssertionError()")


def outcome(answer: dict[str, Any], *, ops: bool) -> str:
    """One answer of `tritons_language.py` as a word."""
    if "error" in answer:
        return refusal(answer)
    types = ", ".join(answer["types"]) or "nothing"
    if not ops or "fp8e4b15" in types:
        return types
    made = answer["ttir"]
    try:
        return f"{types} | {kinds(parse_module(made) if isinstance(made, str) else made)}"
    except ParseError:  # ops that only Triton 3.9 has
        return f"{types} | *"


def refusal(answer: dict[str, Any]) -> str:
    if answer["error"] in NAMED:
        return NAMED[answer["error"]]
    text = answer["text"]
    broken = answer["cause"] in BROKEN or text.startswith(BROKEN) or any(words in text for words in BROKEN_TEXTS)
    return "?" if broken or (answer["cause"] == "AssertionError" and not text) else "!CompilationError"


def kinds(module: Op) -> str:
    """The ops of a module once its helpers are inlined and what is known is folded: `arith.addi arith.extsi*2`."""
    structure_control_flow(module)
    inline(module)
    for _ in range(2):
        symbol_dce(module)
        canonicalize(module)
        cse(module)
    counts = Counter(op.name for op in module.walk() if op.name not in FRAME)
    return " ".join(name if count == 1 else f"{name}*{count}" for name, count in sorted(counts.items()))


def run_lengths(numbers: Sequence[int]) -> str:
    runs = ((number, len(list(run))) for number, run in groupby(numbers))
    return " ".join(str(number) if count == 1 else f"{number}*{count}" for number, count in runs)


def from_run_lengths(text: str) -> list[int]:
    return [int(number) for run in text.split() for number in [run.split("*")[0]] * int((run + "*1").split("*")[1])]


def asked(python: str, cases: Sequence[Case]) -> Iterator[list[dict[str, Any]]]:
    """The answers of a Triton to all cases; where it ends the process, that is the answer."""
    script, requests, done = str(Path(__file__).with_name("tritons_language.py")), [c.request for c in cases], 0
    while done < len(requests):
        lines = "\n".join(map(json.dumps, requests[done:]))
        found = subprocess.run([python, script], input=lines, text=True, capture_output=True, check=False)
        for line in found.stdout.splitlines():
            done += 1
            yield json.loads(line)
        if done < len(requests):
            yield [{"error": "crash", "cause": "crash", "text": ""}] * len(requests[done]["signatures"])
            done += 1


def facts(group: str, pythons: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The entries of a group."""
    cases = list(GROUPS[group]())
    for case, *answers in zip(cases, *(asked(python, cases) for python in pythons), strict=True):
        words = [
            " or ".join(sorted({outcome(answer, ops=group in WITH_OPS) for answer in both} - {"?"})) or "?"
            for both in zip(*answers, strict=True)
        ]
        outcomes = sorted(set(words))
        yield {"body": case.body, "outcomes": outcomes, "which": run_lengths([outcomes.index(word) for word in words])}


def main() -> None:
    """Write the file."""
    found = {group: list(facts(group, sys.argv[1:])) for group in GROUPS}
    lines = [
        f' "{group}": [\n' + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n ]"
        for group, entries in found.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
