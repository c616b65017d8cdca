"""Torch's tests of Inductor as unittest classes for the CPU, from files of torch that are rewritten in memory.

    suites = Suites([Path("pytorch/test/inductor")], "triton")
    suites.names("sweep")                      # ["test_int_dense", …]
    suites.run("sweep", "test_int_dense")      # {"result": "passes", "detail": ""}

Nothing of torch's files is in this repository. What is changed of them: marks that skip a test for Triton on CPUs go,
tests of user kernels take the CPU for the GPU, and names that newer versions of torch no longer have are made up.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import re
import sys
import unittest
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

SKIPS = re.compile(r"^[ ]*@(?:skip_if_triton_cpu|skipNPUIf\(True).*$", re.MULTILINE)
RAISED = re.compile(r'raise unittest\.SkipTest\((?=\s*f?"[^"]*[Tt]riton CPU)')
"""The marks of tests that are not tried with Triton on CPUs, or on no device that a port of the file knows, and where
tests leave themselves out."""
PORTED = ('"NPU"', '"CUDA"')
"""The key of kernels in a port of the files to another device, and the one that torch knows."""
COUNTS = re.compile(r"^[ ]*count_code\(\"tl.make_block_ptr\".*$", re.MULTILINE)
"""Where tests of block pointers count them."""
DESCRIBED = "_described"
"""Stands behind the name of a module that is loaded again for tensor descriptors, without these counts."""
OPERATORS, BLOCKS, USER = "test_torchinductor", "test_torchinductor_strided_blocks", "test_triton_kernels"
PACKAGES, CONTROL = "test_aot_inductor", "test_control_flow"
SUITES = {
    "common": (OPERATORS, "CommonTemplate"),
    "sweep": (OPERATORS, "SweepInputs2"),
    "block pointers": (BLOCKS, "CommonTemplate"),
    "tensor descriptors": (f"{BLOCKS}{DESCRIBED}", "CommonTemplate"),
    "user kernels": (USER, "KernelTests"),
    "mutation": (USER, "MutationTests"),
    "custom operators": (USER, "CustomOpTests"),
    "packages": (PACKAGES, "AOTInductorTestABICompatibleCpu"),
}
"""The file and the class that each suite is from."""
SETTINGS = {
    "block pointers": {"triton.use_block_ptr": True},
    "tensor descriptors": {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True},
}
"""The settings of Inductor that the suites change."""
GONE = (
    ("torch._inductor.codecache", "cpp_prefix_path"),
    ("torch._inductor.compile_fx", "complex_memory_overlap"),
    ("torch.export", "export_for_training"),
    ("torch.ao.quantization.quantizer", "x86_inductor_quantizer"),
    ("torch.ao.quantization.quantizer.x86_inductor_quantizer", "X86InductorQuantizer"),
    ("torch.ao.quantization.quantize_pt2e", "convert_pt2e"),
    ("torch.ao.quantization.quantize_pt2e", "prepare_pt2e"),
    ("torch.testing._internal.triton_utils", "add_kernel_with_tma_1d"),
    ("torch.testing._internal.triton_utils", "add_kernel_with_tma_2d"),
)
"""Functions that files import for a few tests, and that newer versions of torch do not have; those tests fail."""
LONGEST_DETAIL = 500


class Rewritten(SourceFileLoader):
    """Loads a file of tests without the marks; lines keep their numbers, since kernels are read from the file."""

    def get_data(self, path: str) -> bytes:
        """The changed text."""
        text = RAISED.sub("str(", SKIPS.sub("", Path(path).read_text())).replace(*PORTED)
        return (COUNTS.sub("", text) if self.name.endswith(DESCRIBED) else text).encode()

    def get_code(self, fullname: str) -> Any:
        """The code of the changed text, never of a cache."""
        return self.source_to_code(self.get_data(self.path), self.path)


class Files(importlib.abc.MetaPathFinder):
    """Finds the tests of the folders by their names; the first folder that has a file wins."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders

    def path_of(self, name: str) -> Path | None:
        """The file of a module; None if no folder has it."""
        found = (folder / f"{name.removesuffix(DESCRIBED)}.py" for folder in self.folders)
        return next((path for path in found if path.exists()), None)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """A module whose file is changed when it is loaded."""
        file = self.path_of(fullname) if fullname.startswith("test_") else None
        if file is None:
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=Rewritten(fullname, str(file)))


class Suites:
    """The suites whose files the folders have.

    Args:
        folders: with torch's files; the first that has a file wins.
        backend: Inductor's back end for CPUs: `triton`, which is ours, or `cpp`.
    """

    def __init__(self, folders: Sequence[Path], backend: str) -> None:
        self._backend = backend
        self._files = Files(folders)
        self._classes: dict[str, type[unittest.TestCase]] = {}
        sys.meta_path.insert(0, self._files)
        sys.modules["torchvision"] = None
        if backend == "triton":
            importlib.import_module("tilewright.torch_compile")
        torch._inductor.config.cpu_backend = backend
        torch._inductor.config.compile_threads = 1

    def names(self, suite: str) -> list[str]:
        """The tests of a suite; none where its file is missing."""
        if self._files.path_of(SUITES[suite][0]) is None:
            return []
        return sorted(name for name in dir(self._class(suite)) if name.startswith("test_"))

    def run(self, suite: str, name: str) -> dict[str, str]:
        """Run one test; gives its `result`, and the `detail` of it."""
        result = unittest.TestResult()
        unittest.TestSuite([self._class(suite)(name)]).run(result)
        if result.errors or result.failures or result.unexpectedSuccesses:
            texts = [text for _, text in [*result.errors, *result.failures]]
            return {"result": "fails", "detail": _last_words(texts[0] if texts else "unexpected success")}
        if result.skipped:
            return {"result": "skips", "detail": result.skipped[0][1]}
        return {"result": "passes", "detail": "expected failure" if result.expectedFailures else ""}

    def _class(self, suite: str) -> type[unittest.TestCase]:
        if suite not in self._classes:
            file, name = SUITES[suite]
            _make_up_names()
            if self._files.path_of(CONTROL):
                importlib.import_module(CONTROL)  # its tests have each device once, so it may not take one for another
            if file == USER or (file == PACKAGES and self._backend == "triton"):
                _take_cpu_for_gpu()
            self._classes[suite] = self._made(suite, importlib.import_module(file), name)
        return self._classes[suite]

    def _made(self, suite: str, module: ModuleType, name: str) -> type[unittest.TestCase]:
        """The class of the module, for the CPU."""
        found = vars(module)[name]
        facts: dict[str, Any] = {"device": "cpu", "__module__": module.__name__}
        operators = vars(importlib.import_module(OPERATORS)) if module.__name__ not in (USER, PACKAGES) else {}
        if suite == "sweep":
            facts["gen"] = operators["InputGen"](10, "cpu")
            made = type("SweepInputsCpu", (found, operators["TestCase"]), facts)
            made.populate()
            return made
        if suite == "common":
            made = type("Common", (operators["TestCase"],), {**facts, "common": operators["check_model"]})
            operators["copy_tests"](found, made, "cpu")
            return made
        if suite in SETTINGS:
            made = type("Blocks", (operators["InductorTestCase"],), facts)
            operators["copy_tests"](found, made, "cpu")
            made = _with_described_blocks(made) if suite == "tensor descriptors" else made
            return torch._inductor.config.patch(SETTINGS[suite])(made)
        return found


def _take_cpu_for_gpu() -> None:
    """Let torch's tests for GPUs run on the CPU."""
    names = vars(importlib.import_module("torch.testing._internal.inductor_utils"))
    names.update(GPU_TYPE="cpu", HAS_GPU=True, HAS_CUDA=True, HAS_XPU=False, HAS_GPU_AND_TRITON=True)
    marks = vars(importlib.import_module("torch.testing._internal.triton_utils"))
    marks.update(dict.fromkeys(["requires_gpu", "requires_cuda"], lambda test: test), HAS_GPU=True)


def _with_described_blocks(tests: type[unittest.TestCase]) -> type[unittest.TestCase]:
    """Let Inductor write tensor descriptors in some tests where their rules allow them, as for GPUs that have them."""
    checker = vars(importlib.import_module("torch._inductor.codegen.triton"))["TMACompatibilityChecker"]
    allowed = patch.object(checker, "can_use_tma", lambda self: not (self.for_store and self.kernel.no_x_dim))
    return allowed(tests)


def _make_up_names() -> None:
    """Give torch's modules the names that files of older versions take from them."""
    kernels = vars(importlib.import_module("torch.testing._internal.triton_utils"))
    kernels.setdefault("requires_cuda", kernels["requires_cuda_and_triton"])
    kernels.setdefault("inline_asm_kernel", kernels.get("inline_asm_kernel_is_pure_false"))
    analysis = vars(importlib.import_module("torch._higher_order_ops.triton_kernel_wrap"))
    analysis["generate_ttir"].__defaults__ = ({},)  # a later parameter

    def identify_mutated_tensors(kernel: Any, inputs: dict[str, Any]) -> list[str]:
        writes = analysis["identify_accessed_tensors"](kernel, inputs, {}).read_writes.writes
        written = {access.name for access in writes}
        return [name for name in inputs if name in written]

    analysis.setdefault("identify_mutated_tensors", identify_mutated_tensors)
    for module, name in GONE:
        names = vars(_imported(module))
        names.setdefault(name, names.get("export", SimpleNamespace(cache_clear=None)))


def _imported(name: str) -> ModuleType:
    """A module; an empty one where this torch does not have it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return sys.modules.setdefault(name, ModuleType(name))


def _last_words(text: str) -> str:
    """The last error of a text, without the calls that led to it and what torch says to everybody."""
    text = re.split(r"\n(?:from user code|Set TORCHDYNAMO_VERBOSE|To execute this test)", text)[0].rstrip()
    errors = [
        match.start() for match in re.finditer(r"^[\w.]+(?:Error|Exception|Exit|Interrupt)\b", text, re.MULTILINE)
    ]
    return text[max(errors, default=0) :][:LONGEST_DETAIL]
