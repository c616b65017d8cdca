"""Reading Triton's lit files: how they are run, where their functions are, what they expect.

    // RUN: triton-opt %s -split-input-file -canonicalize | FileCheck %s --check-prefix=CHECK
    // CHECK-LABEL: @kernel
    tt.func @kernel() {                                       functions(text) -> [Function("kernel", 1, 3, 5)]
      // expected-error @+1 {{…}}                             expectations(text) -> [Expectation("error", 5, "…")]

Lines count from 1, in the whole file also for text of one segment.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FUNCTION = re.compile(r'^\s*(?:tt|func|llvm|gluon)\.func\b[^@\n]*@(?:"([^"]+)"|([\w$.\-]+))')
EXPECTED = re.compile(
    r"//.*?expected-(?P<kind>error|warning|remark|note)(?P<re>-re)?\s*"
    r"(?:@\s*(?P<where>[+-]\s*\d+|above|below))?\s*\{\{(?P<text>.*?)\}\}(?!\})"
)
_COMMENT = re.compile(r"//.*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LEADING = re.compile(r"\s*(?://.*|#.*|!.*|module\b.*)?$")
SWITCHES = {
    "split-input-file": "split",
    "allow-unregistered-dialect": "unregistered",
    "mlir-print-debuginfo": "locations",
    "mlir-use-nameloc-as-prefix": "names",
}
IGNORED = ("mlir-print-local-scope", "mlir-disable-threading", "o")
RENAMED = {"canonicalize": "canonicalize_as_triton"}
"""Flags of passes of which we have two forms."""
SETTINGS = {"TRITON_PREFER_TMEM_16x256_LAYOUT": ("tritongpu-accelerate-matmul", "sixteen-rows=true")}
"""Variables of the environment in RUN lines, and the option of a pass that does the same."""
FOREIGN = ("tritonamdgpu-", "get-scratch-size-function=")
"""Passes of other back ends, and options that replace a C++ function: RUN lines with them say nothing about ours."""


@dataclass(frozen=True)
class Tree:
    """A source tree of Triton: a folder, or a revision of a repository."""

    path: Path
    revision: str = ""

    @property
    def version(self) -> str:
        """The version of Triton: `3.7`; development versions count as the release that comes of them."""
        text = self.text("python/triton/__init__.py") or ""
        match = re.search(r"__version__ = '(\d+\.\d+)", text)
        return {"3.4": "3.5"}.get(match[1], match[1]) if match else "3.7"

    def read(self, name: str) -> str | None:
        """The text of a file below `test`; None when there is none."""
        return self.text(f"test/{name}")

    def text(self, name: str) -> str | None:
        """The text of a file; None when there is none."""
        if (self.path / "test").is_dir() and not self.revision:
            file = self.path / name
            return file.read_text() if file.exists() else None
        command = ["git", "-C", str(self.path), "show", f"{self.revision or 'HEAD'}:{name}"]
        done = subprocess.run(command, capture_output=True, check=False)
        return done.stdout.decode() if done.returncode == 0 else None


@dataclass(frozen=True)
class OptCommand:
    """One `triton-opt` of a RUN line.

    Attributes:
        passes: flags in order, each with its options.
        split, unregistered, locations, names: switches.
        verify: empty, `all`, or `only-expected`: diagnostics are compared.
    """

    passes: tuple[str, ...]
    split: bool = False
    unregistered: bool = False
    locations: bool = False
    names: bool = False
    verify: str = ""


@dataclass(frozen=True)
class RunLine:
    """A RUN line.

    Attributes:
        commands: what the text goes through.
        check: the arguments of FileCheck but the file; None if it is not called.
        missing: a program that only Triton has.
    """

    commands: tuple[OptCommand, ...]
    check: tuple[str, ...] | None
    missing: str = ""

    @property
    def prefixes(self) -> list[str]:
        """The prefixes of FileCheck's directives."""
        arguments = list(self.check or ())
        found = []
        for i, argument in enumerate(arguments):
            name, equals, value = argument.lstrip("-").partition("=")
            if name in ("check-prefix", "check-prefixes"):
                found += (value if equals else arguments[i + 1]).split(",")
        return found or ["CHECK"]


@dataclass(frozen=True)
class Function:
    """A function in a text.

    Attributes:
        name: its symbol.
        lead: where the comments in front of it begin.
        start, end: its first and its last line.
    """

    name: str
    lead: int
    start: int
    end: int


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that a file expects: `error`, `remark` …, the line it is about, a part of its text."""

    kind: str
    line: int
    text: str
    pattern: bool = False

    def matches(self, text: str) -> bool:
        """Whether the text of a diagnostic is as expected; in patterns `{{…}}` is a regular expression."""
        if not self.pattern:
            return self.text in text
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        return re.search("".join(p if i % 2 else re.escape(p) for i, p in enumerate(parts)), text) is not None


def run_lines(text: str, options: Mapping[str, str] | None = None) -> list[RunLine]:
    """The RUN lines of a file.

    Args:
        text: of the file.
        options: per flag without options those it gets.
    """
    joined = re.sub(r"\\\n//\s*RUN:", "", text)
    found = (match[1] for match in re.finditer(r"//\s*RUN:\s*(.*)", joined))
    commands = (command for command in found if not any(word in command for word in FOREIGN))
    return [_run_line(command, options or {}) for command in commands]


def _run_line(command: str, options: Mapping[str, str]) -> RunLine:
    opts: list[OptCommand] = []
    check: tuple[str, ...] | None = None
    for part in command.replace("2>&1", "").replace("2>/dev/null", "").split("|"):
        words = [word for word in shlex.split(part) if "=" not in word.split("-")[0]]
        wanted = dict(options)
        for name, (flag, option) in SETTINGS.items():
            if f"{name}=1" in part:
                wanted[flag] = f"{options.get(flag, '')} {option}".strip()
        program, *arguments = words[words[:1] == ["env"] :] or [""]
        if program == "triton-opt":
            opts.append(_opt_command(arguments, wanted))
        elif program == "FileCheck":
            check = tuple(argument for argument in arguments if argument != "%s" and "dump-input" not in argument)
        else:
            return RunLine(tuple(opts), None, program or part.strip())
    return RunLine(tuple(opts), check)


def _opt_command(arguments: Sequence[str], options: Mapping[str, str]) -> OptCommand:
    passes, facts = [], {}
    for argument in arguments:
        name, _, value = argument.lstrip("-").partition("=")
        if argument in ("%s", "-", "/dev/null") or name in IGNORED:
            continue
        if name == "verify-diagnostics":
            facts["verify"] = value or "all"
        elif name in SWITCHES:
            facts[SWITCHES[name]] = True
        else:
            argument = RENAMED.get(name, argument)
            passes.append(argument if name not in options else f"{argument}={options[name]}")
    return OptCommand(tuple(passes), **facts)


def functions(text: str) -> list[Function]:
    """The functions of a text, in order."""
    lines = text.split("\n")
    plain = [_COMMENT.sub("", _STRING.sub('""', line)) for line in lines]
    found: list[Function] = []
    for i, line in enumerate(lines):
        match = FUNCTION.match(line)
        if match:
            lead = i
            while lead > 0 and _LEADING.match(lines[lead - 1]) and not (found and lead <= found[-1].end):
                lead -= 1
            found.append(Function(match[1] or match[2], lead + 1, i + 1, _last_line(plain, i) + 1))
    return found


def _last_line(plain: Sequence[str], start: int) -> int:
    """The line on which the braces opened from line `start` on are closed; the line itself for a declaration."""
    depth, opened = 0, False
    for i in range(start, len(plain)):
        for character in plain[i]:
            depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(character, 0)
        opened = opened or plain[i].rstrip().endswith("{")
        if depth <= 0 and (opened or i == start):
            return i
    return len(plain) - 1


def only(text: str, functions: Sequence[Function], kept: Function, *, comments: bool = False) -> str:
    """`text` with the lines of the other functions left empty; with `comments` also those in front of them.

    Comments in front of the first function that name layouts are kept: they say what later comments mean by them.
    """
    lines = text.split("\n")
    for function in functions:
        if function is not kept:
            first = function.lead if comments else function.start
            for i in range(first - 1, function.end):
                shared = function is functions[0] and i + 1 < function.start and _names_a_layout(lines[i])
                lines[i] = lines[i] if shared else ""
    return "\n".join(lines)


def _names_a_layout(line: str) -> bool:
    """Whether a line is a module or an alias, or a comment that checks one."""
    return not line.lstrip().startswith("//") or re.search(r"(?<!LABEL):\s*(?:\[\[\$?\w+:)?#", line) is not None


def expectations(text: str) -> Iterator[Expectation]:
    """The diagnostics that a text expects; `@above` and `@below` go past lines that only expect something."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        for match in EXPECTED.finditer(line):
            where = (match["where"] or "+0").replace(" ", "")
            step = {"above": -1, "below": 1}.get(where)
            target = number + (step or int(where))
            while step and 0 < target < len(lines) and EXPECTED.search(lines[target - 1]):
                target += step
            yield Expectation(match["kind"], target, match["text"], bool(match["re"]))


def has_directives(text: str, prefixes: Sequence[str]) -> bool:
    """Whether FileCheck would find anything to check that is not only about absence."""
    names = "|".join(map(re.escape, prefixes))
    kinds = r"(?:-(?:NEXT|SAME|DAG|NOT|LABEL|EMPTY|COUNT-\d+))?"
    return re.search(rf"\b(?:{names}){kinds}(?:\{{LITERAL\}})?:", text) is not None
