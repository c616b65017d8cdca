"""The passes from TTIR to TTGIR: every module comes through, verified after each pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.types import TensorType
from tilewright.transforms.gpu.pipeline import CAPABILITIES, TtgirOptions, ttgir_passes
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

MODULES = sorted((Path(__file__).parents[1] / "modules").glob("*.ttir"))
EVALUATED = sorted((Path(__file__).parents[2] / "goldens" / "frontends").glob("**/*.ttir"))


def every_tile_has_a_layout(module: Op) -> bool:
    types = (value.type for op in module.walk() for value in op.results)
    return all(type.encoding for type in types if isinstance(type, TensorType))


def compiled(path: Path, capability: int) -> Op:
    module = optimize_ttir(parse_module(path.read_text(), str(path)))
    run_passes(module, ttgir_passes(TtgirOptions(capability)))
    return module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules(path: Path) -> None:
    module = compiled(path, 80)
    text = print_op(module)
    assert every_tile_has_a_layout(module)
    assert print_op(parse_module(text)) == text


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("path", [*MODULES, *EVALUATED], ids=lambda path: path.stem)
def test_every_module_for_every_capability(path: Path, capability: int) -> None:
    module = compiled(path, capability)
    assert every_tile_has_a_layout(module)
    assert module.attributes["ttg.target"] == f"cuda:{capability}"
