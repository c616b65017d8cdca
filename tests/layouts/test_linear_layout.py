"""The algebra of linear layouts, checked against applying them to every index."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tilewright.layouts.linear_layout import LinearLayout, from_bases, identity, identity_1d, zeros_1d

TILE = [("dim0", 4), ("dim1", 16)]


def example() -> LinearLayout:
    return from_bases({"register": [(0, 1), (2, 0)], "lane": [(0, 2), (0, 4), (1, 8)], "warp": [(1, 0)]}, TILE)


def indices(layout: LinearLayout) -> list[dict[str, int]]:
    return [
        dict(zip(layout.ins, values, strict=True))
        for values in product(*(range(layout.in_size(n)) for n in layout.ins))
    ]


def random_layout(random: Random, ins: dict[str, int], outs: list[tuple[str, int]]) -> LinearLayout:
    rows = {name: [[random.randrange(size) for _, size in outs] for _ in range(bits)] for name, bits in ins.items()}
    return from_bases(rows, outs)


def test_applying_adds_the_steps_of_the_bits() -> None:
    assert example().apply(register=3, lane=6, warp=1) == (2 ^ 1 ^ 1, 1 ^ 4 ^ 8)
    assert example().apply() == (0, 0)


def test_text_is_tritons() -> None:
    layout = from_bases({"register": [(0, 1), (2, 0)], "warp": []}, [("dim0", 4), ("dim1", 2)])
    assert layout.text == (
        " - register=1 -> (0, 1)\n   register=2 -> (2, 0)\n - warp is a size 1 dimension\n"
        "where out dims are: [dim0 (size 4), dim1 (size 2)]"
    )


def test_inverse_leads_back() -> None:
    layout = example()
    assert layout.is_invertible
    back = layout.invert()
    for index in indices(layout):
        place = dict(zip(layout.out_names, layout.apply(**index), strict=True))
        assert dict(zip(back.out_names, back.apply(**place), strict=True)) == index


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(20))
def test_a_conversion_finds_every_element_in_the_other_layout(seed: int) -> None:
    random = Random(seed)
    outs = [("dim0", 8), ("dim1", 4)]
    there = random_layout(random, {"register": 4, "lane": 5, "warp": 1}, outs)
    while not there.is_surjective:
        there = random_layout(random, {"register": 4, "lane": 5, "warp": 1}, outs)
    here = random_layout(random, {"register": 2, "lane": 5, "warp": 1}, outs)
    conversion = here.invert_and_compose(there)
    for index in indices(here):
        place = dict(zip(conversion.out_names, conversion.apply(**index), strict=True))
        assert there.apply(**place) == here.apply(**index)


def test_inputs_that_are_alike_are_passed_on() -> None:
    layout = from_bases({"register": [(1,)], "lane": [(2,), (0,)], "warp": [(0,)]}, [("dim0", 4)])
    assert layout.invert_and_compose(layout) == identity([("register", 2), ("lane", 4), ("warp", 2)])


def test_product_puts_the_second_layout_above_the_first() -> None:
    layout = identity_1d(4, "register", "dim1") * identity_1d(8, "lane", "dim1") * identity_1d(2, "lane", "dim0")
    assert layout.bases == {
        "register": ((1, 0), (2, 0)),
        "lane": ((4, 0), (8, 0), (16, 0), (0, 1)),
    }
    assert layout.outs == (("dim1", 32), ("dim0", 2))
    assert (layout * zeros_1d(2, "warp", "dim1")).bases["warp"] == ((0, 0),)


def test_division_undoes_the_product() -> None:
    inner = from_bases({"register": [(0, 1), (1, 0)]}, [("dim0", 2), ("dim1", 2)])
    outer = example()
    assert (inner * outer).divide_left(inner) == outer
    assert outer.divide_left(inner) is None


def test_composition_applies_one_after_the_other() -> None:
    first = example()
    second = from_bases({"dim0": [(1,), (8,)], "dim1": [(2,), (4,), (16,), (32,)]}, [("offset", 64)])
    composed = first.compose(second)
    for index in indices(first):
        place = dict(zip(first.out_names, first.apply(**index), strict=True))
        assert composed.apply(**index) == second.apply(**place)


def test_reshaping_keeps_the_row_major_index() -> None:
    layout = example()
    reshaped = layout.reshape_outs([("dim0", 2), ("dim1", 8), ("dim2", 4)])
    for index in indices(layout):
        (i, j), (a, b, c) = layout.apply(**index), reshaped.apply(**index)
        assert i * 16 + j == (a * 8 + b) * 4 + c


def test_transposing_and_leaving_out() -> None:
    layout = example()
    assert layout.transpose_outs(["dim1", "dim0"]).apply(register=2, lane=1) == (2, 2)
    part = layout.sublayout(["register", "warp"], ["dim0"])
    assert part.bases == {"register": ((0,), (2,)), "warp": ((1,),)}
    assert layout.is_zero(["warp"], ["dim1"])
    assert layout.reshape_ins([("thread", 16), ("rest", 4)]).bases["rest"] == ((1, 8), (1, 0))


def test_free_bits_are_those_that_earlier_bits_can_replace() -> None:
    layout = from_bases({"register": [(1,), (0,)], "lane": [(2,), (3,), (4,)]}, [("dim0", 8)])
    assert layout.free_masks() == {"register": 2, "lane": 2}
    assert not layout.is_injective
    assert layout.is_surjective
    assert layout.rank == 3


def test_trivial_parts_can_be_taken_away() -> None:
    outs = [("register", 2), ("lane", 4)]
    swapped = from_bases({"register": [(1, 0)], "lane": [(0, 2), (0, 1)]}, outs)
    rest = swapped.quotient(["register"])
    assert rest is not None
    assert rest.bases == {"lane": ((2,), (1,))}
    assert swapped.quotient(["lane"]) is None
    mixed = from_bases({"register": [(1, 0)], "lane": [(1, 1), (0, 2)]}, outs)
    assert mixed.quotient(["register"]) is None


def test_equal_layouts_have_equal_hashes() -> None:
    assert example() == example()
    assert hash(example()) == hash(example())
    assert example() != LinearLayout(dict(reversed(example().columns.items())), example().outs)
