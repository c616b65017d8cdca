"""Texts of locations and attributes with one character less: what they are read as, or what the parser says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import ParseError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op

Golden = Callable[[str, str], None]
LOCATIONS = (
    'loc("k.py":3:40)',
    'loc("k.py":3:40 to 5:9)',
    'loc("k.py":3:40 to :9)',
    'loc("x"("k.py":3:4))',
    'loc("y"(#a))',
    "loc(#a)",
    'loc(callsite("f" at unknown))',
    'loc(fused<"p">["b", #a])',
)
ATTRIBUTES = (
    'a = "t\\22", b',
    "c = -3 : i8, d = 2.5e-1 : f32",
    "e = dense<[1, 2]> : tensor<2xi32>",
    "i = dense<[[7]]> : tensor<1x1xi8>",
    "f = array<i32: 4, -5>, g = [6, true]",
    "h = {i = @j, l = unit}",
    "m = 0x7F800000 : f32, n = i64",
    "o = #ttg.shared_memory",
    "q = (i32) -> (f16, !tt.ptr<f32, 3>)",
)
MODULE = '#a = loc("a.py":1:2)\nmodule {{\n  tt.func @f() {{\n    tt.return{}{}\n  }}\n}}\n'


def reading(attributes: str, location: str) -> str:
    """The op as it is printed, or the first line of the error."""
    text = MODULE.format(f" {{{attributes}}}" if attributes else "", f" {location}" if location else "")
    try:
        module = parse_module(text)
    except ParseError as error:
        return f"error: {str(error).splitlines()[0]}"
    lines = print_op(module, locations=bool(location)).splitlines()
    wanted = [line.strip() for line in lines if "tt.return" in line or (location and line.startswith("#"))]
    return "; ".join(wanted)


@pytest.mark.quick
def test_one_character_less(golden: Golden) -> None:
    lines = []
    for attributes, location in [*(("", location) for location in LOCATIONS), *((text, "") for text in ATTRIBUTES)]:
        text = attributes or location
        lines += [text, f"    {reading(attributes, location)}"]
        for place in range(len(text)):
            changed = text[:place] + text[place + 1 :]
            said = reading(*((changed, "") if attributes else ("", changed)))
            lines.append(f"{changed}\n    {said}")
    golden("\n".join(lines) + "\n", "parse_errors/missing_characters.txt")
