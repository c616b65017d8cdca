"""`tests/conformance/lit.py`: how it reads lit files, and which functions it says pass."""

from __future__ import annotations

import importlib.util
import stat
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.tools.opt_passes import find_passes

FOLDER = Path(__file__).parents[1] / "conformance"

FILE = """\
// RUN: triton-opt %s -split-input-file -canonicalize | FileCheck %s

// CHECK-LABEL: @good
tt.func @good(%n: i32) -> i32 {
  %c = arith.constant 1 : i32
  // CHECK: %[[S:.*]] = arith.addi %arg0, %c1_i32
  %s = arith.addi %c, %n : i32
  tt.return %s : i32
}

// CHECK-LABEL: @bad
tt.func @bad(%n: i32) -> i32 {
  // CHECK: nothing of the kind
  tt.return %n : i32
}

// -----

// CHECK-LABEL: @unreadable
tt.func @unreadable(%n: i32) -> i32 {
  tt.return %n i32
}
"""
DIAGNOSTICS = """\
// RUN: triton-opt %s -split-input-file -verify-diagnostics
tt.func @found() {
  // expected-error @+1 {{some words}}
  %r = tt.make_range {start = 4 : i32, end = 4 : i32} : tensor<4xi32>
  tt.return
}
// -----
tt.func @missed() {
  // expected-error @below {{some words}}
  tt.return
}
// -----
tt.func @unexpected() {
  %r = tt.make_range {start = 4 : i32, end = 4 : i32} : tensor<4xi32>
  // expected-error @below {{some words}}
  tt.return
}
"""
FILECHECK = """#!{python}
import re, sys
printed = sys.stdin.read()
for wanted in re.findall("CHECK(?:-LABEL)?: (.*)", open(sys.argv[-1]).read()):
    parts = re.split(r"(\\[\\[.*?\\]\\])", wanted)
    if not re.search("".join(".*" if i % 2 else re.escape(part) for i, part in enumerate(parts)), printed):
        sys.exit("no " + wanted)
"""


@pytest.fixture(scope="module")
def lit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lit", FOLDER / "lit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lit"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def runner(lit: ModuleType, tmp_path: Path) -> object:
    """A runner of a tree with two files, with a stand-in for FileCheck."""
    program = tmp_path / "FileCheck"
    program.write_text(FILECHECK.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "passes.mlir").write_text(FILE)
    (tmp_path / "test" / "errors.mlir").write_text(DIAGNOSTICS)
    return lit.Runner(lit.Tree(tmp_path), str(program), {})


def test_each_function_passes_or_fails_on_its_own(runner: object) -> None:
    results = {result.name: result.problem.splitlines()[:1] for result in runner.results("passes.mlir")}
    assert results["good"] == []
    assert results["bad"] == ["no nothing of the kind"]
    assert "21:16: expected ':'" in results["unreadable"][0]


def test_errors_have_to_be_where_they_are_expected(runner: object) -> None:
    results = {result.name: bool(result.problem) for result in runner.results("errors.mlir")}
    assert results == {"found": False, "missed": True, "unexpected": True}


def test_files_that_are_not_there(runner: object) -> None:
    assert runner.results("none.mlir") is None


def test_run_lines(lit: ModuleType) -> None:
    first = "// RUN: triton-opt %s -a='b=c d=2' \\\n"
    second = "// RUN: -verify-diagnostics=only-expected --c | FileCheck %s --check-prefixes=A,B"
    (line,) = lit.run_lines(first + second)
    assert line.commands[0].passes == ("-a=b=c d=2", "--c")
    assert line.commands[0].verify == "only-expected"
    assert line.prefixes == ["A", "B"]


def test_options_of_passes_are_known() -> None:
    options = tomllib.loads((FOLDER / "lit.toml").read_text())["options"]
    assert options
    for flags in options.values():
        for flag, text in flags.items():
            (request,) = find_passes(f"-{flag}={text}")
            assert request.options is not None


def test_page(lit: ModuleType, golden: object) -> None:
    plan = {"trees": {"old": "", "new": ""}, "introduction": "About.", "files": {"One": ["a.mlir", "b.mlir"]}}
    plan["reasons"] = {"a.mlir::f*": "no function of that kind"}
    plan["details"] = {"introduction": "One by one.", "files": ["a.mlir"]}
    wanted = "// CHECK-NEXT: nvws.op %a {ttg.partition = array<i32: 1>}"
    failed = f"check:3:1: error: CHECK-NEXT: expected string not found in input\n  {wanted}\n  ^"
    some = [lit.Result("f", failed), lit.Result("g"), lit.Result("h", "there is no pass x, did you mean y?")]
    found = {"a.mlir": {"old": some, "new": some[:2]}, "b.mlir": {"old": [lit.Result("k", "bad")], "new": None}}
    golden("\n".join(lit.page(found, plan)) + "\n", "opt/lit_page.md")
