"""Descriptors that divided loops make: their places in memory, and which of them keep a loop whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_warp_specialization import ROW, module_of, undeclared

from tilewright.dialects.scf import For
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.ir.types import i1, i32
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions
from tilewright.transforms.gpu.tensor_memory_accumulators import remove_tensor_memory_tokens
from tilewright.transforms.gpu.warp_specialization.automatic import automatic_warp_specialization
from tilewright.transforms.gpu.warp_specialization.descriptor_rings import descriptor_rings
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.partition_loops import partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling

POINTER = ("%a: !adesc", "%base: !tt.ptr<f16>")
MAKES = """%wide = arith.extsi %n : i32 to i64
      %one = arith.constant 1 : i64
      %start = tt.addptr %base, %tile : !tt.ptr<f16>, i32
      %a = tt.make_tensor_descriptor %start, [%n, %n], [%wide, %one] : !tt.ptr<f16>, !adesc"""
MADE = (POINTER, (ROW, f"{ROW}\n      {MAKES}"))


def divided(*changes: tuple[str, str]) -> Op:
    """The loop as its partitions have it, with `changes`, before descriptors get their places."""
    module = module_of(*changes)
    assert partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    insert_channels(module, StageOptions(2))
    assert partition_loops(module)
    return module


def test_a_descriptor_gets_a_place_more_than_copies_have(golden: Callable[[str, str], None]) -> None:
    module = divided(*MADE)
    assert descriptor_rings(module)
    verify(module)
    canonicalize(module)
    text = print_op(module)
    assert text.count("nbytes = 384 : i32") == 1
    golden(text, "transforms/warp_specialization/descriptor_rings.ttgir")


def test_descriptors_from_outside_stay() -> None:
    assert not descriptor_rings(divided())


def test_all_loops_around_hand_the_place_on() -> None:
    load = "%x = tt.descriptor_load %a"
    module = divided(POINTER, (load, f"{MAKES}\n        {load}"))
    assert descriptor_rings(module)
    verify(module)
    (maker,) = (op for op in module.walk() if op.name == "ttng.tensormap_create")
    inner = maker.parent
    assert isinstance(inner, For)
    assert isinstance(outer := inner.parent, For)
    assert [value.type for value in inner.carried[-2:]] == [i32, i1]
    assert inner.inits[-2:] == outer.carried[-2:]
    assert outer.yielded[-2:] == inner.results[-2:]


LOADED = "%from = tt.load %p : !tt.ptr<i32>"
ADDS = "%old = tt.atomic_rmw add, relaxed, gpu, %p, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32"
PRINTS = 'tt.print "tile" {hex = false, isSigned = array<i32: 1>} : %tile : i32'


@pytest.mark.parametrize(
    ("effect", "change"),
    [
        pytest.param("", ("!cdesc, !tile\n", '!cdesc, !tile\n "kept"(%a) : (!adesc) -> ()\n'), id="an op has it"),
        pytest.param(ADDS, ("%tile :", "%from :"), id="its address is loaded from what an atomic op writes"),
        pytest.param(PRINTS, ("%tile :", "%from :"), id="its address is loaded, and an op may write"),
    ],
)
def test_left_as_it_is(effect: str, change: tuple[str, str]) -> None:
    made = (ROW, f"{ROW}\n {LOADED}\n {effect}\n {MAKES}".replace(*change))
    module = undeclared(POINTER, made, *([] if effect else [change]))
    before = print_op(module)
    assert not automatic_warp_specialization(module)
    assert print_op(module) == before


def test_addresses_that_copies_alone_need_are_loaded_with_them() -> None:
    module = divided(POINTER, (ROW, f"{ROW}\n {LOADED}\n {MAKES}".replace("%tile :", "%from :")))
    canonicalize(module)
    assert print_op(module).count("tt.load") == 1
