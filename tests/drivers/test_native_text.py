"""The native side of launches and of vectorized functions: how long each function is, and its text as a number.

    execute: 132 lines, 5f0c11d2

What these functions do is tested through launches, on this machine; most mistakes of rare paths, and all of other
machines, are to be seen in their text only. A change of `structs.py` or of the small language of `code.py` shows here
as the functions that it changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from zlib import crc32

import pytest

from tilewright.runtime.drivers.cpu.native.systems import MACHINES
from tilewright.runtime.drivers.cpu.native.text import runtime_text
from tilewright.vectorizing.native.calls import calls_text

FUNCTION = re.compile(r"^define [^@]*@([\w.]+)\(.*?^}$", re.MULTILINE | re.DOTALL)
TEXTS = {"launches": runtime_text, "vectorized": calls_text}


def summary(text: str) -> str:
    functions = [(match[1], match[0]) for match in FUNCTION.finditer(text)]
    rest = FUNCTION.sub("", text)
    parts = [("the rest", rest), *sorted(functions)]
    return "".join(f"{name}: {len(body.splitlines())} lines, {crc32(body.encode()):08x}\n" for name, body in parts)


@pytest.mark.quick
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("side", TEXTS)
def test_text(side: str, machine: str, golden: Callable[[str, str], None]) -> None:
    golden(summary(TEXTS[side](machine)), f"runtime/native/{side}_{machine}.txt")
