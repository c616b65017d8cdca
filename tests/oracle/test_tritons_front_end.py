"""The examples with TTIR that Triton (3.5.1 or 3.9) made: its front end and passes, our loops and machine code.

Every kernel that an example launches is compiled by Triton to TTIR text; that text is compiled here and launched in the
place of the kernel. Each example prints how far its result is from NumPy's: as far as with our own front end.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import optional_peers
import tilewright as tw
from tilewright.runtime import jit
from tilewright.runtime.kernel import CompiledKernel

pytestmark = pytest.mark.needs_triton
triton = optional_peers.module("triton")

from triton._C.libtriton import ir  # noqa: E402 - once it is known to be there
from triton.backends.compiler import GPUTarget  # noqa: E402 - once it is known to be there
from triton.compiler.compiler import ASTSource, make_backend  # noqa: E402 - once it is known to be there

KERNELS = {
    "batched_gemm": 1,
    "conv2d": 3,
    "dropout": 1,
    "flash_attention": 6,
    "histogram": 1,
    "layer_norm": 3,
    "matmul": 4,
    "prefix_sum": 1,
    "softmax": 1,
    "vector_add": 1,
}
"""The number of kernels that each example compiles."""
ERROR = re.compile(r"\b\d\.?\d*e-\d+")


def as_tritons(fn: FunctionType) -> Any:
    """The kernel as Triton has it, with what it calls."""
    names = dict(fn.__globals__)
    for name in fn.__code__.co_names:
        value = names.get(name)
        if isinstance(value, tw.JITFunction):
            names[name] = as_tritons(value.fn)
        elif isinstance(value, tw.language.constexpr):
            names[name] = triton.language.constexpr(value.value)
    names["tl"] = triton.language
    copy = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__)
    copy.__module__, copy.__qualname__ = fn.__module__, fn.__qualname__
    marks = {name: "constexpr" in str(kind) for name, kind in fn.__annotations__.items()}
    copy.__annotations__ = {name: triton.language.constexpr for name, is_constant in marks.items() if is_constant}
    return triton.jit(copy)


def constant(value: Any) -> Any:
    """A constant as Triton has it."""
    return triton.language.dtype(value.name) if isinstance(value, tw.language.dtype) else value


def tritons_ttir(source: tw.ASTSource) -> str:
    """Triton's module of a kernel, behind its passes on TTIR."""
    backend = make_backend(GPUTarget("cuda", 80, 32))
    options = backend.parse_options({})
    constants = {place: constant(value) for place, value in source.constants.items()}
    theirs = ASTSource(as_tritons(source.fn.fn), source.signature, constants, source.attrs)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    implementation, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    stages: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}
    backend.add_stages(stages, options, theirs.language)
    return str(stages["ttir"](theirs.make_ir(backend.target, options, implementation, modules, context), {}))


def assert_alike(text: str, expected: str) -> None:
    """Equal but for the size of errors: sums by atomics differ from run to run where two threads add."""
    assert ERROR.sub("", text) == ERROR.sub("", expected)
    for ours, theirs in zip(map(float, ERROR.findall(text)), map(float, ERROR.findall(expected)), strict=True):
        assert ours == pytest.approx(theirs, rel=2, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("example", KERNELS)
def test_example(
    example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = []

    def through_triton(source: tw.ASTSource, backend: Any, options: dict[str, Any]) -> CompiledKernel:
        path = tmp_path / f"{source.name}.ttir"
        path.write_text(tritons_ttir(source))
        kernel = tw.compile(path, options=options)
        kernel.signature = source.specs  # launched as the kernel is
        compiled.append(kernel)
        return kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    importlib.reload(importlib.import_module(example)).main()
    expected = capsys.readouterr().out
    monkeypatch.setattr(jit, "build", through_triton)
    importlib.reload(importlib.import_module(example)).main()
    assert_alike(capsys.readouterr().out, expected)
    assert len(compiled) == KERNELS[example]
