"""`tilewright layout`: what it prints, the drawing, and what it says about layouts that cannot be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.layouts.encoding import encoding_as
from tilewright.layouts.encodings import Shared
from tilewright.tools.layout_text import along
from tilewright.tools.main import main

Golden = Callable[[str, str], None]
BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = "#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>"
NARROW = BLOCKED.replace("[1, 4]", "[1, 8]")
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"
OPERAND = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>"
PLAIN = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
NVMMA = "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16, CGALayout = [[0, 1]]}>"
PADDED = "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>"
GENERIC = "#ttg.generic_linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [[4, 2]], block = []}>"
CASES = {
    "blocked": [BLOCKED, "--shape", "32x16"],
    "blocked_all": [BLOCKED, "--shape", "32x32", "--all"],
    "line": ["#ttg.slice<{dim = 0, parent = " + MMA + "}>", "--shape", "32"],
    "cluster": [BLOCKED.replace("}>", ", CGALayout = [[1, 0]]}>"), "--shape", "2x64x16"[2:]],
    "batch": [
        "#ttg.linear<{register = [[1, 0, 0]], lane = [[0, 0, 1]], warp = [[0, 1, 0]], block = []}>",
        "--shape",
        "2x2x2",
    ],
    "generic": [GENERIC.replace("[4, 2]", "[4, 0]"), "--shape", "8x2"],
    "swizzled": [SWIZZLED, "--shape", "64x64", "--dtype", "f16"],
    "nvmma": [NVMMA, "--shape", "16x64"],
    "padded": [PADDED, "--shape", "64x64"],
    "registers_to_registers": [MMA, "--shape", "64x64", "--to", OPERAND],
    "shuffles": [BLOCKED, "--shape", "32x32", "--to", NARROW],
    "through_memory": [BLOCKED, "--shape", "64x64", "--to", COLUMNS, "--dtype", "f32"],
    "stores": [BLOCKED, "--shape", "64x64", "--to", PLAIN],
    "loads": [SWIZZLED, "--shape", "64x64", "--to", OPERAND],
    "padded_loads": [PADDED, "--shape", "64x64", "--to", OPERAND],
}
WRONG = {
    "no layout": ["blocked", "--shape", "16x16"],
    "unknown": ["#ttg.checkered<{order = [0]}>", "--shape", "16x16"],
    "malformed": [BLOCKED.replace("order = [", "order = "), "--shape", "16x16"],
    "rule": [BLOCKED.replace("[8, 4]", "[8, 3]"), "--shape", "16x16"],
    "no shape": [BLOCKED, "--shape", "16by16"],
    "odd shape": [BLOCKED, "--shape", "16x12"],
    "empty": [BLOCKED, "--shape", "0x16"],
    "huge": [BLOCKED, "--shape", "65536x65536"],
    "rank": [BLOCKED, "--shape", "16"],
    "small": [NVMMA, "--shape", "8x16"],
    "other shape": [PADDED, "--shape", "32x64"],
    "tensor memory": ["#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>", "--shape", "128x64"],
    "type": [BLOCKED, "--shape", "16x16", "--dtype", "half"],
    "other type": [NVMMA, "--shape", "64x64", "--dtype", "f32"],
    "other warps": [BLOCKED, "--shape", "64x64", "--to", COLUMNS.replace("[1, 4]", "[1, 2]")],
    "two buffers": [PLAIN, "--shape", "64x64", "--to", SWIZZLED],
    "other rank": [BLOCKED, "--shape", "64x64", "--to", "#ttg.slice<{dim = 0, parent = " + MMA + "}>"],
    "no folder": [BLOCKED, "--shape", "16x16", "--svg", "/nowhere/layout.svg"],
}


@pytest.mark.quick
@pytest.mark.parametrize("case", CASES)
def test_what_is_printed(case: str, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    assert main(["layout", *CASES[case]]) == 0
    golden(capsys.readouterr().out, f"layouts/command_{case}.txt")


def test_errors(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    lines = []
    for name, arguments in WRONG.items():
        assert main(["layout", *arguments]) == 1, name
        captured = capsys.readouterr()
        assert captured.out == ""
        lines.append(f"{name}\n{captured.err}")
    golden("\n".join(lines), "layouts/command_errors.txt")


def test_a_layout_on_several_lines_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layout", BLOCKED.replace(", ", ",\n  "), "--shape", "32x16"]) == 0
    assert capsys.readouterr().out.startswith(BLOCKED)
    assert main(["layout", BLOCKED.replace(", ", ",\n  ") + "x", "--shape", "32x16"]) == 1
    assert capsys.readouterr().err == f"expected the end, found 'x'\n{BLOCKED}x\n"


def test_drawing(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "pair.svg"
    assert main(["layout", BLOCKED, "--shape", "16x16", "--to", PLAIN, "--svg", str(path)]) == 0
    text = path.read_text()
    golden(text, "layouts/pair.svg")
    picture = ElementTree.fromstring(text)
    cells = picture.findall("{http://www.w3.org/2000/svg}rect")
    assert len(cells) == 1 + 16 * 4 + 16 * 2
    assert "href" not in text  # nothing outside the file


def test_a_large_drawing_says_what_it_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "large.svg"
    assert main(["layout", BLOCKED, "--shape", "256x1024", "--svg", str(path)]) == 0
    assert "192 rows and 192 columns of cells are left out" in path.read_text()


def test_a_warp_walks_along_rows_and_goes_on_in_the_next_one() -> None:
    plain = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    layout = encoding_as(Shared, plain)
    assert along(layout, (16, 8), 32, (1, 0), 1) == 1, "four rows, each in eight banks"
    assert along(layout, (16, 8), 32, (0, 1), 1) == 4, "two columns, each in four banks"
