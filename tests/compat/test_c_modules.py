"""C source that a program brings along, and the signatures of launchers that are written in C."""

from __future__ import annotations

from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tilewright.compat.c_modules import (
    COMPILERS,
    EXTENSION,
    compile_module_from_file,
    compile_module_from_src,
    compile_so_from_file,
    compile_so_from_src,
    compiler,
)
from tilewright.compat.tensor_descriptor import expand_signature, wrap_handle_tensordesc_impl
from tilewright.support import knobs

SOURCE = """
#include <Python.h>
static PyObject* answer(PyObject* self, PyObject* none) { return PyLong_FromLong(ANSWER); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "answers", NULL, -1, methods};
PyMODINIT_FUNC PyInit_answers(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture
def compiled(tmp_path: Path) -> Any:
    """The example, compiled into a cache folder of its own."""
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        yield lambda number=42: compile_module_from_src(SOURCE, "answers", ccflags=[f"-DANSWER={number}"])


@pytest.mark.needs_cc
def test_module_is_compiled_once(compiled: Any) -> None:
    first = compiled()

    assert first.answer() == 42
    assert compiled().__file__ == first.__file__
    assert compiled(7).answer() == 7
    assert compile_so_from_src(SOURCE, "answers", ccflags=["-DANSWER=42"]) == first.__file__


@pytest.mark.needs_cc
def test_sources_may_be_files(compiled: Any, tmp_path: Path) -> None:
    first, source = compiled(), tmp_path / "answers.c"
    source.write_text(SOURCE)

    module = compile_module_from_file(str(source), "answers", ccflags=["-DANSWER=42"])

    assert module.answer() == 42
    assert module.__file__ == first.__file__ == compile_so_from_file(str(source), "answers", ccflags=["-DANSWER=42"])


@pytest.mark.needs_cc
def test_damaged_file_is_made_anew(compiled: Any) -> None:
    path = Path(compiled(1).__file__)
    path.unlink()  # a library that this process has mapped must not be written to
    path.write_bytes(b"no library")

    assert compile_module_from_src(SOURCE, "answers", ccflags=["-DANSWER=1"]).answer() == 1


@pytest.mark.needs_cc
def test_program_may_bring_its_own_compiler(compiled: Any) -> None:
    asked = []

    def implementation(name: str, source: str, folder: str, *words: list[str]) -> str:
        asked.append((name, Path(source).read_text(), words))
        target = Path(folder) / "made"
        target.write_bytes(b"library")
        return str(target)

    with knobs.build.scope():
        knobs.build.impl = implementation
        made = compile_so_from_src("int x;", "thing", libraries=["m"])

    assert (Path(made).name, Path(made).read_bytes()) == (f"thing{EXTENSION}", b"library")
    assert asked == [("thing", "int x;", ([], [], ["m"]))]


def test_cc_names_the_compiler_of_c_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for language in COMPILERS:
        monkeypatch.setitem(COMPILERS, language, ("python3",))
    with knobs.build.scope():
        knobs.build.cc = "/own/cc"
        assert compiler("c") == "/own/cc"
        assert compiler("c++") == which("python3")
        knobs.build.cc = None
        assert compiler("c") == which("python3")


def test_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMPILERS, "c++", ("no-such-compiler",))

    with pytest.raises(RuntimeError, match=r"no c\+\+ compiler found"):
        compiler("c++")
    with pytest.raises(ValueError, match="language is c or c\\+\\+, not 'fortran'"):
        compile_so_from_src("", "x", language="fortran")


DESCRIPTOR = "tensordesc<fp16[16,32]>"


def test_descriptors_become_several_arguments() -> None:
    parts = ["*fp16", *["i64"] * 4, "i1", "i1", "i32", "i32", "i64", "i64"]

    assert expand_signature(["i32", DESCRIPTOR], [], "desc") == ["i32", *parts]
    assert expand_signature([(DESCRIPTOR, "i8")], [{}], "desc") == [("desc", "i32", "i32", "i64", "i64", "i8")]
    assert len(expand_signature(["tensordesc_im2col<fp32[1,16],input_rank=4,x>"], [{}], "desc")) == 9
    with pytest.raises(ValueError, match="not the type of a tensor descriptor"):
        expand_signature(["tensordesc"], [], "desc")


def test_launcher_gets_what_stands_for_a_descriptor() -> None:
    def launcher(*arguments: Any) -> Any:
        return arguments

    def make(value: Any, facts: Any, own: Any) -> list[Any]:
        return [value, facts, own[0]]

    signature = {"a": (DESCRIPTOR, "i32"), "b": DESCRIPTOR}
    launch = wrap_handle_tensordesc_impl(launcher, signature, [None, "facts"], make)

    assert launch("stream", (("A", 7), "B")) == ("stream", [("A", None, "stream", 7), "B", "facts", "stream"])
    assert wrap_handle_tensordesc_impl(launcher, {"a": "i32"}, None, make) is launcher
