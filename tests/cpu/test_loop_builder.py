"""Vector loops as the CPU back end builds them: their text, what the interpreter and the machine make of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from loop_native import llvm_text, module_of, run_both

from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder, known
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Block, Value
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import PointerType, VectorType, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from tilewright.ir.verifier import verify

F4, I4, L4 = (VectorType((4,), element) for element in (f32, i32, i64))
FLOATS = PointerType(f32)
TARGETS = [
    pytest.param(target, id=target.cpu)
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4")
    for target in [host_target(name)]
]


def here(target: Target) -> Target:
    if not target.runs_here():
        pytest.skip(f"this host does not run {target.cpu} code")
    return target


# ------------------------------------------------------------------ what programs are tried


def sums(b: LoopBuilder, x: Value, out: Value, count: Value) -> None:
    """Sums of every fourth element, a constant, and a rest that hardly ever is there."""
    ten = b.constant(10.0, F4)
    with b.loop(0, b.and_(count, -4), 4, carried=[ten]) as loop:
        part = b.load(F4, x, b.mul(loop.index, 4), align=4)
        loop.next = [b.add(loop.carried[0], part)]
    with b.branch(b.compare("ne", b.and_(count, 3), 0), unlikely=True) as branch, branch.then():
        last = b.load(f32, x, b.mul(b.sub(count, 1), 4), align=4)
        more = b.add(loop.results[0], b.splat(last, 4))
    b.store(branch.join(more, loop.results[0]), out, align=4)


def masked(b: LoopBuilder, x: Value, out: Value, count: Value) -> None:
    """Lanes below a bound, neighbours and others."""
    on = b.compare("slt", b.step(8, i64), b.splat(count, 8))
    eights = b.constant(8.0, VectorType((8,), f32))
    found = b.masked_load(x, on, eights, 4, align=4)
    b.masked_store(found, out, on, align=4)
    b.masked_store(b.masked_load(x, on, eights, stride=8), out, on, 64, stride=12)
    b.store(b.load(VectorType((8,), f32), x, 4, stride=b.mul(count, 4), align=4), out, 160, stride=4)
    b.store(b.load(VectorType((8,), f32), x, 4, stride=0), out, 192)


def scattered(b: LoopBuilder, x: Value, out: Value, count: Value) -> None:
    """Elements by number and by address; of lanes with one address the last one is written."""
    places, on = b.constants([3, 0, 2, 3], L4), b.compare("slt", b.step(4, i64), b.splat(count, 4))
    x, out = b.pointing(x, f32), b.pointing(out, f32)
    found = b.gather(F4, x, places, align=4)
    b.scatter(found, out, places, align=4)
    some = b.gather(F4, x, places, mask=on, other=found, align=4)
    b.scatter(some, b.offset(out, 8), places, mask=on)
    pointers = b.offset(b.splat(x, 4), places)
    b.store_each(b.load_each(pointers), b.offset(b.splat(b.offset(out, 16), 4), b.step(4, i64)))
    b.store_each(b.load_each(pointers, mask=on), b.offset(b.splat(b.offset(out, 24), 4), b.step(4, i64)), mask=on)


def rearranged(b: LoopBuilder, x: Value, out: Value, count: Value) -> None:
    """Lanes in another order, in pieces and as other bits."""
    a, c = b.load(F4, x), b.load(F4, x, 16)
    b.store(b.shuffle(a, c, [0, 4, 1, 5]), out)
    b.store(b.concat([b.extract(a, 3), b.extract(c, 1)]), out, 16)
    b.store(b.concat([b.slice(a, 2, 2), b.slice(c, 0, 2)]), out, 32)
    bytes = b.bitcast(a, VectorType((16,), i8))
    b.store(b.xor(bytes, b.constant(-128, bytes.type)), out, 48)
    b.store(b.spaced_load(F4, x, 3, align=4), out, 64)
    numbers = b.table([5, 6, 7], i16)
    b.store(b.load(i16, numbers, b.mul(count, 2)), out, 80)
    b.store(b.convert("sitofp", b.load(i32, x), f32), out, 96)


def elsewhere(b: LoopBuilder, x: Value, out: Value, count: Value) -> None:
    """Ops that are put in front of others once it is known that they are needed, and slots on the stack."""
    front, wanted = b.place(), b.later(i1)
    with b.loop(0, 4, 1) as loop:
        at = b.mul(loop.index, 4)
        with b.branch(wanted) as branch:
            with branch.then():
                scaled = b.mul(b.load(f32, x, at), b.constant(2.0, f32))
            with branch.otherwise():
                plain = b.load(f32, x, at)
        b.store(branch.join(scaled, plain), out, at)
        b.prefetch(x, b.add(at, 4096), locality=2, write=True)
    with b.at(front):
        wanted.replace_by(b.compare("sgt", count, 2))
    pointer = b.select(b.compare("sgt", count, 100), x, b.waste_slot())
    b.store(b.constant(1, i32), pointer)
    b.store(b.select(b.constant(1, i1), b.load(i32, b.waste_slot()), b.constant(5, i32)), out, 32)
    b.stream(b.constant(7, I4), out, 16, align=16)


PROGRAMS = [sums, masked, scattered, rearranged, elsewhere]


@pytest.mark.parametrize("count", [0, 3, 4, 7])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_interpreter_and_machine_agree(build: Callable[..., None], target: Target, count: int) -> None:
    if build is rearranged:
        count = min(count, 2)  # there are three numbers in its table
    x, out = np.arange(1, 65, dtype=np.float32), np.zeros(128, np.float32)
    interpreted, native = run_both(build, (BYTES, BYTES, i64), (x, out, count), here(target))
    np.testing.assert_array_equal(interpreted[1].view(np.int32), native[1].view(np.int32))
    assert interpreted[1].any()


def test_results() -> None:
    """The interpreter's results are what the programs say."""
    x, out = np.arange(1, 65, dtype=np.float32), np.zeros(128, np.float32)

    def of(build: Callable[..., None], count: int) -> np.ndarray:
        return run_both(build, (BYTES, BYTES, i64), (x, out, count), here(host_target()))[0][1]

    assert of(sums, 7)[:4].tolist() == [18, 19, 20, 21]
    assert of(sums, 8)[:4].tolist() == [16, 18, 20, 22]
    assert of(masked, 2)[:8].tolist() == [2, 3, 0, 0, 0, 0, 0, 0]
    assert of(masked, 2)[16:24].tolist() == [1, 0, 0, 3, 0, 0, 0, 0]
    assert of(masked, 2)[40:56].tolist() == [2, 4, 6, 8, 10, 12, 14, 16, *[2] * 8]
    assert of(scattered, 1)[:4].tolist() == [1, 0, 3, 4]
    assert of(scattered, 1)[8:12].tolist() == [0, 0, 0, 4]
    assert of(scattered, 1)[16:28].tolist() == [4, 1, 3, 4, 0, 0, 0, 0, 4, 0, 0, 0]
    assert of(rearranged, 1)[:12].tolist() == [1, 5, 2, 6, 4, 6, 0, 0, 3, 4, 5, 6]
    assert of(rearranged, 1)[16:20].tolist() == [1, 4, 7, 10]
    assert of(elsewhere, 3)[:4].tolist() == [2, 4, 6, 8]
    assert of(elsewhere, 2)[:4].tolist() == [1, 2, 3, 4]
    assert of(elsewhere, 2)[4:9].view(np.int32).tolist() == [7, 7, 7, 7, 1]


DOTS: list[tuple[Any, Any, int, bool, str]] = [
    (i8, i32, 4, False, "neoverse-v2"),
    (i8, i32, 8, False, "neoverse-v1"),
    (i8, i32, 8, True, "icelake-server"),
    (i16, i32, 4, False, "x86-64-v2"),
    (i16, i32, 8, False, "x86-64-v3"),
    (bf16, f32, 16, False, "znver4"),
]


@pytest.mark.parametrize(("element", "total", "lanes", "unsigned", "cpu"), DOTS, ids=[f"{d[0]}-{d[4]}" for d in DOTS])
def test_dot_products_of_groups(element: Any, total: Any, lanes: int, unsigned: bool, cpu: str) -> None:
    target, group = host_target(cpu), total.bits // element.bits
    wide, narrow = VectorType((lanes,), total), VectorType((lanes * group,), element)

    def build(b: LoopBuilder, x: Value, y: Value, out: Value) -> None:
        found = b.dot_accumulate(b.load(narrow, x), b.load(narrow, y), b.load(wide, out), unsigned=unsigned)
        b.store(found, out)

    text = llvm_text(module_of(build, (BYTES,) * 3), target)
    assert len(re.findall(r"call .*@llvm\.(?:x86|aarch64)", text)) == 1
    if not target.runs_here() or element is bf16:
        return
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-128, 128, lanes * group).astype(f"i{element.bits // 8}") for _ in range(2))
    out = np.arange(lanes, dtype=np.int32)
    interpreted, native = run_both(build, (BYTES,) * 3, (x, y, out), target)
    left = x.view(f"u{element.bits // 8}") if unsigned else x
    wanted = out + (left.astype(np.int32) * y).reshape(lanes, group).sum(axis=1)
    assert interpreted[2].tolist() == native[2].tolist() == wanted.tolist()


MATRICES = [
    (i8, i32, 4, "neoverse-v2"),
    (i8, i32, 8, "neoverse-v1"),
    (bf16, f32, 4, "neoverse-v2"),
    (bf16, f32, 8, "neoverse-v1"),
]


@pytest.mark.parametrize(("element", "total", "lanes", "cpu"), MATRICES, ids=[f"{m[0]}-{m[3]}" for m in MATRICES])
def test_products_of_matrices(element: Any, total: Any, lanes: int, cpu: str) -> None:
    wide, narrow = VectorType((lanes,), total), VectorType((lanes * total.bits // element.bits,), element)

    def build(b: LoopBuilder, x: Value, y: Value, out: Value) -> None:
        b.store(b.matrix_accumulate(b.load(narrow, x), b.load(narrow, y), b.load(wide, out)), out)

    module = module_of(build, (BYTES,) * 3)
    text = llvm_text(module, host_target(cpu))
    assert len(re.findall(r"call .*@llvm\.aarch64\.\w+\.(?:s|bf)mmla", text)) == 1
    rng = np.random.default_rng(3)
    type = np.int8 if element is i8 else ml_dtypes.bfloat16
    x, y = (rng.integers(-9, 9, 4 * lanes * 8 // element.bits).astype(type) for _ in range(2))
    out = np.arange(lanes, dtype=np.int32 if total is i32 else np.float32)
    wanted = out.copy()
    run_ir(module, [x, y, out])
    for start in range(0, lanes, 4):
        rows, columns = (side.reshape(lanes // 4, 2, -1)[start // 4].astype(np.int64) for side in (x, y))
        wanted[start : start + 4] += (rows @ columns.T).reshape(4).astype(out.dtype)
    assert out.tolist() == wanted.tolist()


def test_texts(golden: Callable[[str, str], None]) -> None:
    modules = [module_of(build, (BYTES, BYTES, i64)) for build in PROGRAMS]
    golden("\n".join(map(print_op, modules)), "cpu/loop_builder.ttir")
    golden("\n".join(llvm_text(module, host_target("x86-64-v3")) for module in modules), "cpu/loop_builder.ll")


def test_what_is_known_takes_no_op() -> None:
    block = Block([i64, BYTES, VectorType((4,), i1)])
    n, p, flags = block.args
    b = LoopBuilder(block)
    assert b.add(n, 0) is b.add(0, n) is b.sub(n, 0) is b.mul(n, 1) is b.mul(1, n) is b.or_(n, 0) is n
    assert b.offset(p, 0) is b.offset(p, b.constant(0, i64)) is b.pointing(p, i8) is p
    assert b.and_(flags, b.constant(1, flags.type)) is b.or_(flags, 0) is b.select(b.constant(1, i1), flags, n) is flags
    assert known(b.mul(n, 0)) == 0
    assert known(b.add(3, b.constant(4, i64))) == known(b.sub(b.constant(9, i64), 2)) == 7
    assert known(b.add(b.constant(2**31 - 1, i32), 1)) == -(2**31)
    assert known(b.smax(b.smin(b.constant(9, i64), 3), -4)) == 3
    assert known(b.lshr(b.constant(-1, i8), 4)) == 15
    assert known(b.extend(b.constant(-1, i8), i32)) == -1
    assert known(b.extend(b.constant(-1, i8), i32, signed=False)) == 255
    assert b.step(4, i32) is b.step(4, i32)
    assert b.waste_slot() is b.waste_slot()
    assert b.extend(n, i64) is b.bitcast(n, i64) is b.convert("extsi", n, i64) is b.concat([n]) is n
    assert {op.name for op in block} == {"arith.constant", "vector.alloca", "vector.step"}


def test_floats_are_not_folded() -> None:
    """-0.0 + 0.0 is 0.0, and a product by 0 may be NaN."""
    block = Block([f32])
    (x,) = block.args
    b = LoopBuilder(block)
    zero, one = b.constant(0.0, f32), b.constant(1.0, f32)
    for value in (b.add(x, zero), b.sub(x, zero), b.mul(x, zero), b.mul(x, one)):
        assert value is not x
        assert known(value) is None


def test_zeros_of_both_signs_are_two_constants() -> None:
    """They are equal, and so are 1.0 and True."""
    b = LoopBuilder(Block([f32]))
    minus, zero = b.constant(-0.0, f32), b.constant(0.0, f32)
    assert minus is not zero
    assert b.constant(-0.0, f32) is minus
    assert b.constant(3, i32) is b.constant(3, i32)


def test_a_place_keeps_the_order_of_what_comes_to_it() -> None:
    block = Block([i64])
    (n,) = block.args
    b = LoopBuilder(block)
    start = b.place()
    last = b.add(n, 100)
    with b.at(start):
        first = b.add(n, 1)
        inner = b.place()
        with b.at(inner):
            second = b.mul(first, 2)
        third = b.mul(second, 3)
    assert b.place() is not start
    sums = [op.results[0] for op in block if op.name != "arith.constant"]
    assert sums == [first, second, third, last]
    assert b.place() is b.place()


WRONG = {
    "vector.maskedload %p[%o], %m, %m : !tt.ptr<i8> -> vector<4xi1>": "truth values are bytes",
    "vector.gather %p[%v] : !tt.ptr<i8>, vector<4xi32> -> vector<4xf32>": "needs an i64 for each lane",
    "vector.gather %w[%l] : vector<4xf32>, vector<4xi64> -> vector<4xf32>": "needs pointers",
    "vector.gather %p[%l], %m : !tt.ptr<i8>, vector<4xi64> -> vector<4xf32>": "a mask comes with",
    "vector.shuffle %w [4] : vector<4xf32> -> vector<1xf32>": "there are 4 lanes",
    "vector.shuffle %w, %w [0, 7] : vector<4xf32> -> vector<4xf32>": "2 lanes of vector<4xf32> are no vector<4xf32>",
    "vector.extract %w[4] : vector<4xf32> -> f32": "has no lane 4",
    "vector.extract %w[0] : vector<4xf32> -> i32": "a lane of vector<4xf32> is no i32",
    "vector.from_elements %x, %x : vector<4xf32>": "these are no lanes",
    "vector.bitcast %w : vector<4xf32> to vector<4xi64>": "differ in their number of bits",
    "vector.step : vector<4xf32>": "counts in integers",
    "vector.fma %v, %v, %v : vector<4xi32>": "needs floating point",
    "vector.alloca 4 : i64": "needs pointers",
    "vector.dot_accumulate %v, %v, %w : vector<4xi32> -> vector<4xf32>": "there are no dots of vector<4xi32>",
}


@pytest.mark.quick
@pytest.mark.parametrize("text", WRONG, ids=[re.sub(r"\W+", "_", text) for text in WRONG])
def test_what_is_refused(text: str) -> None:
    parameters = "%p: !tt.ptr<i8>, %o: i64, %x: f32, %m: vector<4xi1>, %w: vector<4xf32>, %v: vector<4xi32>"
    module = parse_module(f"tt.func public @f({parameters}, %l: vector<4xi64>) {{\n  %0 = {text}\n  tt.return\n}}")
    with pytest.raises(VerificationError, match=re.escape(WRONG[text])):
        verify(module)


def test_halves_move_as_integers_where_a_mask_is_on() -> None:
    """Masked moves know no 16-bit floats."""

    def build(b: LoopBuilder, x: Value, out: Value, count: Value) -> None:
        type = VectorType((16,), f16)
        on = b.compare("slt", b.step(16, i64), b.splat(count, 16))
        b.masked_store(b.masked_load(x, on, b.constant(3.0, type)), out, on)

    text = llvm_text(module_of(build, (BYTES, BYTES, i64)), host_target("x86-64-v4"))
    assert "@llvm.masked.load.v16i16" in text
    x, out = np.arange(16, dtype=np.float16), np.zeros(16, np.float16)
    found = run_both(build, (BYTES, BYTES, i64), (x, out, 5), here(host_target("x86-64-v3")))
    assert found[0][1].tolist() == found[1][1].tolist() == [0, 1, 2, 3, 4, *[0] * 11]


@pytest.mark.parametrize("element", [f32, f64])
def test_a_fused_product_is_rounded_once(element: Any) -> None:
    def build(b: LoopBuilder, x: Value, out: Value) -> None:
        a = b.load(element, x)
        for place, fused in ((0, True), (8, False)):
            b.store(b.fma(a, a, b.constant(-1.0, element), fused=fused), out, place)

    dtype = np.dtype(f"f{element.bits // 8}")
    step = np.finfo(dtype).eps
    x, out = np.array([1 + step], dtype), np.zeros(16 // dtype.itemsize, dtype)
    for found in run_both(build, (BYTES, BYTES), (x, out), here(host_target("x86-64-v3"))):
        assert found[1][[0, 8 // dtype.itemsize]].tolist() == [2 * step + step * step, 2 * step]
