"""The whole pipeline: what holds for every module afterwards, and the text of some kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import PointerType, TensorType
from tilewright.ir.verifier import verify
from tilewright.transforms.pipeline import PASSES, optimize_ttir

assert tilewright.dialects.__all__

MODULES = sorted((Path(__file__).parent / "modules").glob("*.ttir"))
EVALUATED = sorted((Path(__file__).parent.parent / "goldens" / "frontends").glob("**/*.ttir"))


def optimized(path: Path) -> Op:
    module = parse_module(path.read_text(), str(path))
    verify(module)
    return optimize_ttir(module)


def types_in(module: Op) -> set[object]:
    found: set[object] = set()
    for op in module.walk():
        found.update(value.type for value in op.results)
        for region in op.regions:
            for block in region.blocks:
                found.update(value.type for value in block.args)
    return found


@pytest.mark.quick
@pytest.mark.parametrize("path", [*MODULES, *EVALUATED], ids=lambda path: path.stem)
def test_what_back_ends_may_rely_on(path: Path) -> None:
    module = optimized(path)
    functions = [op for op in module.regions[0].block if op.name == "tt.func"]
    kept = [op for op in functions if op.attributes.get("noinline") is True]
    calls = [op for op in module.walk() if op.name == "tt.call"]
    assert len(functions) == 1 + len(kept)
    assert not calls or kept
    for function in functions:
        assert len(function.regions[0].blocks) == 1
    assert not any(op.name.startswith("cf.") for op in module.walk())
    assert not any(isinstance(type, PointerType) and isinstance(type.pointee, TensorType) for type in types_in(module))


@pytest.mark.quick
@pytest.mark.parametrize("path", [*MODULES, *EVALUATED], ids=lambda path: path.stem)
def test_the_pipeline_finds_nothing_more_to_do(path: Path) -> None:
    """Optimising twice changes nothing but the order of constants, so no pass undoes another's work."""
    module = optimized(path)
    once = sorted(op.name for op in module.walk())
    optimize_ttir(module)
    assert sorted(op.name for op in module.walk()) == once


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_text(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(print_op(optimized(path)), f"transforms/pipeline/{path.name}")


def test_dumps() -> None:
    module = parse_module(MODULES[0].read_text())
    seen: list[str] = []
    optimize_ttir(module, dump=lambda name, _: seen.append(name))
    assert seen == [step.name for step in PASSES]
