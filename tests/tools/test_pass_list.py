"""Every pass of every pipeline is a row of `tilewright opt`, and those without a file of tests have a text here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.tools import opt_passes
from tilewright.tools.main import main

HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#rows = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 32}>
#smem = #ttg.shared_memory
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32
} {
"""
AUTO, COALESCED, BLOCKED = (
    "tensor<512xi32, #gluon.auto_encoding>",
    "#gluon.coalesced_encoding",
    "tensor<512xi32, #blocked>",
)
POINTERS = f"tensor<512x!tt.ptr<i32>, {COALESCED}>"
DESCRIPTOR, BUFFER = "!tt.tensordesc<8x16xi32, #shared>", "!ttg.memdesc<8x16xi32, #shared, #smem, mutable>"
MODULES = {
    "canonicalize_keeping_layouts": f"""\
  tt.func public @f(%x: {BLOCKED}) -> {BLOCKED} {{
    %zero = arith.constant dense<0> : {BLOCKED}
    %y = arith.addi %x, %zero : {BLOCKED}
    tt.return %y : {BLOCKED}
  }}
""",
    "infer_coalesced_layouts": f"""\
  tt.func public @f(%p: !tt.ptr<i32> {{tt.divisibility = 16 : i32}}) {{
    %i = tt.make_range {{end = 512 : i32, start = 0 : i32}} : tensor<512xi32, {COALESCED}>
    %s = tt.splat %p : !tt.ptr<i32> -> {POINTERS}
    %q = tt.addptr %s, %i : {POINTERS}, tensor<512xi32, {COALESCED}>
    %x = tt.load %q : {POINTERS}
    tt.store %q, %x : {POINTERS}
    tt.return
  }}
""",
    "note_two_ctas": """\
  tt.func public @f() {
    tt.return
  }
""",
    "packs_in_threads": f"""\
  tt.func public @f(%x: {BLOCKED}) -> {BLOCKED} {{
    %y = "tt.map_elementwise"(%x) <{{pack = 2 : i32}}> ({{
    ^bb0(%a: i32, %b: i32):
      tt.map_elementwise.return %b, %a : i32, i32
    }}) : ({BLOCKED}) -> {BLOCKED}
    tt.return %y : {BLOCKED}
  }}
""",
    "proxy_fences": f"""\
  tt.func public @f(%d: {DESCRIPTOR}, %x: tensor<8x16xi32, #rows>, %i: i32) {{
    %buffer = ttg.local_alloc {{allocation.offset = 0 : i32}} : () -> {BUFFER}
    ttg.local_store %x, %buffer : tensor<8x16xi32, #rows> -> {BUFFER}
    ttng.async_tma_copy_local_to_global %d[%i, %i] %buffer : {DESCRIPTOR}, {BUFFER}
    tt.return
  }}
""",
    "resolve_auto_layouts": f"""\
  tt.func public @f() -> {BLOCKED} {{
    %i = tt.make_range {{end = 512 : i32, start = 0 : i32}} : {AUTO}
    %j = arith.addi %i, %i : {AUTO}
    %k = gluon.set_auto_layout %j : {AUTO} -> {BLOCKED}
    tt.return %k : {BLOCKED}
  }}
""",
}


@pytest.mark.parametrize("name", MODULES)
def test_text_in_text_out(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    file = tmp_path / "kernel.ttgir"
    file.write_text(f"{HEAD}{MODULES[name]}}}\n")
    texts = []
    for arguments in ((), ("--pass", name)):
        assert main(["opt", str(file), *arguments]) == 0
        texts.append(capsys.readouterr().out)

    assert texts[0] != texts[1]
    golden(texts[1], f"opt/{name}.ttgir")


def test_every_pass_of_a_pipeline_runs_alone() -> None:
    rows = {row.name for row in opt_passes.ROWS}
    assert {
        name: [step.name for step in steps if step.name not in rows] for name, steps in opt_passes.PIPELINES.items()
    } == {name: [] for name in opt_passes.PIPELINES}


def test_the_docstring_of_a_pass_says_what_it_does() -> None:
    """Each first line is a sentence that needs no other one: the page of passes shows nothing else."""
    purposes = {row.name: opt_passes.purpose(row) for row in opt_passes.ROWS}
    assert {name: text for name, text in purposes.items() if " above" in text or not text.endswith(".")} == {}


UNASKED = ("convert_to_ttgir", "resolve_auto_layouts")
"""One needs options, and one always says that it changed something."""


@pytest.mark.quick
@pytest.mark.parametrize("row", [row for row in opt_passes.PASSES if row.name not in UNASKED], ids=lambda row: row.name)
def test_a_pass_says_whether_it_changed_a_function_that_only_returns(row: opt_passes.Row) -> None:
    """The verifier runs behind passes that changed something; `None` says that a pass does not know."""
    module = parse_module(f"{HEAD}  tt.func public @f(%a: i32) {{\n    tt.return\n  }}\n}}\n")
    before = print_op(module)
    changed = row.function(module)
    assert changed in (None, print_op(module) != before)
