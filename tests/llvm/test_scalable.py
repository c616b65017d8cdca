"""Vectors of a fixed length on scalable ones: compiled for SVE everywhere, run where the processor has it."""

from __future__ import annotations

import ctypes
import re
from itertools import product

import numpy as np
import pytest
from llvm_native import load_all

from tilewright.backends.llvm.machine import Target, emit_assembly, host_target
from tilewright.backends.llvm.memory import masked_load, masked_store
from tilewright.backends.llvm.scalable import is_one_instruction, shuffle_of_two
from tilewright.backends.llvm.spelling import vector
from tilewright.backends.llvm.writer import LlvmWriter

SVE = [host_target("neoverse-v1"), host_target("a64fx")]
HERE = [target for target in SVE if target.runs_here()]
ELEMENTS = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64}


def orders(lanes: int) -> list[list[int]]:
    """Permutations of two vectors' lanes: what transposes and packing use, and any."""
    halves = [1 << n for n in range(lanes.bit_length() - 1)]
    exchanged = [[i if not i & h else i - h + lanes for i in range(lanes)] for h in halves]
    unpacked = [[start + i // 2 + (i % 2) * lanes for start in range(0, lanes, 4) for i in range(4)]] * (lanes >= 4)
    rng = np.random.default_rng(lanes)
    some = [rng.integers(0, 2 * lanes, lanes).tolist() for _ in range(4)]
    return [*exchanged, *unpacked, list(range(1, lanes + 1)), list(range(0, 2 * lanes, 2)), *some]


def shuffles(target: Target, element: str, lanes: int) -> str:
    """`f<n>(out, x, y)` for each of `orders`."""
    w, type = LlvmWriter(target), vector(element, lanes)
    for number, order in enumerate(orders(lanes)):
        with w.function(f"f{number}", [("ptr", "%out"), ("ptr", "%x"), ("ptr", "%y")]):
            x, y = (w.load(type, name, align=1) for name in ("%x", "%y"))
            w.store(type, w.shuffle(type, x, y, order), "%out", align=1)
    return w.render()


@pytest.mark.parametrize("target", SVE, ids=lambda target: target.tune)
@pytest.mark.parametrize("element", ELEMENTS)
def test_lanes_of_two_vectors_stay_in_registers(target: Target, element: str) -> None:
    lanes = target.lanes(int(element[1:]))
    assert "[sp" not in emit_assembly(shuffles(target, element, lanes), target)


def test_lanes_of_two_vectors_are_taken_apart_and_chosen_from() -> None:
    """The two steps need no instruction of SVE."""
    w, lanes, pointers = LlvmWriter(host_target()), 8, (ctypes.c_void_p,) * 3
    for number, order in enumerate(orders(lanes)):
        with w.function(f"f{number}", [("ptr", "%out"), ("ptr", "%x"), ("ptr", "%y")]):
            both = w.load("<8 x i32>", "%x", align=1), w.load("<8 x i32>", "%y", align=1)
            w.store("<8 x i32>", shuffle_of_two(w, "<8 x i32>", both, order), "%out", align=1)
    x, y, out = np.arange(lanes, dtype=np.int32), np.arange(lanes, 2 * lanes, dtype=np.int32), np.zeros(lanes, np.int32)
    functions = load_all(w.render(), host_target(), {f"f{n}": pointers for n in range(len(orders(lanes)))})
    for function, order in zip(functions.values(), orders(lanes), strict=True):
        function(out.ctypes.data, x.ctypes.data, y.ctypes.data)
        assert out.tolist() == order


def repeated(target: Target, element: str) -> str:
    """`f0(out, x)`: 16 bytes again and again."""
    w, lanes, count = LlvmWriter(target), target.lanes(int(element[1:])), 128 // int(element[1:])
    with w.function("f0", [("ptr", "%out"), ("ptr", "%x")]):
        value = w.load(vector(element, count), "%x", align=1)
        again = w.shuffle(vector(element, count), value, "poison", [lane % count for lane in range(lanes)])
        w.store(vector(element, lanes), again, "%out", align=1)
    return w.render()


@pytest.mark.quick
@pytest.mark.parametrize("target", SVE, ids=lambda target: target.tune)
@pytest.mark.parametrize("element", ELEMENTS)
def test_16_bytes_are_repeated_by_one_instruction(target: Target, element: str) -> None:
    text = emit_assembly(repeated(target, element), target)
    assert "[sp" not in text
    assert len(re.findall(r"\sld1rq\w\s|\smov\sz\d+\.q", text)) == 1, text


@pytest.mark.quick
@pytest.mark.skipif(not HERE, reason="asks an AArch64 processor")
@pytest.mark.parametrize("target", HERE or [None], ids=str)
@pytest.mark.parametrize("element", ELEMENTS)
def test_16_bytes_repeated(target: Target, element: str) -> None:
    (function,) = load_all(repeated(target, element), target, {"f0": [ctypes.c_void_p] * 2}).values()
    x, out = np.arange(16, dtype=np.uint8), np.zeros(target.vector_bits // 8, np.uint8)
    function(out.ctypes.data, x.ctypes.data)
    assert out.tolist() == list(range(16)) * (len(out) // 16)


@pytest.mark.quick
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_one_instruction(bits: int) -> None:
    lanes = 512 // bits
    pairs = [lane for i in range(0, lanes, 2) for lane in (i, lanes + i)]
    assert is_one_instruction(pairs, bits)
    assert all(is_one_instruction(list(range(first, 2 * lanes, 2)), bits) for first in (0, 1))
    assert not is_one_instruction(list(range(1, lanes + 1)), bits)
    quads = [start + i + half * lanes for start in range(0, lanes, 8) for half in (0, 1) for i in range(4)]
    assert is_one_instruction(quads, bits) == (4 * bits <= 64)
    assert not is_one_instruction([0, 1], bits), "the first vector itself is none"


@pytest.mark.quick
@pytest.mark.parametrize("target", SVE, ids=lambda target: target.tune)
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "float", "double", "half", "bfloat"])
def test_a_number_in_all_lanes_is_one_instruction(target: Target, element: str) -> None:
    w = LlvmWriter(target)
    lanes = target.lanes({"float": 32, "double": 64, "half": 16, "bfloat": 16}.get(element) or int(element[1:]))
    with w.function("f", [("ptr", "%out"), ("ptr", "%x")]):
        w.store(vector(element, lanes), w.splat(w.load(element, "%x", align=1), element, lanes), "%out", align=1)
    assert re.search(r"\bld1r[bhwd]?\b|\bmov\s+z\d+\.[hsd], [hsd]\d+", emit_assembly(w.render(), target))


def masks(target: Target, element: str, lanes: int) -> str:
    """`load(out, x, mask)` and `store(out, x, mask)`; a mask is a byte per lane."""
    w, type = LlvmWriter(target), vector(element, lanes)
    for name in ("load", "store"):
        with w.function(name, [("ptr", "%out"), ("ptr", "%x"), ("ptr", "%mask")]):
            loaded = w.load(vector("i8", lanes), "%mask", align=1)
            mask = w.convert("trunc", loaded, vector("i8", lanes), vector("i1", lanes))
            if name == "load":
                other = w.splat("7", element, lanes)
                w.store(type, masked_load(w, "%x", element, lanes, mask, other, align=1), "%out", align=1)
            else:
                masked_store(w, "%out", element, lanes, w.load(type, "%x", align=1), mask, align=1)
    return w.render()


@pytest.mark.quick
@pytest.mark.parametrize("target", SVE, ids=lambda target: target.tune)
@pytest.mark.parametrize(("element", "share"), list(product(ELEMENTS, [1, 2, 4])))
def test_masks_are_the_processors(target: Target, element: str, share: int) -> None:
    lanes = 2 * target.lanes(int(element[1:])) // share
    text = masks(target, element, lanes)
    assert ("llvm.masked.load" in text) == (lanes * int(element[1:]) >= 128)
    assert emit_assembly(text, target)


@pytest.mark.quick
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.skipif(not HERE, reason="asks an AArch64 processor")
def test_every_lane_where_there_is_sve(element: str) -> None:
    """Shuffles against NumPy; masks of every prefix and at random, with no byte touched beyond."""
    (target,), dtype = HERE, ELEMENTS[element]
    full = target.lanes(int(element[1:]))
    rng, pointers = np.random.default_rng(5), (ctypes.c_void_p,) * 3
    for lanes in (full // 2, full, 2 * full):
        x, y = (rng.integers(0, 200, lanes).astype(dtype) for _ in range(2))
        out = np.zeros(lanes, dtype)
        names = {f"f{n}": pointers for n in range(len(orders(lanes)))}
        found = load_all(shuffles(target, element, lanes), target, names)
        for f, order in zip(found.values(), orders(lanes), strict=True):
            f(out.ctypes.data, x.ctypes.data, y.ctypes.data)
            np.testing.assert_array_equal(out, np.concatenate([x, y])[order])
        masked = load_all(masks(target, element, lanes), target, {"load": pointers, "store": pointers})
        for mask in [*(np.arange(lanes) < n for n in range(lanes + 1)), *rng.integers(0, 2, (20, lanes)).astype(bool)]:
            bytes_of = mask.astype(np.uint8)
            masked["load"](out.ctypes.data, x.ctypes.data, bytes_of.ctypes.data)
            np.testing.assert_array_equal(out, np.where(mask, x, 7))
            before = out.copy()
            masked["store"](out.ctypes.data, y.ctypes.data, bytes_of.ctypes.data)
            np.testing.assert_array_equal(out, np.where(mask, y, before))
