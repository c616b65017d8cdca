"""Places of scratch memory in global memory: one behind the other, aligned, those of called functions inside."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.transforms.gpu.allocate_memory import allocate_global_scratch

PREFIX = "ttg.global_scratch_memory"
SIZE, ALIGNMENT, OFFSET = f"{PREFIX}_size", f"{PREFIX}_alignment", f"{PREFIX}_offset"


def alloc(size: int, alignment: int) -> str:
    numbers = f"alignment = {alignment} : i32, nbytes = {size} : i32"
    return f"%{size}_{alignment} = ttg.global_scratch_alloc {{{numbers}}} : !tt.ptr<i8>"


def function(name: str, *lines: str, visibility: str = "private") -> str:
    return f"tt.func {visibility} @{name}() {{\n" + "\n".join(lines) + "\ntt.return\n}\n"


def placed(*functions: str) -> tuple[Op, bool]:
    module = parse_module("module {" + "".join(functions) + "}")
    return module, allocate_global_scratch(module)


def number(op: Op, name: str) -> int:
    found = op.attributes[name]
    assert isinstance(found, Number)
    return found.value


def offsets(module: Op, name: str) -> list[int]:
    function = next(op for op in module.walk() if op.name == "tt.func" and op.attributes["sym_name"] == name)
    return [number(op, OFFSET) for op in function.walk() if OFFSET in op.attributes]


def facts(module: Op) -> tuple[int, int]:
    return number(module, SIZE), number(module, ALIGNMENT)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("pieces", "places", "size", "alignment"),
    [
        ([], [], 0, 1),
        ([(8, 1)], [0], 8, 1),
        ([(5, 4)], [0], 8, 4),
        ([(5, 4), (1, 1), (16, 16)], [0, 5, 16], 32, 16),
        ([(128, 128), (100, 1), (1, 128)], [0, 128, 256], 384, 128),
        ([(3, 2), (4, 4), (2, 2)], [0, 4, 8], 12, 4),
    ],
)
def test_pieces_follow_each_other(pieces: list[tuple[int, int]], places: list[int], size: int, alignment: int) -> None:
    module, changed = placed(function("k", *(alloc(*piece) for piece in pieces), visibility="public"))
    assert changed, "the attributes are there also if nothing is placed"
    assert not allocate_global_scratch(module), "the second time nothing changes"
    assert offsets(module, "k") == places
    assert facts(module) == (size, alignment)


def test_called_functions_have_a_place_for_each_call() -> None:
    calls = "tt.call @inner() : () -> ()"
    outer = function("outer", calls, alloc(4, 4), calls, visibility="public")
    middle = function("inner", alloc(24, 16), "tt.call @leaf() : () -> ()")
    for order in ((outer, middle), (middle, outer)):
        module, changed = placed(*order, function("leaf", alloc(2, 2)))
        assert changed
        assert offsets(module, "leaf") == [0]
        assert offsets(module, "inner") == [0, 24]
        assert offsets(module, "outer") == [0, 32, 48]
        assert facts(module) == (80, 16)


def test_the_module_needs_what_its_largest_kernel_needs() -> None:
    kernels = [function(f"k{size}", alloc(size, align), visibility="public") for size, align in ((8, 64), (200, 2))]
    module, _ = placed(*kernels, function("unused", alloc(4096, 512)))
    assert facts(module) == (200, 64)
