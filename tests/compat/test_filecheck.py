"""Kernels whose comments say which TTIR they become."""

from __future__ import annotations

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat import filecheck


@tw.jit
def added(x, n: tl.constexpr):
    tl.store(x, tl.load(x) + n)


@filecheck.filecheck_test
@tw.jit
def test_comments_of_a_kernel():
    # CHECK-LABEL: tt.func public @test_comments_of_a_kernel
    # CHECK: %[[ID:.*]] = tt.get_program_id x
    # CHECK-NEXT: tt.print {{.*}} %[[ID]]
    tl.device_print("id", tl.program_id(0))


def test_a_kernel_for_arguments() -> None:
    text = str(filecheck.run_parser(added, [tw.MockTensor("fp32"), 3]))
    assert "@added(%x: !tt.ptr<f32>" in text
    assert "dense" not in text


def test_what_does_not_match_is_shown() -> None:
    with pytest.raises(ValueError, match=r"arith\.muli"):
        filecheck.run_filecheck("name", "module {\n}\n", "// CHECK: arith.muli\n")


def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(filecheck.NoFileCheckError, match="pip install filecheck"):
        filecheck.run_filecheck("name", "module {}", "// CHECK: module\n")


def test_text_begins_as_that_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # with no FileCheck but the package
    with pytest.raises(ValueError, match=r"^expected string not found in input\n # CHECK: arith\.muli\n"):
        filecheck.run_filecheck("name", "module {\n}\n", "first\n    # CHECK:  arith.muli\n")


def test_names_of_variables_are_in_the_full_text_alone() -> None:
    module = filecheck.run_parser(added, [tw.MockTensor("fp32"), 3])
    assert "%x" in str(module)
    assert "%x" not in module.str_nodebug()
    assert "@added(%arg0: !tt.ptr<f32>" in module.str_nodebug()
