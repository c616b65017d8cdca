"""Registers that groups of warps give one another while they do different things."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.backends.base import GPUTarget
from tilewright.compat.filecheck import run_parser
from tilewright.gluon import language as gl


@gluon.jit
def put(out, place, value):
    gl.store(out + place, value)


@gluon.jit
def three(out, WARPS: gl.constexpr, REGISTERS: gl.constexpr):
    for turn in range(2):
        gl.warp_specialize(
            [(put, (out, 0, turn + 1)), (put, (out, 1, turn + 2)), (put, (out, 2, turn + 3))], WARPS, REGISTERS
        )
    gl.store(out + 3, 7)


@gluon.jit
def different(out):
    gl.warp_specialize([(put, (out, 0, 1)), (put, (out, 1, 2))], [4], [240])
    gl.warp_specialize([(put, (out, 2, 3)), (put, (out, 3, 4))], [8], [100])


def changes(text: str) -> list[tuple[str, int]]:
    found = re.findall(r"setmaxnreg\.(\w+)\.sync\.aligned\.u32\s+(\d+)", text)
    return sorted({(way, int(count)) for way, count in found})


@pytest.mark.parametrize(
    ("warps", "registers", "threads", "at_entry", "expected"),
    [
        ([4, 1], [24, 24], 384, 168, [("dec", 24), ("dec", 168), ("inc", 168), ("inc", 256)]),
        ([1, 4], [49, 80], 384, 168, [("dec", 56), ("dec", 80), ("dec", 168), ("inc", 168), ("inc", 256)]),
        ([1, 2], [24, 48], 256, 256, [("dec", 48), ("inc", 256)]),
        ([4, 4], [232, 232], 384, 168, [("dec", 40), ("dec", 168), ("inc", 168), ("inc", 232)]),
        ([4, 1], None, 288, 0, []),
    ],
)
def test_groups_take_what_they_want(
    warps: list[int], registers: list[int] | None, threads: int, at_entry: int, expected: list[tuple[str, int]]
) -> None:
    out = np.zeros(4, np.int32)
    with tilewright.simulate("cuda:90"):
        text = assembled_text(three[(1,)](out, WARPS=warps, REGISTERS=registers), 90)
    assert out.tolist() == [2, 3, 4, 7]
    assert f".reqntid {threads}" in text
    assert (f".maxnreg {at_entry}" in text) == bool(at_entry)
    assert changes(text) == expected


def test_each_op_deals_anew() -> None:
    out = np.zeros(4, np.int32)
    with tilewright.simulate("cuda:100"):
        text = assembled_text(different[(1,)](out), 100)
    assert out.tolist() == [1, 2, 3, 4]
    assert changes(text) == [("dec", 24), ("dec", 104), ("dec", 168), ("inc", 168), ("inc", 240), ("inc", 256)]


def test_the_kernels_own_number_is_dealt() -> None:
    out = np.zeros(4, np.int32)
    with tilewright.simulate("cuda:90"):
        text = three[(1,)](out, WARPS=[4, 1], REGISTERS=[24, 24], maxnreg=100).asm["ptx"]
    assert out.tolist() == [2, 3, 4, 7]
    assert ".maxnreg 96" in text
    assert ("inc", 240) in changes(text)


def test_functions_say_how_many_warps_a_worker_has() -> None:
    """The first function is executed by the warps of the program."""
    arguments = {"out": np.zeros(4, np.int32), "WARPS": [2, 1], "REGISTERS": None}
    text = run_parser(three, kwargs=arguments, target=GPUTarget("cuda", 90, 32)).str_nodebug()
    functions = re.findall(r"func private @\S+?put\w*?(_NW\d+)?\(.*\) attributes \{(.*)\}", text)
    first, *others = [(name, attributes.partition(", ")[2]) for name, attributes in functions]
    assert first == ("", "")
    assert others == [("_NW2", '"ttg.num-warps" = 2 : i32'), ("_NW1", '"ttg.num-warps" = 1 : i32')]


def test_older_hardware_deals_nothing() -> None:
    out = np.zeros(4, np.int32)
    with tilewright.simulate("cuda:80"):
        text = three[(1,)](out, WARPS=[4, 1], REGISTERS=[24, 24]).asm["ptx"]
    assert "maxnreg" not in text


def test_there_are_no_more_registers_than_hardware_has() -> None:
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError) as caught:
        three[(1,)](np.zeros(4, np.int32), WARPS=[4, 4], REGISTERS=[248, 248])
    assert "warp_specialize that asks for so many registers (63488 of 64512)" in str(caught.value)
    assert "gl.warp_specialize(" in str(caught.value)
