"""Constant distances go into addresses, where nothing else is changed by it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.ptx_text import fold_offsets

START = ".visible .entry k()\n{\n"
SUM = "\tadd.s64 \t%rd1, %rd8, %rd9;\n"
FAR = "\tadd.s64 \t%rd2, %rd1, 4;\n"
AGAIN = "\tmov.b64 \t%rd1, %rd7;\n"
LOAD = "\tld.global.b32 { %r1 }, [ %rd2 + 0 ];\n"


def test_a_distance_becomes_a_part_of_the_address() -> None:
    text = f"{START}{SUM}{FAR}{LOAD}\t@%p1 st.global.b32 [%rd2+-8], %r1;\n}}\n"
    assert fold_offsets(text) == (
        f"{START}{SUM}"
        "\tld.global.b32 { %r1 }, [ %rd1 + 4 ];\n\t@%p1 st.global.b32 [ %rd1 + -4 ], %r1;\n}\n"
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"{SUM}{FAR}{LOAD}\tst.global.b64 [ %rd5 + 0 ], %rd2;\n", id="the sum is needed otherwise"),
        pytest.param(f"{SUM}{FAR}{AGAIN}{LOAD}", id="the first term changes behind it"),
        pytest.param(f"{SUM}{FAR}\tmov.b64 \t%rd2, %rd7;\n{LOAD}", id="the sum is set again"),
        pytest.param(f"{SUM}$L__BB0_1:\n{FAR}{LOAD}\t@%p1 bra \t$L__BB0_1;\n", id="it stands in another block"),
        pytest.param(f"{SUM}\t@%p1 bra \t$L__BB0_1;\n{FAR}$L__BB0_1:\n{LOAD}", id="it is left out sometimes"),
        pytest.param(f"$L__BB0_1:\n{SUM}{LOAD}{FAR}\tbra \t$L__BB0_1;\n", id="what it was before is used"),
        pytest.param(f"\tmov.b64 \t{{%rd1, %rd3}}, %rq1;\n{SUM}{FAR}{LOAD}", id="the first term has another source"),
        pytest.param(f"{SUM}{FAR}\tfoo.tensor [ %rd2, {{ %r1 }} ];\n{LOAD}", id="an address of another kind"),
        pytest.param(f"{FAR}{LOAD}", id="the first term is not set here"),
    ],
)
def test_what_stays(body: str) -> None:
    text = f"{START}{body}}}\n"
    assert fold_offsets(text) == text


def test_functions_have_registers_of_their_own() -> None:
    first = f"{START}{SUM}{FAR}{LOAD}}}\n"
    second = f".func f()\n{{\n{AGAIN}{LOAD}}}\n"
    assert fold_offsets(first + second) == fold_offsets(first) + second


@tw.jit
def odd(x, out, n):
    places = tl.program_id(0) * 512 + tl.arange(0, 512)
    inside = (places < n) & (places % 3 != 1)
    tl.store(out + places, tl.load(x + places, mask=inside, other=-1.0), mask=places < n)


def test_masks_that_differ_by_lane_cost_no_sums() -> None:
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    with tw.simulate("cuda:90"):
        text = odd[(2,)](x, out, 1000).asm["ptx"]
    np.testing.assert_array_equal(out, np.where(np.arange(1000) % 3 != 1, x, -1))
    assert text.count("ld.global") == 4
    assert [text.count(f"+ {distance} ]") for distance in (4, 8, 12)] == [2, 2, 2]
