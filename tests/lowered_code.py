"""How much code the kernels of chosen tests become on processors that this machine need not be: a line for each.

    @code_on("znver5")
    def test_rows(): kernel[(1,)](…)        kernel znver5: 83 ops, 210 instructions, 5f0c11d2

A test that compares results says little of what code decides: which loop has a version, what is asked for ahead, how
much is unrolled. That shows here: the last word is a digest of the ops and of LLVM's text. `pytest --update-goldens`
adds lines; without the file it writes those of the tests that it runs. Slow cases add none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from code_counts import llvm_ir, summary
from compiled_code import LEFT_OUT, compare
from tilewright.backends.cpu import pipeline
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.core import Op
from tilewright.ir.pass_manager import run_passes
from tilewright.transforms.functions import functions_of, is_public

GOLDEN = Path(__file__).parent / "goldens" / "cpu" / "compiled.txt"


def code_on(*cpus: str) -> pytest.MarkDecorator:
    """The kernels that a test compiles are lowered for these processors as well, and compared."""
    return pytest.mark.code_on(*cpus)


@pytest.fixture(autouse=True)
def lowered_as_before(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compares the code of the kernels that a test marked `code_on` compiles; `conftest.py` of a folder imports it."""
    marker = request.node.get_closest_marker("code_on")
    if marker is None or any(map(request.node.get_closest_marker, LEFT_OUT)):
        yield
        return
    lines = watched(monkeypatch, marker.args)
    yield
    compare(lines, GOLDEN, update=request.config.getoption("--update-goldens"))


def watched(monkeypatch: pytest.MonkeyPatch, cpus: tuple[str, ...]) -> list[str]:
    """The lines of kernels that are compiled from now on."""
    lines: list[str] = []
    make_ttcir: Callable[..., Op] = pipeline.make_ttcir

    def noted(module: Op, metadata: dict[str, Any], options: Any, target: Any) -> Op:
        for cpu in cpus:
            lines.append(line_of(module.clone(), options, cpu))
        return make_ttcir(module, metadata, options, target)

    monkeypatch.setattr(pipeline, "make_ttcir", noted)
    return lines


def line_of(module: Op, options: Any, cpu: str) -> str:
    """The line of a kernel (TTIR, which is consumed) and a processor."""
    target = host_target(cpu)
    name = next(function.symbol for function in functions_of(module) if is_public(function))
    if options.sanitize:
        pipeline.sanitize(module, options)
    passes = pipeline.cpu_passes(target, interruptible=options.interruptible)
    run_passes(module, (*passes, *pipeline.loop_passes(target)))
    ops, count = summary(module), sum(1 for _ in module.walk())
    text = llvm_ir(module, target)
    instructions = sum(" = " in line or line.startswith("  store") for line in text.splitlines())
    return f"{name} {cpu}: {count} ops, {instructions} instructions, {crc32(f'{ops}{text}'.encode()):08x}"
