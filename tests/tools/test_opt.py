"""`tilewright opt`: what it prints of passes over text, and what it says of mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilewright.ir.core import Op
from tilewright.tools import opt_passes
from tilewright.tools.main import main
from tilewright.tools.opt_passes import Report, Row, find_passes

KERNEL = """\
tt.func public @kernel(%p: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = arith.addi %c1, %n : i32
  %b = arith.addi %a, %c1 : i32
  %q = tt.addptr %p, %c0 : !tt.ptr<f32>, i32
  %r = tt.addptr %q, %b : !tt.ptr<f32>, i32
  %v = tt.load %r : !tt.ptr<f32>
  tt.store %q, %v : !tt.ptr<f32>
  tt.return
}
"""
INVALID = "// -----\ntt.func @wrong(%n: i32) {\n  %r = tt.make_range {start = 4 : i32, end = 4 : i32} : tensor<4xi32>\n"
INVALID += "  tt.return\n}\n"

PARTITION = """\
tt.func @partition() {
  ttg.warp_specialize()
  default {
    ttg.warp_yield
  }
  partition0(%x: i32) num_warps(4) {
    ttg.warp_return
  } : () -> ()
  tt.return
}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command over a text; returns status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        Path("kernel.ttir").write_text(text)
        status = main(["opt", "kernel.ttir", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_explain_prints_each_rule_and_then_the_module(run: Run, golden: Callable[[str, str], None]) -> None:
    status, text, explained = run(KERNEL, "--explain", "--pass=-canonicalize", "--pass", "cse", "--pass", "ttir")
    assert status == 0
    golden(explained + "\n" + text, "opt/explained.txt")


def test_output_can_be_read_again(run: Run) -> None:
    _, once, _ = run(KERNEL, "--pass", "ttir")
    assert run(once, "--pass", "ttir") == (0, once, "")


def test_segments_are_modules_of_their_own(run: Run) -> None:
    _, text, _ = run(KERNEL + "// -----\n" + KERNEL, "--split-input-file", "--pass", "symbol-dce")
    assert text.count("module {") == 2
    assert text.count("// -----\n") == 1


def test_print_after_and_timing(run: Run) -> None:
    _, _, printed = run(KERNEL, "--pass", "ttir", "--print-after", "combine", "--timing")
    assert printed.count("// ----- after combine -----\nmodule {") == 1
    assert printed.count("after") == 1
    assert printed.count(" ms\n") == 1 + len(opt_passes.PIPELINES["ttir"])
    _, _, printed = run(KERNEL, "--pass", "cse", "--pass", "combine", "--print-after")
    assert printed.count("// ----- after") == 2


def test_unregistered_ops_are_kept(run: Run) -> None:
    text = 'module {\n  "other.op"() ({\n    %0 = "other.value"() : () -> i32\n  }) {a} : () -> ()\n}\n'
    assert run(text, "--allow-unregistered-dialect", "--pass", "cse")[1].count("other.") == 2
    assert run(text)[0] == 1


MISTAKES = {
    "unknown_pass": (KERNEL, ["--pass", "cannonicalize"]),
    "no_options": (KERNEL, ["--pass", "licm{factor=2}"]),
    "unknown_option": (KERNEL, ["--pass", "broken{size=2}"]),
    "option_without_number": (KERNEL, ["--pass", "broken{stages=many}"]),
    "malformed_request": (KERNEL, ["--pass", "licm{"]),
    "wrong_level": (KERNEL, ["--pass", "broken"]),
    "malformed_text": (KERNEL.replace("%c1 :", "%c1"), []),
    "invalid_ir": (KERNEL + INVALID, ["--split-input-file", "--pass", "cse"]),
    "broken_pass": (KERNEL, ["--pass", "breaks"]),
    "wrong_partition": (PARTITION, []),
}


@dataclass(frozen=True)
class Options:
    """Options of a pass."""

    stages: int = 3


def breaks(module: Op) -> None:
    """Removes the terminators."""
    for op in module.walk():
        if op.name == "tt.return":
            op.erase()


@pytest.mark.quick
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, run: Run, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (Row("broken", lambda module, options: None, level="TTGIR", options=Options), Row("breaks", breaks))
    monkeypatch.setattr(opt_passes, "_BY_NAME", {**opt_passes._BY_NAME, **{row.name: row for row in rows}})
    text, arguments = MISTAKES[name]
    status, printed, said = run(text, *arguments)
    assert (status, printed) == (1, "")
    golden(said, f"opt/{name}.err")


def test_no_verification_until_the_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(opt_passes._BY_NAME, "breaks", Row("breaks", breaks))
    _, _, said = run(KERNEL, "--no-verify-each", "--pass", "breaks", "--pass", "symbol_dce")
    assert said.startswith("after pass symbol_dce: tt.store: the block")


def test_files_that_cannot_be_read(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.ttir", ".", "binary"):
        assert main(["opt", name]) == 1
        assert capsys.readouterr().err.startswith(("there is no file", ".: Is a directory", "binary cannot be read"))


def test_remarks_name_their_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report("loads", lambda module: [(op, "a load") for op in module.walk() if op.name == "tt.load"])
    monkeypatch.setitem(opt_passes._BY_NAME, "loads", report)
    assert run(KERNEL, "--pass", "loads")[2] == "kernel.ttir:8:3: remark: a load\n"


def test_every_pass_has_a_purpose_and_runs_on_ttir(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(opt_passes.ROWS) + len(opt_passes.PIPELINES)
    assert all(row.function.__doc__ for row in opt_passes.ROWS)


def test_flags_of_triton() -> None:
    for text in ("-triton-combine", "--triton-combine", "triton-combine", "combine"):
        assert [request.row.name for request in find_passes(text)] == ["combine"]
