"""Back ends of other packages, found by their entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends import registry
from tilewright.backends.base import BaseBackend, GPUTarget, Language
from tilewright.runtime.compile import ASTSource, compile, make_backend

TOY = '''
"""A back end whose binary is the text of TTIR, and which runs it on the interpreter."""

from tilewright.backends.base import BaseBackend, Language
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op


class Options:
    def __init__(self, debug=False, enable_fp_fusion=True, volume=1):
        self.debug, self.volume = debug, volume

    def hash(self):
        return f"{self.debug}/{self.volume}"


class ToyBackend(BaseBackend):
    binary_ext = "toy"

    @staticmethod
    def supports_target(target):
        return target.backend == "toy"

    def hash(self):
        return f"toy {self.target.arch}"

    def parse_options(self, options):
        return Options(**options)

    def add_stages(self, stages, options, language=Language.TRITON):
        def toy(module, metadata):
            metadata["volume_of_toy"] = options.volume
            return print_op(module).encode()

        stages["toy"] = toy

    def launch(self, kernel, grid, values):
        run_ir(parse_module(kernel.kernel.decode()), [getattr(v, "owner", v) for v in values], grid)
'''


@tw.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


SOURCE = ASTSource(double, {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 32})
TARGET = GPUTarget("toy", 7, 1)
Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that installs a package: module, its text, and its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    names = []

    def write(module: str, text: str, entry_points: str) -> None:
        path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        about = tmp_path / f"{module.partition('.')[0]}-1.0.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.partition('.')[0]}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(entry_points)
        names.extend([module, module.partition(".")[0]])
        forget()

    yield write
    forget()
    for name in names:
        sys.modules.pop(name, None)


def forget() -> None:
    registry.plugins.cache_clear()
    registry.make_backend.cache_clear()


@pytest.mark.parametrize(
    ("module", "entry_points"),
    [
        ("toy_package", "[tilewright.backends]\ntoy = toy_package:ToyBackend\n"),
        ("toy_package", "[tilewright.backends]\ntoy = toy_package\n"),
        ("triton_toy.compiler", "[triton.backends]\ntoy = triton_toy\n"),
    ],
)
def test_a_plugin_compiles_and_runs(module: str, entry_points: str, install: Install) -> None:
    install(module, TOY, entry_points)
    for _ in range(2):  # compiled, then out of the cache
        kernel = compile(SOURCE, target=TARGET, options={"volume": 11})
        assert list(kernel.asm) == ["source", "ttir", "toy"]
        assert kernel.kernel.decode() == kernel.asm["ttir"]
        assert (kernel.metadata.target, kernel.metadata.volume, kernel.metadata.volume_of_toy) == (TARGET, 11, 11)
        x = np.arange(100, dtype=np.float32)
        kernel[(4,)](x, 100, 32)
        np.testing.assert_array_equal(x, 2 * np.arange(100, dtype=np.float32))
    hashes = {compile(SOURCE, target=target).hash for target in (TARGET, GPUTarget("toy", 8, 1))}
    assert len({kernel.hash, *hashes}) == 3, "target and options are in the key"


def test_text_of_a_plugins_stage(install: Install, tmp_path: Path) -> None:
    install("toy_package", TOY, "[tilewright.backends]\ntoy = toy_package:ToyBackend\n")
    path = tmp_path / "double.ttir"
    path.write_text(str(compile(SOURCE, target=TARGET).asm["ttir"]))
    assert compile(str(path), target=TARGET).kernel.decode() == path.read_text()


def test_a_back_end_that_only_compiles(install: Install) -> None:
    install("toy_package", TOY.replace("def launch", "def unused"), "[tilewright.backends]\ntoy = toy_package\n")
    kernel = compile(SOURCE, target=TARGET)
    with pytest.raises(RuntimeError, match="double was compiled for toy, whose back end does not run kernels"):
        kernel[(1,)](np.zeros(4, np.float32), 4, 32)


@pytest.mark.parametrize(
    ("text", "entry_points", "message"),
    [
        ("", "[tilewright.backends]\ntoy = toy_package\n", "expected one subclass of BaseBackend"),
        (TOY, "[tilewright.backends]\ntoy = toy_package:Options\n", "expected one subclass of BaseBackend"),
        ("import missing_package", "[tilewright.backends]\ntoy = toy_package\n", "No module named 'missing_package'"),
        (TOY, "[tilewright.backends]\ntoy = toy_package\ntoo = toy_package\n", r"2 compatible backends .*\(toy, too\)"),
        (
            "",
            "[triton.backends]\ngadget = toy_package.missing\n",
            "0 compatible backends .*; gadget is no use here: No module",
        ),
    ],
)
def test_plugins_that_are_wrong(text: str, entry_points: str, message: str, install: Install) -> None:
    install("toy_package", text, entry_points)
    with pytest.raises(registry.BackendError, match=message):
        make_backend(TARGET)


def test_targets_without_a_back_end() -> None:
    forget()
    with pytest.raises(registry.BackendError, match=r"0 compatible backends for target \(hip\).*are: cpu, cuda"):
        make_backend(GPUTarget("hip", "gfx942", 64))


def test_the_cpu_does_not_ask_plugins(install: Install) -> None:
    install("toy_package", "import missing_package", "[tilewright.backends]\ntoy = toy_package\n")
    assert make_backend(GPUTarget("cpu", "x86-64-v3", 0)).binary_ext == "obj"


class Least(BaseBackend):
    """A back end that says no more than it has to."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return True

    def hash(self) -> str:
        return ""

    def parse_options(self, options: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(**options)

    def add_stages(self, stages: dict[str, Any], options: Any, language: Language = Language.TRITON) -> None:
        stages.clear()


def test_defaults_of_what_a_back_end_need_not_say() -> None:
    """Triton's defaults: divisibility by 16 where it is asked for."""
    backend = Least(TARGET)
    assert backend.get_module_map() == backend.get_codegen_implementation(None) == backend.text_facts("toy", "") == {}
    assert (backend.get_target_name(None), backend.runs_here()) == ("toy:7", False)
    facts = SimpleNamespace(num_warps=4, num_ctas=2, shared=8)
    assert backend.pack_metadata(facts) == (4, 2, 8)
    assert [backend.parse_attr(key) for key in ("", "D")] == [[], [["tt.divisibility", 16]]]
    for number, wanted in ((32, "D"), (8, ""), (0, "D")):
        tensor = SimpleNamespace(data_ptr=lambda number=number: number)
        assert backend.get_int_specialization(number, align=True) == wanted
        assert backend.get_tensor_specialization(tensor, align=True) == wanted
        assert backend.get_int_specialization(number) == backend.get_tensor_specialization(tensor) == ""
    with pytest.raises(RuntimeError, match="k was compiled for toy, whose back end does not run kernels"):
        backend.launch(SimpleNamespace(name="k"), (1, 1, 1), [])
