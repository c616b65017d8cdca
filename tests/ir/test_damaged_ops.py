"""Ops with one mistake: the op that has every operand, type and number in its place says what is wrong, or means it.

Each line of the two files that have every op is damaged in several ways, alone in its function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tilewright.dialects
from tilewright.ir.errors import ParseError, VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify

assert tilewright.dialects.__all__

HERE = Path(__file__).parent
FILES = ("every_op.ttir", "every_gpu_op.ttgir")
FUNCTION = re.compile(r"^  tt\.func .*?^  }\n", re.DOTALL | re.MULTILINE)
ELEMENT = re.compile(r"\b(?:f16|f32|i1|i8|i32|i64)\b(?!>*\s*[,}\]])")
NUMBER = re.compile(r"(?<![%\w.#-])\d+(?![\w.]*[\w.])|(?<=<)\d+(?=x)")
OPERAND = re.compile(r"%\w+(?:#\d)?, ")


def damages(line: str) -> Iterator[str]:
    """The line with another element type, another number, or without an operand: the first one or the last."""
    begin = line.find(" = ") + 1
    for pattern, new in ((ELEMENT, "i16"), (NUMBER, "5"), (OPERAND, "")):
        found = [place.span() for place in pattern.finditer(line) if place.start() > begin]
        for start, end in dict.fromkeys((*found[:1], *found[-1:])):
            yield line[:start] + new + line[end:]


def said_of(head: str, function: str) -> str:
    """The first line of the complaint, without the line of the text; "" where there is none."""
    try:
        verify(parse_module(f"{head}{function}}}\n"))
    except (ParseError, VerificationError) as error:
        return re.sub(r"^<string>:\d+:", "column ", str(error).splitlines()[0])
    return ""


@pytest.mark.parametrize("file", FILES)
def test_one_mistake_in_an_op(file: str, golden: Callable[[str, str], None]) -> None:
    text = (HERE / file).read_text()
    head = text[: text.index("  tt.func")]
    lines = []
    for function in FUNCTION.findall(text):
        for line in function.splitlines()[1:-1]:
            for damaged in damages(line):
                complaint = said_of(head, function.replace(f"{line}\n", f"{damaged}\n", 1))
                lines.append(f"{damaged.strip()}\n    {complaint}\n" if complaint else "")
    golden("".join(lines), f"verification_errors/damaged_{file.partition('.')[0]}.txt")
