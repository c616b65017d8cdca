"""The writer: loops, branches, sections, masked memory; compiled and run on every level of processors this host has."""

import ctypes

import numpy as np
import pytest
from llvm_native import load, undefined_symbols
from llvm_ops import LEVELS

from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.backends.llvm.memory import gather, lane_pointers, masked_load, masked_store, scatter
from tilewright.backends.llvm.spelling import constant, constant_vector, iota, literal, suffix, vector
from tilewright.backends.llvm.writer import LlvmWriter

P, N = ctypes.c_void_p, ctypes.c_int64


@pytest.fixture(params=LEVELS)
def target(request):
    return host_target(request.param)


MASKED = {
    "x86-64-v2": (),
    "x86-64-v3": (("float", 4), ("float", 8), ("i32", 4), ("i64", 2), ("double", 4)),
    "x86-64-v4": (("float", 2), ("i8", 8), ("i8", 64), ("half", 4), ("bfloat", 32), ("double", 2), ("i16", 8)),
}
UNMASKED = (("float", 1), ("double", 1), ("i8", 4), ("half", 2), ("i1", 16))
NARROW = (("float", 2), ("i8", 8), ("i8", 16), ("half", 8), ("i16", 16))


@pytest.mark.quick
@pytest.mark.parametrize("cpu", MASKED)
def test_masks_are_the_processors_where_it_has_them(cpu):
    """AVX2 has masks for words of 32 and 64 bits, AVX-512 from bytes on; for 128 and 64 bits in all, or more."""
    others = (*UNMASKED, *(NARROW if cpu == "x86-64-v3" else ()), *(MASKED["x86-64-v4"] if cpu == "x86-64-v2" else ()))
    for element, lanes in (*MASKED[cpu], *others):
        type, w = vector(element, lanes), LlvmWriter(host_target(cpu))
        with w.function("f", [("ptr", "%x"), (vector("i1", lanes), "%mask"), (type, "%value"), ("ptr", "%out")]):
            found = masked_load(w, "%x", element, lanes, "%mask", "%value", align=1)
            masked_store(w, "%out", element, lanes, found, "%mask", align=1)
        expected = (element, lanes) in MASKED[cpu]
        assert ["llvm.masked.load" in w.render(), "llvm.masked.store" in w.render()] == [expected] * 2, (element, lanes)


def test_literals_are_exact():
    assert literal(0.1, "float") == "0x3FB99999A0000000"
    assert literal(-0.0, "double") == "0x8000000000000000"
    assert literal(0.0, "double") == "0x0000000000000000"
    assert literal(1.0, "half") == "0xH3C00"
    assert literal(1.0, "bfloat") == "0xR3F80"
    assert literal(255, "i8") == "-1"
    assert literal(float("inf"), "float") == "0x7FF0000000000000"
    assert literal(1e39, "float") == literal(float("inf"), "float")


def test_spelling():
    assert vector("float", 16) == "<16 x float>"
    assert suffix("<4 x ptr>") == "v4p0"
    assert suffix("bfloat") == "bf16"
    assert iota(2) == "<i32 0, i32 1>"
    assert constant(True, "i1", 4) == "splat (i1 true)"


def test_sum_with_a_guarded_loop(target):
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%x"), ("i64", "%n"), ("ptr", "%out")]):
        with w.loop(0, "%n", carried=[("double", literal(0, "double"))], guarded=True) as loop:
            value = w.load("double", w.offset("%x", "double", loop.index), align=8)
            loop.next = [w.emit(f"fadd double {loop.carried[0]}, {value}")]
        w.store("double", loop.results[0], "%out", align=8)
    f = load(w.render(), target, "f", P, N, P)
    x, out = np.arange(5.0), np.full(1, -1.0)
    for n, expected in ((0, 0.0), (1, 0.0), (5, 10.0)):
        f(x.ctypes.data, n, out.ctypes.data)
        assert out[0] == expected


def test_front_takes_loops_and_branches(target):
    """Code added in front of a loop from inside the loop runs once, also when it has blocks of its own."""
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%out"), ("i64", "%n")]):
        front = w.open_section()
        with w.loop(0, "%n", guarded=True) as outer:
            with w.loop(0, 3, carried=[("i64", "0")]) as inner:
                with w.at(front):
                    with w.loop(0, 4, carried=[("i64", "0")]) as hoisted:
                        hoisted.next = [w.emit(f"add i64 {hoisted.carried[0]}, 10")]
                    positive = w.emit(f"icmp sgt i64 {hoisted.results[0]}, 0")
                    with w.branch(positive, unlikely=True) as b, b.then():
                        doubled = w.emit(f"add i64 {hoisted.results[0]}, 2")
                    start = b.join("i64", doubled, "0")
                inner.next = [w.emit(f"add i64 {inner.carried[0]}, {start}")]
            w.store("i64", inner.results[0], w.offset("%out", "i64", outer.index), align=8)
    f = load(w.render(), target, "f", P, N)
    out = np.zeros(4, np.int64)
    f(out.ctypes.data, 2)
    assert out.tolist() == [126, 126, 0, 0]


def unlikely_code(writing_target):
    """For each i in range(n): 1, and where i is odd 10 more, 100 + a helper's result where it is 3."""
    w = LlvmWriter(writing_target)

    def helped():
        with w.branch(w.emit("icmp sgt i64 %i, 2"), unlikely=True) as b, b.then():
            more = w.emit("mul i64 %i, 1000")
        return b.join("i64", more, "0")

    with w.function("f", [("ptr", "%out"), ("i64", "%n")]), w.loop(0, "%n") as loop:
        odd = w.emit(f"trunc i64 {loop.index} to i1")
        with w.branch(odd, unlikely=True) as outer, outer.then():
            with w.branch(w.emit(f"icmp eq i64 {loop.index}, 3"), unlikely=True) as inner, inner.then():
                far = w.call("i64", w.helper("tw_helped", [("i64", "%i")], "i64", helped), [("i64", loop.index)])
                with w.loop(0, 10, carried=[("i64", far)]) as tens:
                    tens.next = [w.emit(f"add i64 {tens.carried[0]}, 10")]
            rare = w.emit(f"add i64 {inner.join('i64', tens.results[0], '0')}, 10")
        value = w.emit(f"add i64 {outer.join('i64', rare, '0')}, 1")
        w.store("i64", value, w.offset("%out", "i64", loop.index), align=8)
    return w.render()


def test_unlikely_code_is_behind_all_other_where_conditions_cannot_be_inverted(target):
    moved = unlikely_code(target._replace(triple="nvptx64-nvidia-cuda"))
    for text in (unlikely_code(target), moved):
        f, out = load(text, target, "f", P, N), np.zeros(5, np.int64)
        f(out.ctypes.data, 5)
        assert out.tolist() == [1, 11, 1, 3111, 1]
    for function in moved.split("define ")[1:]:
        jumps, rare = function.partition("  ret ")[::2]
        assert "then" in jumps
        assert "\nthen" not in jumps
        assert "\nthen" in rare
    assert moved.count("\nthen") == 3


def test_branch_has_a_block_for_a_side_that_does_something(target):
    """The value of an empty side comes from the block that jumps, also where that block is known late."""
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%out"), ("i64", "%n")]):
        front = w.open_section()
        positive = w.emit("icmp sgt i64 %n, 0")
        with w.branch(positive) as sparse:
            with sparse.then():
                more = w.emit("add i64 %n, 1")
            with sparse.otherwise():
                pass
        first = sparse.join("i64", more, "-1")
        with w.branch(positive) as full:
            with full.then():
                pass
            with full.otherwise():
                less = w.emit("sub i64 0, %n")
        second = full.join("i64", "7", less)
        with w.at(front), w.loop(0, 2) as loop:
            w.store("i64", loop.index, w.offset("%out", "i64", loop.index), align=8)
        for place, value in ((2, first), (3, second)):
            w.store("i64", value, w.offset("%out", "i64", place), align=8)
    text = w.render()
    assert sum(line.startswith("else") for line in text.splitlines()) == 1
    f, out = load(text, target, "f", P, N), np.zeros(4, np.int64)
    for n, expected in ((4, [0, 1, 5, 7]), (-4, [0, 1, -1, 4])):
        f(out.ctypes.data, n)
        assert out.tolist() == expected


@pytest.mark.quick
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "half", "bfloat", "float", "double"])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_masked_memory_touches_only_its_lanes(target, element, lanes):
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%x"), ("ptr", "%m"), ("ptr", "%out")]):
        flags = w.load(vector("i8", lanes), "%m", align=1)
        mask = w.emit(f"icmp ne {vector('i8', lanes)} {flags}, {constant(0, 'i8', lanes)}")
        value = masked_load(w, "%x", element, lanes, mask, constant(1, element, lanes), align=1)
        masked_store(w, "%out", element, lanes, value, mask, align=1)
        w.store(vector(element, lanes), value, w.offset("%out", element, lanes), align=1)
    f = load(w.render(), target, "f", P, P, P)
    size = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i64": 8, "double": 8}.get(element, 4)
    x = np.arange(1, 1 + lanes * size, dtype=np.uint8)
    mask = np.array([(i % 3 == 0) for i in range(lanes)], np.uint8)
    out = np.full(2 * lanes * size, 99, np.uint8)
    f(x.ctypes.data, mask.ctypes.data, out.ctypes.data)
    on = np.repeat(mask.astype(bool), size)
    assert (out[: lanes * size] == np.where(on, x, 99)).all()
    assert (out[lanes * size :][on] == x[on]).all()


@pytest.mark.quick
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "half", "bfloat", "float", "double"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 32, 128])
def test_masks_that_are_known(target, element, lanes):
    """LLVM has no registers for vectors of 16 and 32 bits, and none for those beyond 512."""
    w, type = LlvmWriter(target), vector(element, lanes)
    with w.function("f", [("ptr", "%x"), ("ptr", "%out")]):
        mask = constant_vector([lane == lanes - 1 for lane in range(lanes)], "i1")
        masked_store(w, "%out", element, lanes, w.load(type, "%x", align=1), mask, align=1, is_known=True)
    f = load(w.render(), target, "f", P, P)
    size = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i64": 8, "double": 8}.get(element, 4)
    x, out = np.arange(lanes * size).astype(np.uint8), np.full(lanes * size, 99, np.uint8)
    f(x.ctypes.data, out.ctypes.data)
    assert (out[:-size] == 99).all()
    assert (out[-size:] == x[-size:]).all()


def test_masked_off_lanes_may_point_anywhere(target):
    """A null pointer under a false mask must not fault."""
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%out")]):
        value = masked_load(w, "null", "float", 8, "zeroinitializer", constant(2.0, "float", 8), align=4)
        masked_store(w, "null", "float", 8, value, "zeroinitializer", align=4)
        w.store("<8 x float>", value, "%out", align=4)
    out = np.zeros(8, np.float32)
    load(w.render(), target, "f", P)(out.ctypes.data)
    assert (out == 2).all()


def test_gather_and_scatter(target):
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%x"), ("ptr", "%out")]):
        pointers = lane_pointers(w, "%x", constant_vector(range(2, 6), "i64"), "i32", 4)
        mask = "<i1 1, i1 0, i1 1, i1 1>"
        value = gather(w, pointers, "i32", mask=mask, other=constant(-1, "i32", 4), align=4)
        scatter(w, lane_pointers(w, "%out", "<i64 3, i64 2, i64 1, i64 0>", "i32", 4), "i32", value, align=4)
    x, out = np.arange(8, dtype=np.int32) * 10, np.zeros(4, np.int32)
    load(w.render(), target, "f", P, P)(x.ctypes.data, out.ctypes.data)
    assert out.tolist() == [50, 40, -1, 20]


def test_concat_and_slice(target):
    w = LlvmWriter(target)
    with w.function("f", [("ptr", "%x"), ("ptr", "%out")]):
        x = w.load("<8 x i32>", "%x", align=4)
        parts = [w.slice(x, "i32", 8, start, 2) for start in (6, 4, 2, 0)]
        w.store("<8 x i32>", w.concat(parts, "i32", 2), "%out", align=4)
        singles = [w.slice(x, "i32", 8, lane, 1) for lane in (3, 2, 1, 0)]
        w.store("<4 x i32>", w.concat(singles, "i32", 1), w.offset("%out", "i32", 8), align=4)
    x, out = np.arange(8, dtype=np.int32), np.zeros(12, np.int32)
    load(w.render(), target, "f", P, P)(x.ctypes.data, out.ctypes.data)
    assert out.tolist() == [6, 7, 4, 5, 2, 3, 0, 1, 3, 2, 1, 0]


@pytest.mark.quick
@pytest.mark.parametrize("cpu", ["aarch64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4"])
def test_fma_is_never_a_call(cpu):
    w = LlvmWriter(host_target(cpu))
    with w.function("f", [("ptr", "%x")]):
        for element in ("float", "double"):
            x = w.load(vector(element, 4), "%x", align=4)
            w.store(vector(element, 4), w.fma(vector(element, 4), x, x, x), "%x", align=4)
    assert not undefined_symbols(compile_object(w.render(), host_target(cpu)))
