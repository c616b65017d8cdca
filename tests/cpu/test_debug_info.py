"""Debug information: lines and variables in LLVM IR and objects, when it is asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.llvm.debug_info import _quoted
from tilewright.runtime.build import _with_defaults
from tilewright.support import knobs


@tw.jit(noinline=True)
def called(value):
    return value * 3


@tw.jit
def inlined(value):
    squared = value * value
    return squared + 1


@tw.jit
def kernel(x, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    index = start + tl.arange(0, BLOCK)
    inside = index < n
    total = inlined(tl.load(x + index, mask=inside)) + called(start)
    for _ in range(n):
        total += tl.cumsum(total) * 0
    tl.device_print("total", total) if n < 0 else None
    tl.store(x + index, total, mask=inside)


def compiled(debug_info: str) -> Any:
    x = np.arange(20, dtype=np.float32)
    made = kernel[(2,)](x, 20, BLOCK=16, debug_info=debug_info)
    start = np.repeat([0, 16], 16)[:20]
    assert (x == np.arange(20) ** 2 + 1 + 3 * start).all()
    return made


def test_nothing_unless_asked() -> None:
    made = compiled("")
    assert "!dbg" not in made.asm["llir"]
    assert b".debug_line" not in made.asm["obj"]


@pytest.mark.parametrize("wanted", ["lines", "variables"])
def test_instructions_know_their_line(wanted: str) -> None:
    made = compiled(wanted)
    text = made.asm["llir"]
    assert b".debug_line" in made.asm["obj"]
    lines = {int(n) for n in re.findall(r"!DILocation\(line: (\d+)", text)}
    first = kernel.def_file_line_number
    assert set(range(first, first + 9)) - lines <= {
        first + 2,
        first + 4,
        first + 6,
    }  # a number that a range starts with, a loop over scalars alone, a print that is not
    assert inlined.def_file_line_number + 1 in lines
    assert f'!DIFile(filename: "{Path(__file__).name}", directory: "{Path(__file__).parent}")' in text
    assert text.count("distinct !DISubprogram") == 2
    square = next(line for line in text.splitlines() if "fmul" in line)
    node = re.search(r"!dbg (!\d+)", square)
    assert node is not None
    assert f"{node[1]} = !DILocation(line: {inlined.def_file_line_number + 1}, column: 15" in text


def test_variables() -> None:
    text = compiled("variables").asm["llir"]
    assert {"start", "index", "inside", "total", "squared"} <= set(re.findall(r'DILocalVariable\(name: "(\w+)"', text))
    (start,) = re.findall(r'(!\d+) = !DILocalVariable\(name: "start"', text)
    assert re.search(rf"#dbg_value\(i32 %\w+, {start}, !DIExpression\(\)", text)
    kinds = dict(re.findall(r'!DIBasicType\(name: "([^<"]+)<.*, encoding: DW_ATE_(\w+)\)', text))
    assert kinds["!tt.ptr"] == "address"
    assert '!DIBasicType(name: "i32", size: 32, encoding: DW_ATE_signed)' in text
    assert "#dbg_value" not in compiled("lines").asm["llir"]


def test_equal_kernels_have_equal_objects() -> None:
    first = compiled("variables").asm["obj"]
    kernel.device_caches.clear()
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        assert compiled("variables").asm["obj"] == first


def test_knobs() -> None:
    cases = [
        (None, False, None),
        (None, True, "variables"),
        (False, False, "lines"),
        (False, True, "variables"),
        (True, False, None),
        (True, True, None),
    ]
    for no_lines, variables, expected in cases:
        with knobs.compilation.scope():
            knobs.compilation.disable_line_info = no_lines
            knobs.compilation.dump_ir_extract_di_local_variables = variables
            assert _with_defaults({}).get("debug_info") == expected, (no_lines, variables)
            assert _with_defaults({"debug_info": ""})["debug_info"] == ""


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="debug_info is 'lines', 'variables' or ''"):
        compiled("all")


def test_names_of_files_are_quoted() -> None:
    assert _quoted('a"b\\c\nd ü') == '"a\\22b\\5Cc\\0Ad ü"'
