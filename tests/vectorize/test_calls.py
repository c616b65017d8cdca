"""Function objects: defaults, keywords, names, life, caches, new processes."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import pickle
import re
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from expressions import function

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels
from tilewright.backends.llvm.machine import host_identity
from tilewright.vectorizing import process
from tilewright.vectorizing.native.calls import calls_text
from tilewright.vectorizing.native.structs import LARGE, RECORD


@tw.vectorize
def scaled(x, by=2, plus=0.5):
    """Doc."""
    return x * by + plus


def test_defaults_and_keywords() -> None:
    x = np.arange(3.0)
    for _ in range(2):
        assert scaled(3) == 6.5
        assert scaled(3, 4) == 12.5
        assert scaled(3, plus=1) == 7
        assert scaled(by=3, x=1) == 3.5
        assert scaled(x).tolist() == [0.5, 2.5, 4.5]
        assert scaled(x, plus=x).tolist() == [0.0, 3.0, 6.0]
    with pytest.raises(TypeError):
        scaled(1, too=2)


STEPS = np.arange(3.0)


@tw.vectorize
def shifted(x, scale=2, by=STEPS):  # arrays are no constants of the code
    return x * scale + by


def test_defaults_may_be_arrays() -> None:
    assert shifted(1).tolist() == [2, 3, 4]
    assert shifted(np.ones(3), 10).tolist() == [10, 11, 12]


def test_names_of_arguments_are_read_by_pythons_functions() -> None:
    """Tuples begin with other fields in other Pythons."""
    loads = re.findall(r"(\w+) = getelementptr i8, ptr %p\.names\b", calls_text("x86-64"))
    assert loads == []
    assert calls_text("x86-64").count("%p.names") > 5


def test_numpys_functions_are_those_that_are_known() -> None:
    found = process.numpy_functions()
    assert process._makes_arrays(found[process.NUMPY_EMPTY])
    assert process._sets_handlers(found)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("NUMPY_ARRAY_TYPE", process.NUMPY_EMPTY, "does not begin"),
        ("NUMPY_MAJORS", (3,), "unknown"),
        ("NUMPY_MIN_FEATURES", 1 << 20, "unknown"),
        ("_makes_arrays", lambda address: False, "do not do"),
        ("_sets_handlers", lambda addresses: False, "do not do"),
    ],
)
def test_another_table_of_numpys_functions_is_not_used(
    name: str, value: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, name, value)
    with pytest.raises(ValueError, match=message):
        process.numpy_functions()
    with pytest.warns(RuntimeWarning, match="through Python"):
        assert process.native_side(tw.vectorize(function("a + b")).__class__.__mro__[1], scaled) is None


def test_names() -> None:
    assert (scaled.__name__, scaled.__doc__, scaled.nin, scaled.nout) == ("scaled", "Doc.", 3, 1)
    assert repr(scaled) == "<vectorized scaled(x, by=2, plus=0.5)>"
    assert str(inspect.signature(scaled)) == "(x, by=2, plus=0.5)"
    assert pickle.loads(pickle.dumps(scaled)) is scaled


@pytest.mark.usefixtures("small_heap")
@pytest.mark.spared
def test_functions_and_results_are_freed() -> None:
    made = tw.vectorize(function("a + b"))
    x = np.ones(100_000)
    made(x, x)
    result, fresh = made(x, x), np.ones(1)
    assert sys.getrefcount(result) == sys.getrefcount(fresh)
    before = sys.getrefcount(np.dtype(np.float64))
    for _ in range(50):
        made(x, x)
        made(1, 2)
    assert sys.getrefcount(np.dtype(np.float64)) - before < 10
    alive = weakref.ref(made)
    del made
    gc.collect()
    assert alive() is None


def test_kernels_may_call_vectorized_functions() -> None:
    @tw.jit
    def kernel(x_ptr, out_ptr, N: tl.constexpr):
        offsets = tl.arange(0, N)
        tl.store(out_ptr + offsets, scaled(tl.load(x_ptr + offsets), 3, 1.0))

    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel[(1,)](x, out, N=8)
    np.testing.assert_array_equal(out, x * 3 + 1)


def test_another_source_is_compiled_anew() -> None:
    changing = tw.vectorize(scaled.fn)
    x = np.arange(3.0)
    assert (changing(1), changing(x)[1]) == (2.5, 2.5)
    changing._unsafe_update_src(changing.src.replace("x * by", "x - by"))
    assert (changing(1), changing(x)[1]) == (-0.5, -0.5)


PROGRAM = """
import sys
import numpy as np
import tilewright as tw

@tw.vectorize
def f(a, b):
    return np.exp(a) + b

print(f(0, 1), f(np.zeros(3), 1).tolist(), "llvmlite" in sys.modules, "tilewright.vectorizing.program" in sys.modules)
"""


@pytest.mark.slow
def test_a_new_process_takes_code_from_the_disk_without_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache_without_kernels(tmp_path / "cache"))}
    said = [
        subprocess.run(
            [sys.executable, str(path)], env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for _ in range(2)
    ]
    assert said == ["2.0 [2.0, 2.0, 2.0] True True\n", "2.0 [2.0, 2.0, 2.0] False False\n"]


@pytest.mark.slow
def test_children_of_a_fork() -> None:
    x = np.ones(300_000)
    scaled(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if (scaled(x) == 2.5).all() and scaled(1) == 2.5 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not host_identity().startswith("x86"), reason="asks an x86 processor")
def test_large_results_are_written_past_the_caches_by_code_of_their_own() -> None:
    added = tw.vectorize(function("a + b"))
    large = np.ones(LARGE // 4, np.float32)
    for array, has_own in ((large[:-1], False), (large, True)):
        assert added(array, array)[-1] == 2
        (record,) = added._records
        entry, stream = (RECORD.read(ctypes.addressof(record), name) for name in ("entry", "stream"))
        assert (stream not in (0, entry)) is has_own
