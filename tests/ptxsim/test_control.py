"""Control flow: divergence, loops, calls, tables of branches, barriers, prints and assertions."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import compute, kernel_text, run

from tilewright.backends.ptxsim import SimulationError

NUMBERS = np.arange(64, dtype=np.uint32)


def test_lanes_loop_as_often_as_each_wants() -> None:
    code = """mov.u32 %r9, 0; mov.u32 %r2, %r1;
    $loop: setp.eq.u32 %p1, %r2, 0; @%p1 bra $done;
    add.u32 %r9, %r9, %r2; sub.u32 %r2, %r2, 1; bra.uni $loop;
    $done: shfl.sync.bfly.b32 %r3, %r9, 1, 31, -1; add.u32 %r9, %r9, %r3;"""
    sums = NUMBERS * (NUMBERS + 1) // 2
    assert compute(code, "u4", NUMBERS).tolist() == (sums + sums[NUMBERS ^ 1]).tolist()


def test_tables_of_branches() -> None:
    code = """and.b32 %r2, %r1, 3; $table: .branchtargets $a, $b, $c, $b;
    brx.idx %r2, $table;
    $a: mov.u32 %r9, 10; bra $end; $b: mov.u32 %r9, 20; bra $end; $c: mov.u32 %r9, 30;
    $end: add.u32 %r9, %r9, %r1;"""
    assert compute(code, "u4", NUMBERS).tolist() == [(10, 20, 30, 20)[n % 4] + n for n in range(64)]


FUNCTION = """
.func (.param .align 8 .b8 result[8]) twice(.param .b32 number, .param .b32 other)
{
  .reg .b32 %x<4>; .reg .pred %q;
  ld.param.b32 %x1, [number]; ld.param.b32 %x2, [other];
  setp.gt.u32 %q, %x1, 31; @%q bra $big;
  mad.lo.u32 %x1, %x1, 2, %x2;
  $big: st.param.b32 [result], %x1; st.param.b32 [result+4], %x2;
  ret;
}
.func (.param .b32 out) outer(.param .b32 number)
{
  .reg .b32 %x<4>;
  ld.param.b32 %x1, [number];
  { .param .b32 first; .param .b32 second; .param .align 8 .b8 back[8];
    st.param.b32 [first], %x1; st.param.b32 [second], 5;
    call.uni (back), twice, (first, second);
    ld.param.v2.b32 {%x2, %x3}, [back]; }
  add.u32 %x2, %x2, %x3;
  st.param.b32 [out], %x2;
  ret;
}
"""


def test_calls_of_functions_by_some_lanes() -> None:
    body = """shl.b32 %r1, %r0, 2; cvt.u64.u32 %d2, %r1; add.s64 %d2, %d2, %d0;
    mov.u32 %r5, 0; setp.lt.u32 %p1, %r0, 40; @!%p1 bra $skip;
    { .param .b32 in; .param .b32 back; st.param.b32 [in], %r0;
      call.uni (back), outer, (in); ld.param.b32 %r5, [back]; }
    $skip: bar.sync 0; st.global.b32 [%d2], %r5;"""
    (found,) = run(kernel_text(body, 1, head=FUNCTION, threads=64), np.zeros(64, np.uint32))
    assert found.tolist() == [(2 * n + 10 if n < 32 else n + 5) if n < 40 else 0 for n in range(64)]


def test_local_memory_belongs_to_a_thread() -> None:
    code = """.local .align 8 .b8 depot[16]; mov.b64 %d10, depot; cvta.local.u64 %d11, %d10;
    st.local.b32 [%d10+8], %r1; st.b32 [%d11+12], %r1; ld.b32 %r2, [%d11+8]; ld.local.b32 %r3, [depot+12];
    add.u32 %r9, %r2, %r3;"""
    assert compute(code, "u4", NUMBERS).tolist() == (2 * NUMBERS).tolist()


def test_variables_of_the_module() -> None:
    head = ".global .align 4 .b32 table[4] = {3, 1, 4, 1}; .const .align 4 .f32 half = 0f3F000000;"
    head += ".global .align 8 .u64 pointer = table+8;"
    body = """ld.global.u64 %d1, [pointer]; ld.global.b32 %r1, [%d1]; ld.const.b32 %r2, [half];
    mov.u64 %d2, table; ld.global.v2.b32 {%r3, %r4}, [%d2]; st.global.v4.b32 [%d0], {%r1, %r2, %r3, %r4};"""
    (found,) = run(kernel_text(body, 1, head=head), np.zeros(4, np.uint32))
    assert found.tolist() == [4, 0x3F000000, 3, 1]
    with pytest.raises(SimulationError, match="read-only memory"):
        run(kernel_text("mov.u64 %d1, half; st.global.b32 [%d1], %r0;", 1, head=head), np.zeros(4, np.uint32))
    head = ".const .align 4 .f32 floats[3] = {1.5, -0.25, 3};"
    body = """ld.const.b32 %r1, [floats]; ld.const.b32 %r2, [floats+4]; ld.const.b32 %r3, [floats+8];
    st.global.v4.b32 [%d0], {%r1, %r2, %r3, %r0};"""
    (found,) = run(kernel_text(body, 1, head=head, threads=1), np.zeros(4, np.float32))
    assert found[:2].tolist() == [1.5, -0.25]


def test_barriers_that_count() -> None:
    body = """and.b32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r2, 0, %p1;
    bar.red.or.pred %p2, 0, !%p1; selp.b32 %r3, 1, 0, %p2; st.global.v2.b32 [%d0], {%r2, %r3};"""
    (found,) = run(kernel_text(body, 1, threads=64), np.zeros(2, np.uint32))
    assert found.tolist() == [16, 1]


def test_votes() -> None:
    code = """setp.lt.u32 %p1, %r1, 40; vote.sync.ballot.b32 %r9, %p1, -1; vote.sync.all.pred %p2, %p1, -1;
    selp.b32 %r2, 1, 0, %p2; xor.b32 %r9, %r9, %r2; vote.sync.uni.pred %p3, %p1, -1; @!%p3 add.u32 %r9, %r9, 1;"""
    assert compute(code, "u4", NUMBERS).tolist() == [0xFFFFFFFE] * 32 + [0x100] * 32


SHUFFLES = {
    "up": ("2, 0", [max(n % 8 - 2, n % 8 if n % 8 < 2 else 0) + n // 8 * 8 for n in range(32)], 0x1800),
    "down": ("3, 31", [n + 3 if n + 3 < 32 else n for n in range(32)], 31),
    "idx": ("5, 31", [5] * 32, 31),
    "bfly": ("16, 31", [n ^ 16 for n in range(32)], 31),
}


@pytest.mark.quick
@pytest.mark.parametrize("mode", SHUFFLES)
def test_shuffles(mode: str) -> None:
    text, wanted, clamp = SHUFFLES[mode]
    code = f"shfl.sync.{mode}.b32 %r9|%p1, %r1, {text.split(',')[0]}, {clamp}, -1;"
    assert compute(code, "u4", NUMBERS[:32]).tolist() == wanted


DECLARED = ".extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 arguments);\n"
DECLARED += ".global .align 1 .b8 text[14] = {120, 61, 37, 100, 32, 121, 61, 37, 46, 50, 102, 37, 37, 10};"


def test_prints_read_their_arguments_from_memory(capsys: pytest.CaptureFixture[str]) -> None:
    body = """.local .align 8 .b8 depot[16]; setp.eq.u32 %p1, %r0, 3; @!%p1 bra $end;
    mov.b64 %d1, depot; cvta.local.u64 %d2, %d1; mov.b32 %r1, -7; st.local.b32 [%d1], %r1;
    mov.b64 %d3, 0d3FF8000000000000; st.local.b64 [%d1+8], %d3; mov.u64 %d4, text; cvta.global.u64 %d4, %d4;
    { .param .b64 one; .param .b64 two; .param .b32 back; st.param.b64 [one], %d4; st.param.b64 [two], %d2;
      call.uni (back), vprintf, (one, two); ld.param.b32 %r2, [back]; }
    st.global.b32 [%d0], %r2; $end:"""
    texts: list[str] = []
    head = DECLARED.replace("[14]", "[15]").replace("10};", "10, 0};")
    (found,) = run(kernel_text(body, 1, head=head), np.zeros(1, np.int32), output=texts.append)
    assert texts == ["x=-7 y=1.50%\n"]
    assert capsys.readouterr().out == ""
    run(kernel_text(body, 1, head=head), np.zeros(1, np.int32))
    assert capsys.readouterr().out == texts[0]
    assert found.tolist() == [2]


def test_clusters_and_grids_have_their_numbers() -> None:
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %clusterid.x; mov.u32 %r4, %nctaid.x;
    mul.wide.u32 %d1, %r1, 16; add.s64 %d1, %d1, %d0; st.global.v4.b32 [%d1], {%r1, %r2, %r3, %r4};"""
    (found,) = run(kernel_text(body, 1), np.zeros((4, 4), np.uint32), grid=4, cluster=(2, 1, 1))
    assert found.tolist() == [[0, 0, 0, 4], [1, 1, 0, 4], [2, 0, 1, 4], [3, 1, 1, 4]]


def test_atomic_operations_take_turns() -> None:
    body = """atom.global.add.u32 %r1, [%d0], 1; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d1, %d0; mov.u32 %r2, 9;
    st.global.b32 [%d1+4], %r2; mov.f32 %r3, 0f3F000000; red.global.add.f32 [%d0+512], %r3;
    mov.b32 %r4, 0x3C003800; red.global.add.noftz.f16x2 [%d0+516], %r4; atom.global.inc.u32 %r5, [%d0+520], 4;
    atom.global.max.s32 %r5, [%d0+524], %r0; atom.global.cas.b32 %r5, [%d0+528], 3, %r0;"""
    (found,) = run(kernel_text(body, 1, threads=64), np.zeros(133, np.uint32))
    assert found[:65].tolist() == [64, *[9] * 64]
    assert found[128:129].view(np.float32).tolist() == [32.0]
    assert found[129:130].view(np.float16).tolist() == [32.0, 64.0]
    assert found[130:].tolist() == [64 % 5, 63, 0]
