"""Constant distances go into addresses, where nothing else is changed by it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.ptx_text import fold_offsets
from tilewright.backends.ptxsim import DeviceMemory, Launch, load

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


def narrow(text: str) -> str:
    """The same with addresses of 32 bits, whose registers have numbers from 80 on."""
    return text.replace("%rd", "%r8").replace("add.s64", "add.s32").replace(".global", ".shared")


def test_sums_of_32_bits_become_a_part_of_the_address_of_loads_in_loops() -> None:
    loop = "$L__BB0_1:\n{}\t@%p1 bra \t$L__BB0_1;\n}}\n"
    text = narrow(START + SUM + FAR) + loop.format("\tldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r82+32];\n")
    assert fold_offsets(text) == narrow(START + SUM) + loop.format(
        "\tldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [ %r81 + 36 ];\n"
    )


def test_distances_wrap_around() -> None:
    text = narrow(f"{START}{SUM}\tadd.s64 \t%rd2, %rd1, 2147483647;\n\tst.global.b32 [ %rd2 + 4 ], %r1;\n}}\n")
    assert "[ %r81 + -2147483645 ]" in fold_offsets(text)


@pytest.mark.quick
@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"{SUM}{FAR}{LOAD}\tst.global.b64 [ %rd5 + 0 ], %rd2;\n", id="the sum is needed otherwise"),
        pytest.param(f"{SUM}{FAR}{AGAIN}{LOAD}", id="the first term changes behind it"),
        pytest.param(f"{SUM}{FAR}\tmov.b64 \t%rd2, %rd7;\n{LOAD}", id="the sum is set again"),
        pytest.param(f"{SUM}$L__BB0_1:\n{FAR}{LOAD}\t@%p1 bra \t$L__BB0_1;\n", id="it stands in another block"),
        pytest.param(f"{SUM}\t@%p1 bra \t$L__BB0_1;\n{FAR}$L__BB0_1:\n{LOAD}", id="it is left out sometimes"),
        pytest.param(f"{SUM}\t@p bra \tnext;\n{FAR}next:\n{LOAD}", id="a program's assembly leaves it out sometimes"),
        pytest.param(f"$L__BB0_1:\n{SUM}{LOAD}{FAR}\tbra \t$L__BB0_1;\n", id="what it was before is used"),
        pytest.param(f"\tmov.b64 \t{{%rd1, %rd3}}, %rq1;\n{SUM}{FAR}{LOAD}", id="the first term has another source"),
        pytest.param(f"{SUM}{FAR}\tfoo.tensor [ %rd2, {{ %r1 }} ];\n{LOAD}", id="an address of another kind"),
        pytest.param(f"{FAR}{LOAD}", id="the first term is not set here"),
        pytest.param(f"{SUM}{FAR}\t{{ @p ld.global.b64 %rd1, [%rd7]; }}\n{LOAD}", id="a program's assembly changes it"),
        pytest.param(f"{SUM}{FAR.rstrip()} mov.b32 %r3, %r4;\n{LOAD}", id="another instruction on the line"),
        pytest.param(f"{SUM}$L__BB0_1:\n{LOAD}{FAR}\t@%p1 bra \t$L__BB0_1;\n", id="the loop's last sum is used"),
    ],
)
def test_what_stays(body: str, width: int) -> None:
    text = f"{START}{body}}}\n"
    if width == 32:
        text = narrow(text)
    assert fold_offsets(text) == text


WRAPPING = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
.reqntid 32
{
.reg .b32 %r<9>; .reg .b64 %rd<3>;
ld.param.b64 %rd1, [k_param_0];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
st.shared.b32 [%r2], %r1;
bar.sync 0;
sub.s32 %r3, %r2, 1024;
add.s32 %r4, %r3, 1024;
ld.shared.b32 %r5, [%r4];
mul.wide.u32 %rd2, %r2, 1;
add.s64 %rd2, %rd2, %rd1;
st.global.b32 [%rd2], %r5;
ret;
}
"""


def test_addresses_wrap_around_as_sums_do() -> None:
    folded = fold_offsets(WRAPPING)
    assert "[ %r3 + 1024 ]" in folded
    for text in (WRAPPING, folded):
        memory = DeviceMemory()
        out = memory.copy_in(np.zeros(32, np.int32))
        Launch(load(text), grid=(1, 1, 1), shared=128).run(memory, [out])
        assert memory.copy_out(out, (32,), np.int32).tolist() == list(range(32))


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
