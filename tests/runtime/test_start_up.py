"""The cost of a new process before its first launch, when its kernels are in the disk cache.

The bounds are some ten times what `bench` measures, so that a busy machine does not fail; the modules are exact.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fresh_caches import cache_without_kernels

PROGRAM = """
import json, sys, time
import numpy as np
numpy = list(sys.modules)
begin = time.process_time()
import tilewright as tw
import tilewright.language as tl
imported = time.process_time()

@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

modules = list(sys.modules)
x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
start = time.process_time()
double[(8,)](x, out, 1000, BLOCK=128)
launched = time.process_time()
assert np.array_equal(out, 2 * x)
print(json.dumps({"whole": time.process_time(), "import": imported - begin, "launch": launched - start,
                  "numpy": numpy, "imported": modules,
                  "launched": [name for name in sys.modules if name not in modules]}))
"""

NOT_IMPORTED = (
    "_hashlib",
    "asyncio",
    "concurrent.futures",
    "copy",
    "dataclasses",
    "decimal",
    "fractions",
    "importlib.metadata",
    "importlib.util",
    "llvmlite",
    "logging",
    "ml_dtypes",
    "mmap",
    "multiprocessing",
    "pathlib",
    "random",
    "shutil",
    "signal",
    "statistics",
    "subprocess",
    "tempfile",
    "threading",
    "tilewright.analysis",
    "tilewright.backends.cpu.pipeline",
    "tilewright.backends.llvm.cpu_costs",
    "tilewright.compiler.compile",
    "tilewright.dialects",
    "tilewright.frontends",
    "tilewright.interpreter",
    "tilewright.ir",
    "tilewright.language.names",
    "tilewright.language.operations",
    "tilewright.language.signatures",
    "tilewright.runtime.cache.upkeep",
    "tilewright.runtime.compile_hooks",
    "tilewright.runtime.drivers.cpu.listener",
    "tilewright.runtime.interpreted",
    "tilewright.runtime.tuning",
    "tilewright.semantics.errors",
    "tilewright.semantics.types",
    "tilewright.support.progress",
    "tilewright.transforms",
    "torch",
    "unicodedata",
    "unittest",
)
"""Modules that `import tilewright` leaves alone; those of the standard library unless some NumPy imports them."""


def start(script: Path, cache: Path) -> dict[str, Any]:
    """One run of PROGRAM in a process of its own."""
    environment = {**os.environ, "TRITON_CACHE_DIR": os.fspath(cache)}
    run = subprocess.run([sys.executable, script], env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Three starts with everything in the cache."""
    folder = tmp_path_factory.mktemp("start")
    script = folder / "program.py"
    script.write_text(PROGRAM)
    cache = cache_without_kernels(folder / "cache")
    cold, *warm = (start(script, cache) for _ in range(4))
    assert "llvmlite" in cold["launched"], "the first process compiles"
    others = ("tilewright.frontends.from_bytecode", "tilewright.frontends.from_trace")
    assert not set(others) & set(cold["launched"]), "it reads the source, and needs no other front end"
    return warm


@pytest.mark.spared
def test_import_leaves_the_compiler_alone(starts: list[dict[str, Any]]) -> None:
    assert not set(NOT_IMPORTED) & (set(starts[-1]["imported"]) - set(starts[-1]["numpy"]))


def test_names_that_come_late_are_names_of_the_package() -> None:
    program = """
import sys, tilewright
assert "tilewright.runtime.tuning.autotuner" not in sys.modules and "autotune" not in vars(tilewright)
assert set(tilewright.__all__) <= set(dir(tilewright))
from tilewright import *
from tilewright import Config
missing = [name for name in tilewright.__all__ if name not in globals()]
assert not missing and autotune is tilewright.autotune and Config is tilewright.Config
assert not hasattr(tilewright, "no_such_name")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.spared
@pytest.mark.parametrize("state", ["enable", "disable"])
def test_import_leaves_the_collector_as_it_was(state: str) -> None:
    program = f"import gc; gc.{state}(); before = gc.isenabled(); import tilewright; assert gc.isenabled() is before"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_is_imported_is_old_at_once() -> None:
    """Nothing looks at all these objects; those of the program are still garbage when they are."""
    program = """
import gc, weakref
class Node: pass
node = Node()
node.self, gone = node, weakref.ref(node)
del node
import tilewright
young = len(gc.get_objects(generation=0))
assert young < 2000 < len(gc.get_objects(generation=2)), young
assert gc.get_freeze_count() == 0
gc.collect()
assert gone() is None, "a circle that was made before is found"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.spared
def test_what_a_program_has_frozen_stays_so() -> None:
    program = """
import gc
gc.freeze()
frozen = gc.get_freeze_count()
import tilewright
assert 0.9 * frozen < gc.get_freeze_count() <= frozen, "but for those that nobody uses any more"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.spared
def test_launch_from_the_cache_imports_nothing(starts: list[dict[str, Any]]) -> None:
    assert starts[-1]["launched"] == []


def test_import_is_quick(starts: list[dict[str, Any]]) -> None:
    assert min(found["import"] for found in starts) < 0.4


@pytest.mark.spared
def test_a_process_is_quick(starts: list[dict[str, Any]]) -> None:
    """Seconds from the interpreter's start to the result, NumPy's import included."""
    assert min(found["whole"] for found in starts) < 1.2


def test_first_launch_from_the_cache_is_quick(starts: list[dict[str, Any]]) -> None:
    assert min(found["launch"] for found in starts) < 0.025


def test_testing_needs_no_import_of_its_own() -> None:
    program = "import tilewright as tw; assert 'testing' in dir(tw); print(tw.testing.do_bench.__name__)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "do_bench\n"
