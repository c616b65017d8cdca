"""Loops over arrays, with vectors of elements: their text, what the interpreter makes of them, what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.backends.llvm.machine import host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.vectorizing.bodies import loop_text
from tilewright.vectorizing.kinds import WEAK_FLOAT, Kind
from tilewright.vectorizing.lowering import Traversal, is_bound_by_memory, lower_to_fold, lower_to_span
from tilewright.vectorizing.program import function_of, make_program

pytestmark = pytest.mark.quick

FLOAT32, INT32, BOOL = Kind("float32"), Kind("int32"), Kind("bool")


def plain(x, y):
    return 2.0 * x + y


def short_sides(x, y):
    return x if x < y else y - 1


def long_side(x, y):
    return np.exp(x) / y if x < y else y


def common_branch(x, a):
    if a > 1:
        x = x * a
    return x


def halvings(x, y):
    steps = 0
    while x > y:
        x = x / 2
        steps += 1
    return steps


def common_loop(x, n):
    total = x
    for i in range(n):
        total = total * x + i
    return total


def loop_in_a_side(x, y):
    if x > 0:
        while x > y + 1:
            x = x - y
    return x


def divided(x, y):
    return x // y


def truth(x, y):
    return not (x and y)


PROGRAMS: list[tuple[Callable[..., Any], tuple[Kind, Kind], str]] = [
    (plain, (FLOAT32, FLOAT32), "vvv"),
    (plain, (FLOAT32, WEAK_FLOAT), "suw"),
    (short_sides, (FLOAT32, FLOAT32), "vvv"),
    (long_side, (FLOAT32, FLOAT32), "vvv"),
    (common_branch, (FLOAT32, FLOAT32), "vuv"),
    (halvings, (FLOAT32, FLOAT32), "vvv"),
    (common_loop, (FLOAT32, INT32), "vuv"),
    (loop_in_a_side, (FLOAT32, FLOAT32), "vvv"),
    (divided, (INT32, INT32), "vvv"),
    (truth, (BOOL, BOOL), "vsv"),
]
IDS = [f"{function.__name__}-{pattern}" for function, _, pattern in PROGRAMS]


def loops_of(function: Any, kinds: tuple[Kind, Kind], pattern: str, *, lanes: int = 4, select: bool = False) -> Any:
    """The loops, and the kind of the result."""
    program = make_program(function, kinds)
    module = lower_to_span(program.module, Traversal(pattern, select), lanes)
    verify(module)
    return module, program.result


@pytest.mark.parametrize(
    ("function", "waits"),
    [
        (lambda x, y: 2.0 * x + y, True),
        (lambda x, y: np.sqrt(x) + y, False),
        (lambda x, y: np.fmax(x, y), False),
        (lambda x, y: np.exp(x), False),
    ],
    ids=["product and sum", "square root", "greater number", "exponential"],
)
def test_short_functions_wait_for_memory(function: Any, waits: bool) -> None:
    program = make_program(function, (FLOAT32, FLOAT32))
    assert is_bound_by_memory(function_of(program.module)) is waits


def test_texts(golden: Callable[[str, str], None]) -> None:
    parts = []
    for (function, kinds, pattern), name in zip(PROGRAMS, IDS, strict=True):
        module, result = loops_of(function, kinds, pattern)
        text = print_op(module)
        assert print_op(parse_module(text)) == text
        parts.append(f"// {name}: {', '.join(map(str, kinds))} -> {result}\n{text}")
    parts.append(f"// under a mask\n{print_op(loops_of(halvings, (FLOAT32, FLOAT32), 'vvvvv', select=True)[0])}")
    parts.append(f"// a fold\n{print_op(lower_to_fold(make_program(plain, (FLOAT32,) * 2).module))}")
    golden("\n".join(parts), "vectorize/loops.ttir")


def test_llvm_text(golden: Callable[[str, str], None]) -> None:
    """The emitter writes what the loops say, line by line."""
    target = host_target("x86-64-v3")
    texts = [loop_text(loops_of(f, kinds, pattern)[0], "span", target) for f, kinds, pattern in PROGRAMS[:3]]
    golden("\n".join(texts), "vectorize/loops.ll")


def operand(kind: Kind, letter: str, count: int, seed: int) -> np.ndarray:
    """An array in the shape that the letter means."""
    random = np.random.default_rng(seed)
    if letter == "u":
        return np.array([3], kind.name)
    values = random.integers(1, 9, 2 * count) if kind.is_integer else random.uniform(0.2, 9, 2 * count)
    array = (values > 4 if kind.is_bool else values).astype(kind.name)
    return array[::2] if letter == "s" else array[:count]


@pytest.mark.parametrize("select", [False, True], ids=["every element", "under a mask"])
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_interpreter(program: tuple[Callable[..., Any], tuple[Kind, Kind], str], select: bool) -> None:
    """The loops compute what Python does, lane by lane, and nothing where a mask is off."""
    function, kinds, pattern = program
    count, lanes = 8, 4
    letters = pattern[:-1] + ("sv" if select else "") + pattern[-1]
    module, result = loops_of(function, kinds, letters, lanes=lanes, select=select)
    arrays = [operand(kind, letter, count, n) for n, (kind, letter) in enumerate(zip(kinds, pattern, strict=False))]
    out = np.full(count, 1, result.name)
    mask = (np.arange(2 * count) % 3 != 1)[::2] if select else np.ones(count, np.bool_)
    operands = [*arrays, *([mask, out.copy()] if select else []), out]
    words = [word for array in operands for word in (array, array.strides[0])]
    run_ir(module, [*words, 0, count])
    each = [np.broadcast_to(array, (count,)).tolist() for array in arrays]
    expected = np.array([function(*pair) for pair in zip(*each, strict=True)]).astype(result.name)
    np.testing.assert_allclose(out, np.where(mask, expected, 1), rtol=1e-5)


def test_interpreter_of_folds() -> None:
    module = lower_to_fold(make_program(plain, (Kind("float64"),) * 2).module)
    verify(module)
    items, total = np.array([1.0, 9.0, 3.0, 9.0, 5.0, 9.0])[::2], np.array([0.5])
    run_ir(module, [total, 8, items, 16, 0, 3])
    assert total.tolist() == [((0.5 * 2 + 1) * 2 + 3) * 2 + 5]


def test_an_assertion_counts_where_the_mask_is_on() -> None:
    module, _ = loops_of(divided, (INT32, INT32), "vvvvv", select=True)
    x, y, before, out = (np.arange(4, dtype=np.int32) for _ in range(4))
    words = [w for a in (x, y, np.array([False, True, True, True]), before, out) for w in (a, a.strides[0])]
    run_ir(module, [*words, 0, 4])
    assert out.tolist() == [0, 1, 1, 1]
    words[4] = np.array([True, True, True, True])
    with pytest.raises(Exception, match="divide by zero"):
        run_ir(module, [*words, 0, 4])


WRONG = {
    "vector.load %o[%o] : i64 -> f32": "needs pointers",
    "vector.load %p[%o] : !tt.ptr<i8> -> vector<4xi1>": "truth values are bytes",
    "vector.broadcast %x : f32 to vector<4xf64>": "cannot spread f32 over vector<4xf64>",
    "vector.broadcast %x : f32 to f32": "cannot spread f32 over f32",
    "vector.reduction <or>, %x : f32 into f32": "cannot join the lanes of f32",
    "vector.reduction <xor>, %v : vector<4xi1> into i1": "attribute kind must be one of",
}


@pytest.mark.parametrize("text", WRONG, ids=[re.sub(r"\W+", "_", text) for text in WRONG])
def test_what_is_refused(text: str) -> None:
    parameters = "%p: !tt.ptr<i8>, %o: i64, %x: f32, %v: vector<4xi1>"
    module = parse_module(f"tt.func public @f({parameters}) {{\n  %0 = {text}\n  tt.return\n}}")
    with pytest.raises(VerificationError, match=re.escape(WRONG[text])):
        verify(module)
