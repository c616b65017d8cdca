"""The parts of a `@jit` function: its source, its parameters, its key, its caches."""

from __future__ import annotations

import ast
import linecache
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.runtime.captured import CapturedFunction
from tilewright.support.diagnostics import CompilationError


def decorator_with(text: str) -> Any:
    return lambda function: function


@tw.jit
def plain(out, n: tl.int64, BLOCK: tl.constexpr = 8):
    """Stores n."""
    tl.store(out, n)


@decorator_with("def not_this(")
@tw.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=[0], debug=False, version=3)
def decorated(
    out,
    n,
):
    tl.store(out, n)


class Holder:
    @tw.jit
    def method(out, n):
        tl.store(out, n + 1)


def nested(added: Any) -> Any:
    @tw.jit
    def inner(out):
        tl.store(out, added)

    return inner


def run(kernel: Any, *args: Any) -> int:
    out = np.zeros(1, np.int32)
    kernel[(1,)](out, *args)
    return int(out[0])


def test_names_and_places() -> None:
    line = plain.fn.__code__.co_firstlineno
    assert (plain.__name__, plain.__qualname__, plain.__module__, plain.module) == ("plain", "plain", *[__name__] * 2)
    assert plain.__doc__ == "Stores n."
    assert plain.__globals__ is globals()
    assert (plain.file_name, plain.starting_line_number, plain.def_file_line_number) == (__file__, line, line + 1)
    assert plain.def_file_col_number == 1
    assert plain.raw_src[0] == "@tw.jit\n"
    assert list(plain.signature.parameters) == plain.arg_names == ["out", "n", "BLOCK"]
    assert plain.constexprs == [2]
    assert plain.kernel is None
    assert not plain.is_gluon()
    assert repr(plain) == f"JITFunction({__name__}:plain)"


COLLECTED = """
import tilewright as tw

@tw.jit
def test_kernel(x, n: int = 3): pass

test_interpreted = tw.jit(test_kernel.fn, interpret=True)
test_constants = tw.constexpr_function(test_kernel.fn)

@tw.autotune([tw.Config({})], key=[])
@tw.jit
def test_tuned(x): pass

def test_it():
    import inspect
    assert str(inspect.signature(test_kernel)) == str(test_kernel.signature) == "(x, n: int = 3)"
    assert str(inspect.signature(test_interpreted)) == "(x, n: int = 3)"
"""


@pytest.mark.spared
def test_pytest_takes_no_kernel_for_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(COLLECTED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1].startswith("1 passed"), done.stdout


def test_source_begins_with_the_definition_also_under_decorators_and_in_classes() -> None:
    assert plain.src.startswith("def plain(out, n: tl.int64")
    assert decorated.src.startswith("def decorated(\n    out,")
    assert decorated.def_file_line_number == decorated.starting_line_number + 2
    assert Holder.method.src == "def method(out, n):\n    tl.store(out, n + 1)\n"
    assert Holder.method.def_file_col_number == 5
    assert run(Holder.method, 4) == 5


def test_options_are_kept() -> None:
    assert decorated.do_not_specialize == ["n"]
    assert decorated.do_not_specialize_on_alignment == [0]
    assert (decorated.debug, decorated.version, decorated.noinline) == (False, 3, False)
    assert decorated.params[1].do_not_specialize
    assert decorated.params[0].do_not_specialize_on_alignment


def test_parse_gives_one_function() -> None:
    (function,) = plain.parse().body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "plain"


def test_capture_scope() -> None:
    inner = nested(tl.constexpr(7))
    assert inner.get_capture_scope()["added"].value == 7
    assert inner.get_capture_scope()["np"] is np
    assert plain.get_capture_scope() is globals()


def test_a_function_is_a_constant() -> None:
    assert plain.type == tl.constexpr_type(plain)
    assert len({plain, decorated, plain}) == 2


def test_kernels_are_pickled_by_reference() -> None:
    assert pickle.loads(pickle.dumps(plain)) is plain


def test_source_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError, match="_unsafe_update_src"):
        plain.src = "def plain(): pass"


def test_a_notebook_cell_is_a_source() -> None:
    text = "def cell(out):\n    tl.store(out, 41)\n"
    linecache.cache["<ipython-input-1>"] = (len(text), None, text.splitlines(keepends=True), "<ipython-input-1>")
    names = {"tl": tl}
    exec(compile(text, "<ipython-input-1>", "exec"), names)
    kernel = tw.jit(names["cell"])
    assert kernel.src == text
    assert run(kernel) == 41


def test_functions_without_source_are_refused_where_it_is_to_be_read() -> None:
    names: dict[str, Any] = {}
    exec("def made(x):\n    pass", names)
    with pytest.raises(ValueError, match=r"source of made.*notebook"):
        tw.jit(names["made"], frontend="ast")


def test_source_that_went_away(tmp_path: Any) -> None:
    path = tmp_path / "gone.py"
    path.write_text("def gone(x):\n    pass\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.unlink()
    with pytest.raises(ValueError, match="source of gone"):
        _ = tw.jit(names["gone"]).src


def test_changed_source_is_compiled() -> None:
    kernel = tw.jit(Holder.method.fn)
    text, key = kernel.src, kernel.cache_key
    assert run(kernel, 4) == 5
    kernel._unsafe_update_src(text.replace("+ 1", "+ 2"))
    assert (run(kernel, 4), kernel.src) == (6, text.replace("+ 1", "+ 2"))
    assert kernel.cache_key != key
    kernel._unsafe_update_src(text)
    assert (run(kernel, 4), kernel.cache_key) == (5, key)


def test_changed_source_keeps_captured_variables() -> None:
    kernel = nested(tl.constexpr(7))
    assert run(kernel) == 7
    kernel._unsafe_update_src(kernel.src.replace("added", "added * 2"))
    assert run(kernel) == 14
    kernel._unsafe_update_src("def inner(out):\n    tl.store(out, other)")
    with pytest.raises(CompilationError, match="`other`"):
        run(kernel)


@tw.jit
def one():
    return 1


@tw.jit
def calls(out, FUNCTION: tl.constexpr):
    tl.store(out, FUNCTION())


def test_a_changed_function_argument_is_noticed_after_native_launches() -> None:
    assert [run(calls, one) for _ in range(3)] == [1, 1, 1]
    text = one.src
    one._unsafe_update_src(text.replace("1", "2"))
    assert run(calls, one) == 2
    one._unsafe_update_src(text)
    assert run(calls, one) == 1


def test_constants_cannot_be_excluded_from_specialisation() -> None:
    @tw.jit(do_not_specialize=["N"])
    def by_name(out, N: tl.constexpr): ...

    @tw.jit(do_not_specialize_on_alignment=[1])
    def by_number(out, N: tl.constexpr): ...

    for kernel in (by_name, by_number):
        with pytest.raises(CompilationError, match="N marked as constexpr and listed in do_not_specialize"):
            kernel.warmup(np.float32, 4, grid=(1,))


def test_repr_names_the_kernel() -> None:
    def name_of(specialization: Any) -> str:
        return f"store_{specialization.constants['N']}_{specialization.signature['out'].removeprefix('*')}"

    @tw.jit(repr=name_of)
    def kernel(out, N: tl.constexpr):
        tl.store(out, N)

    assert kernel.warmup(np.int32, 3, grid=(1,)).name == "store_3_i32"


def test_caches_of_devices() -> None:
    kernel = tw.jit(plain.fn)
    kernels, keys, target, backend, binder = kernel.device_caches[0]
    assert (len(kernels), target.backend, backend.binary_ext) == (0, "cpu", "obj")
    for n in (1, 8, 16, 17, 32):
        run(kernel, n)
    assert len(kernels) == len(keys) == 3
    assert kernel.device_caches["cpu:0"][0] is kernels
    values, types, options = binder(np.zeros(1, np.int32), 16, num_warps=2)
    assert [kind for kind, _ in types] == ["*i32", "i64", "constexpr"]
    assert (list(values), options) == (["out", "n", "BLOCK"], {"num_warps": 2})


@pytest.mark.quick
@pytest.mark.parametrize(
    "forget",
    ["kernels.clear()", "caches.clear()", "kernels.popitem()", "del kernels[key]", "assert kernels.pop(key) is first"],
)
def test_an_emptied_cache_is_noticed_after_native_launches(forget: str) -> None:
    kernel = tw.jit(plain.fn)
    run(kernel, 3)
    bound, out = kernel[(1,)], np.zeros(1, np.int32)
    first = bound(out, 3)
    caches, kernels = kernel.device_caches, kernel.device_caches[0][0]
    exec(forget, {"caches": caches, "kernels": kernels, "key": next(iter(kernels)), "first": first})
    assert bound(out, 3) is not first
    assert len(kernel.device_caches[0][0]) == 1


@pytest.mark.needs_torch
def test_warmup_takes_dtypes() -> None:
    import torch

    kernel = tw.jit(plain.fn)
    compiled = kernel.warmup(torch.int32, 3, grid=(1,))
    assert kernel.warmup(tw.MockTensor(torch.int32), 3, grid=(1,)) is compiled
    assert kernel.warmup(np.int32, n=3, grid=(1,)) is compiled
    assert kernel[(1,)](torch.zeros(4, dtype=torch.int32), 3) is compiled


def test_pre_run_hooks_see_every_launch_also_of_bound_kernels() -> None:
    kernel, out, seen = tw.jit(plain.fn), np.zeros(1, np.int32), []
    bound = kernel[(1,)]
    for _ in range(3):
        bound(out, 3)
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append((args[1], kwargs)))
    bound(out, 4, BLOCK=2)
    kernel[(1,)](out, 5)
    kernel.run(out, 6, grid=(1,), warmup=False)
    assert seen == [(4, {"BLOCK": 2}), (5, {}), (6, {})]
    kernel.pre_run_hooks.clear()
    bound(out, 7)
    assert len(seen) == 3


def test_options_without_effect_on_code_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    late = sys.modules["tilewright.runtime.lazy_imports"]
    compile_kernel = late.compile_kernel

    def counted(*args: Any, **request: Any) -> Any:
        compiled.append(request["name"])
        return compile_kernel(*args, **request)

    monkeypatch.setattr(late, "compile_kernel", counted)

    @tw.jit
    def counts(out, n):
        tl.store(out, n)

    out = np.zeros(1, np.int32)
    kernels = [counts[(1,)](out, 3, num_warps=warps, num_stages=stages) for warps in (1, 4, 8) for stages in (1, 3)]
    assert compiled == ["counts"]
    assert len({kernel.hash for kernel in kernels}) == 1
    assert [kernel.metadata.num_warps for kernel in kernels] == [1, 1, 4, 4, 8, 8]
    counts[(1,)](out, 3, enable_fp_fusion=False)
    assert compiled == ["counts", "counts"]


def test_plain_functions_and_their_classes_are_captured_alike() -> None:
    captured = CapturedFunction(nested)
    assert captured.src.startswith("def nested(added: Any)")
    assert captured.hash is None
    assert captured.cache_key == captured.hash
    assert isinstance(captured.fn, types.FunctionType)


def test_another_cpu_is_another_kernel() -> None:
    """A launch that is known, natively or not, was one for the processor that the knob named then."""

    @tw.jit
    def store_one(out):
        tl.store(out, 1)

    out = np.zeros(1, np.int32)
    (plainest, *_) = run_here("x86-64-v2", "aarch64")
    ours = [store_one[(1,)](out) for _ in range(2)]
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = plainest
        theirs = [store_one[(1,)](out) for _ in range(2)]
    assert ours[0] is ours[1] is store_one[(1,)](out) is not theirs[0] is theirs[1]


def test_a_kernel_of_a_template_says_where_that_is() -> None:
    made = tw.JITFunction(plain.fn)
    made._unsafe_update_src("def plain(out, n, BLOCK: tl.constexpr = 8):\n    tl.store(out, n + 7)\n")
    assert (made.starting_line_number, made.file_name) == (plain.starting_line_number, __file__)
    made.raw_src, made.starting_line_number, made.def_file_line_number = ["template\n"], 3, 5
    made.def_file_col_number, made.file_name, made._fn_name = 2, "template.py", "templates.plain"
    made.fn.__code__ = made.fn.__code__.replace(co_filename="template.py", co_firstlineno=3)
    assert (made.raw_src, made.starting_line_number, made.def_file_line_number) == (["template\n"], 3, 5)
    assert (made.def_file_col_number, made.file_name, made._fn_name) == (2, "template.py", "templates.plain")
    assert run(made, 1) == 8  # of its own text, which is in no file
    assert plain.file_name == __file__
