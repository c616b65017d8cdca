"""The buffers that a memory descriptor may name."""

from __future__ import annotations

from collections.abc import Callable

import tilewright.dialects
from tilewright.analysis.buffer_aliases import alias_remarks
from tilewright.ir.parser import parse_module

assert tilewright.dialects.__all__

BUFFER = "!ttg.memdesc<16xf16, #shared, #ttg.shared_memory, mutable>"
TEXT = f"""
#shared = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32}} {{
  tt.func @swapped(%n: i32, %c: i1) {{
    %c0 = arith.constant 0 : i32
    %a = ttg.local_alloc : () -> {BUFFER}
    %b = ttg.local_alloc : () -> {BUFFER}
    %l:2 = scf.for %i = %c0 to %n step %n iter_args(%x = %a, %y = %b) -> ({BUFFER}, {BUFFER}) : i32 {{
      scf.yield %x, %x : {BUFFER}, {BUFFER}
    }}
    %w = scf.while (%v = %l#0) : ({BUFFER}) -> {BUFFER} {{
      scf.condition(%c) %v : {BUFFER}
    }} do {{
    ^bb0(%v: {BUFFER}):
      %fresh = ttg.local_alloc : () -> {BUFFER}
      scf.yield %fresh : {BUFFER}
    }}
    %s = arith.select %c, %l#1, %w : {BUFFER}
    tt.return
  }}
  tt.func @blocks(%c: i1, %given: {BUFFER}) {{
    %a = ttg.local_alloc : () -> {BUFFER}
    cf.cond_br %c, ^bb1(%a : {BUFFER}), ^bb1(%given : {BUFFER})
  ^bb1(%x: {BUFFER}):
    %view = ttg.memdesc_subslice %x [0] : {BUFFER} -> !ttg.memdesc<8xf16, #shared, #ttg.shared_memory, mutable, 16>
    cf.br ^bb2
  ^bb2:
    tt.return
  }}
  tt.func @partitions() {{
    %a = ttg.local_alloc : () -> {BUFFER}
    ttg.warp_specialize(%a)
    default {{
      ttg.warp_yield
    }}
    partition0(%x: {BUFFER}) num_warps(1) {{
      %view = ttg.memdesc_trans %x {{order = array<i32: 0>}} : {BUFFER} -> {BUFFER}
      ttg.warp_return
    }} : ({BUFFER}) -> ()
    tt.return
  }}
}}
"""


def test_what_values_may_name(golden: Callable[[str, str], None]) -> None:
    lines = [f"{op.name:22} {said}" for op, said in alias_remarks(parse_module(TEXT))]
    golden("\n".join(lines) + "\n", "analysis/aliases.txt")
