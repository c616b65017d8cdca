"""Layout attributes: both spellings are read, 3.9's is printed, equal ones are one object, wrong ones say why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tilewright.layouts.encodings import AmdMfma, AmdWmma, Blocked, DotOperand, LayoutError, NvidiaMma, encoding

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
SAME = [
    BLOCKED,
    BLOCKED.replace("}>", ", CGALayout = [[0, 1], [0, 0], [1, 0]]}>"),
    MMA,
    "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], CGALayout = [[1, 0]], "
    "instrShape = [16, 128, 16]}>",
    f"#ttg.slice<{{dim = 1, parent = {BLOCKED}}}>",
    f"#ttg.dot_op<{{opIdx = 0, parent = {BLOCKED}}}>",
    f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>",
    "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 4], instrShape = [16, 16, 16], isTransposed = true, "
    "tilesPerWarp = [2, 2], elementBitWidth = 64}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {warp = [[0, 1], [1, 0]]}}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {register = [[0, 0, 1], [0, 1, 0]]}}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {warp = [[0, 0, 1], [0, 1, 0]]}}>",
    "#ttg.amd_wmma<{version = 3, isTranspose = true, ctaLayout = {register = [[0, 1]], warp = [[0, 2], [1, 0]]}, "
    "instrShape = [16, 16, 32]}>",
    "#ttg.amd_wmma<{version = 2, isTranspose = true, ctaLayout = {}, rank = 3}>",
    "#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0]], "
    "block = []}>",
    "#ttg.generic_linear<{register = [[1, 1], [0, 1]], lane = [], warp = [], block = []}>",
    "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
    "#ttg.amd_rotating_shared<{vec = 4, perPhase = 1, maxPhase = 16, order = [1, 0]}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8, fp4Padded = true, rank = 3}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 32, CGALayout = [[0, 1, 0]]}>",
    "#ttg.padded_shared<[128:+4, 256:+8] {order = [1, 0], shape = [16, 32]}>",
    "#ttg.padded_shared<[2:+1] {offset = [[0, 1], [2, 0], [1, 0]], block = []}>",
    "#ttg.padded_shared<[2:+1] {offset = [[1, 0], [0, 1]], block = [[1, 0], [2, 0]]}>",
    "#ttg.padded_shared<[2:+1] {order = [1, 0]}>",
    "#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 16>",
    "#ttg.shared_linear<{offset = [[0, 1], [1, 0]], block = [[2, 0]]}, alignment = 128>",
    "#ttg.partitioned_shared<{numPartitions = 2, numGroups = 4, partitionDim = 0, partitionLayout = "
    "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>}>",
    "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>",
    "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1, CGALayout = [[1, 0]], twoCTAs = true>",
    "#ttng.tensor_memory_encoding<blockM = 64, blockN = 64, unpacked = true, CTASplitM = 2>",
    "#ttng.tensor_memory_scales_encoding<>",
    "#ttng.tensor_memory_scales_encoding<CGALayout = [[1, 0]]>",
]
CTAS = "CTAsPerCGA = [{}], CTASplitNum = [{}], CTAOrder = [{}]"
OLD = {
    BLOCKED.replace("}>", f", {CTAS.format('1, 1', '1, 1', '1, 0')}}}>"): BLOCKED,
    BLOCKED.replace("}>", f", {CTAS.format('2, 4', '2, 2', '0, 1')}}}>"): BLOCKED.replace(
        "}>", ", CGALayout = [[1, 0], [0, 1], [0, 0]]}>"
    ),
    "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 4], tilesPerWarp = [1, 1], instrShape = [32, 32], "
    "isTransposed = true, elementType = f64}>": "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 4], "
    "instrShape = [32, 32], isTransposed = true, elementBitWidth = 64}>",
    "#ttg.amd_wmma<{version = 2, isTranspose = false, warpsPerCTA = [2, 4]}>": "#ttg.amd_wmma<{version = 2, "
    "isTranspose = false, ctaLayout = {warp = [[0, 1], [0, 2], [1, 0]]}}>",
    "#ttg.padded_shared<[2:+1] {offset = [[0, 1], [1, 0]], block = []}>": "#ttg.padded_shared<[2:+1] "
    "{order = [1, 0], shape = [2, 2]}>",
    "#ttg.swizzled_shared< { vec=1 , perPhase=1: i32,maxPhase=1,\n order=[ 0 ] } >": "#ttg.swizzled_shared<{vec = 1, "
    "perPhase = 1, maxPhase = 1, order = [0]}>",
}
WRONG = [
    "",
    "blocked",
    "#ttg.blocked",
    "#ttg.blocked<{sizePerThread = [1]}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}> #x",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]",
    "#ttg.blocked<{sizePerThread = [1, threadsPerWarp = [32]}>",
    "#ttg.blocked<{sizePerThread = 1, threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [x], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [-1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [99999999999999999999], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [3], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [1]}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], order = [0]}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], depth = 2}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CTAsPerCGA = [2]}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[2]]}>",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[1, 0]]}>",
    "#ttg.checkered<{order = [0]}>",
    "#mma",
    "#ttg.slice<{dim = 2, parent = #shared}>",
    f"#ttg.slice<{{dim = 2, parent = {BLOCKED}}}>",
    f"#ttg.slice<{{dim = 0, parent = #ttg.slice<{{dim = 0, parent = {BLOCKED}}}>}}>",
    f"#ttg.dot_op<{{opIdx = 2, parent = {MMA}, kWidth = 2}}>",
    f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}}}>",
    f"#ttg.dot_op<{{opIdx = 0, parent = {BLOCKED}, kWidth = 2}}>",
    "#ttg.amd_mfma<{version = 9, warpsPerCTA = [2, 4], instrShape = [32, 32], isTransposed = true}>",
    "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 4], instrShape = [8, 32], isTransposed = true}>",
    "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 4], instrShape = [32, 32], isTransposed = 7}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {}, instrShape = [16, 16, 32]}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {register = [[0, 1]], warp = [[1, 0, 0]]}}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {register = [[0, 1]], warp = [[0, 4]]}}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {}, CGALayout = [[1]]}>",
    "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {warp = [[0, 1]]}, rank = 3}>",
    "#ttg.amd_wmma<{version = 2, isTranspose = false, warpsPerCTA = [2, 4], ctaLayout = {}}>",
    "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 4], instrShape = [32, 32], isTransposed = true, elementType = 5}>",
    "#ttg.linear<{register = [[0, 3]], lane = [], warp = [], block = []}>",
    "#ttg.linear<{register = [[1, 1]], lane = [], warp = [], block = []}>",
    "#ttg.linear<{register = [[0, 1], [0, 1]], lane = [], warp = [], block = []}>",
    "#ttg.linear<{register = [[0, 1], [1]], lane = [], warp = [], block = []}>",
    "#ttg.linear<{register = [], lane = [], warp = [], block = []}>",
    "#ttg.swizzled_shared<{vec = 0, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 16, transposed = false, elementBitWidth = 16}>",
    "#ttg.padded_shared<[3:+2] {order = [1, 0], shape = [16, 32]}>",
    "#ttg.padded_shared<[2:+2] {order = [1, 0], shape = [32]}>",
    "#ttg.padded_shared<{order = [1, 0], shape = [16, 32]}>",
    "#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}>",
    "#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 3>",
    "#ttng.tensor_memory_encoding<blockM = 32, blockN = 64, colStride = 1>",
    "#ttng.tensor_memory_encoding<blockM = 64, blockN = 64>",
    "#ttg.slice<{dim = 0, parent = " * 60,
    "#ttg.blocked<{order = [\u00e9]}>",
]


OF_BLOCKS = [
    ("2", "2", "0", ", CGALayout = [[1]]"),
    ("2", "2, 1", "0", ""),
    ("2", "2", "1", ""),
    ("3", "1", "0", ""),
    ("4", "3", "0", ""),
    ("2", "4", "0", ""),
]
LINE = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]"
WRONG += [f"{LINE}, {CTAS.format(*numbers)}{more}}}>" for *numbers, more in OF_BLOCKS]
SWIZZLED = "#ttg.swizzled_shared<{{vec = {}, perPhase = 1, maxPhase = 8, order = [1, 0]}}>"
WRONG += [SWIZZLED.format(value) for value in ("true", "[1]", "{a = 1}", '"one"', LINE + "}>")]


WMMA = "#ttg.amd_wmma<{{version = {}, isTranspose = false, ctaLayout = {{}}, instrShape = {}}}>".format
MFMA = "#ttg.amd_mfma<{{version = {}, warpsPerCTA = [2, 2], instrShape = {}, isTransposed = false}}>".format
OPERAND = "#ttg.dot_op<{{opIdx = {}, parent = {}{}}}>".format
MMA_V = "#ttg.nvidia_mma<{{versionMajor = {}, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = {}}}>".format
WMMA_SHAPES = {
    1: [[16, 16, 16]],
    2: [[16, 16, 16], [16, 16, 32]],
    3: [[16, 16, 4], [16, 16, 32], [16, 16, 64], [16, 16, 128], [32, 16, 64], [32, 16, 128]],
}


def is_layout(text: str) -> bool:
    try:
        encoding(text)
    except LayoutError:
        return False
    return True


def test_instructions_that_there_are() -> None:
    sizes = [[m, n, k] for m in (8, 16, 32) for n in (8, 16, 32) for k in (4, 8, 16, 32, 64, 128, 256)]
    for version in (0, 1, 2, 3, 4):
        accepted = [size for size in sizes if is_layout(WMMA(version, size))]
        assert accepted == WMMA_SHAPES.get(version, []), version
    sizes = [[m, n, 8] for m in (4, 8, 16, 32, 64) for n in (4, 8, 16, 32, 64)]
    accepted = [size[:2] for size in sizes if is_layout(MFMA(4, size))]
    assert accepted == [[4, 64], [16, 16], [32, 32], [64, 4]]
    assert [version for version in range(7) if is_layout(MFMA(version, [16, 16]))] == [0, 1, 2, 3, 4]
    wide = MFMA(3, [16, 16]).removesuffix("}>")
    assert [bits for bits in (16, 32, 64) if is_layout(f"{wide}, elementBitWidth = {bits}}}>")] == [32, 64]


def test_what_need_not_be_given() -> None:
    assert AmdWmma(1, False, (), ()) is encoding(WMMA(1, [16, 16, 16]))
    assert AmdMfma(3, (2, 2), (16, 16), False) is encoding(MFMA(3, [16, 16]))
    assert NvidiaMma(2, 0, (2, 2), (16, 8)).cga == ()
    assert encoding(MMA.replace("versionMinor = 0, ", "")) is encoding(MMA)
    assert DotOperand(0, Blocked((1,), (32,), (4,), (0,))).k_width == 0


def test_widths_of_operands() -> None:
    """The kWidth that a parent takes, 0 for none, for the left and the right operand."""

    def widths(parent: str, index: int) -> list[int]:
        given = {0: "", **{width: f", kWidth = {width}" for width in (1, 2, 3, 4, 8, 16, 32)}}
        return [width for width, text in given.items() if is_layout(OPERAND(index, parent, text))]

    powers = [1, 2, 4, 8, 16, 32]
    for index in (0, 1):
        assert widths(BLOCKED, index) == [0]
        assert widths(MMA_V(2, [16, 8]), index) == powers
        assert widths(MMA_V(3, [16, 64, 16]), index) == (powers if index == 0 else [])
        assert widths(MFMA(3, [16, 16]), index) == powers
        assert [widths(WMMA(version, WMMA_SHAPES[version][0]), index) for version in (1, 2, 3)] == [
            *([8, 16], [4, 8, 16], powers),
        ]
    assert not is_layout(OPERAND(2, BLOCKED, ""))


@pytest.mark.quick
@pytest.mark.parametrize("text", SAME)
def test_text_is_printed_as_it_was_read(text: str) -> None:
    assert encoding(text).text == text


@pytest.mark.quick
@pytest.mark.parametrize("old", OLD)
def test_other_spellings_give_the_same_object(old: str) -> None:
    assert encoding(old).text == OLD[old]
    assert encoding(old) is encoding(OLD[old])


def test_equal_layouts_are_one_object() -> None:
    mma = NvidiaMma(2, 0, (2, 2), (16, 8))
    assert encoding(MMA) is mma
    assert DotOperand(0, mma, 2) is DotOperand(op_index=0, parent=mma, k_width=2)
    assert Blocked((1, 4), (2, 16), (4, 1), (1, 0)) is encoding(BLOCKED)
    assert encoding(f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>").parent is mma


def test_layouts_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="order cannot be changed"):
        encoding(BLOCKED).order = (0, 1)


def test_wrong_layouts_say_what_is_wrong(golden: Callable[[str, str], None]) -> None:
    lines = []
    for text in WRONG:
        with pytest.raises(LayoutError) as caught:
            encoding(text)
        shown = text if len(text) < 200 else text[:40] + " …"
        lines.append(
            f"{shown}\n    {caught.value}" + ("" if caught.value.offset is None else f" (at {caught.value.offset})")
        )
    golden("\n".join(lines) + "\n", "layouts/wrong_encodings.txt")


def mistakes(text: str) -> Iterator[str]:
    """A layout with one mistake: a number is 3 or 0, a truth is turned, a key goes or comes, something is behind it."""
    for number in re.finditer(r"(?<![\w-])\d+|true|false", text):
        for other in ("3", "0") if number[0].isdigit() else ("false" if number[0] == "true" else "true",):
            if other != number[0]:
                yield text[: number.start()] + other + text[number.end() :]
    for key in re.finditer(r"(?<=[{<])\w+ = (\w+|\[[^{=]*?\]), |, \w+ = (\w+|\[[^{=]*?\])(?=[}>,])", text):
        yield text[: key.start()] + text[key.end() :]
    if "}" in text:
        yield ", odd = 1}".join(text.rsplit("}", 1))
    yield f"{text[:-1]}, odd = 1>"


def said_of(text: str) -> str:
    try:
        return f"is {encoding(text).text}"
    except LayoutError as error:
        return str(error)


def test_one_mistake_is_refused_in_words_or_means_something_else(golden: Callable[[str, str], None]) -> None:
    kinds = {text.partition("<")[0]: text for text in reversed(SAME)}
    lines = [f"{wrong}\n    {said_of(wrong)}\n" for text in kinds.values() for wrong in mistakes(text)]
    golden("".join(lines), "layouts/one_mistake.txt")
