"""Programs written for older Tritons, and what a program may ask before anything runs on a device."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.compat.test_triton_package import asked

import tilewright as tw
import tilewright.language as tl
from tilewright.compat import deprecated, profiler
from tilewright.compat.deprecated import (
    allclose,
    assert_almost_equal,
    create_1d_tma_descriptor,
    create_2d_tma_descriptor,
)
from tilewright.compat.driver import DriverConfig
from tilewright.compat.signatures import (
    BITWIDTH_DICT,
    apply_with_path,
    find_paths_if,
    get_iterable_path,
    set_iterable_path,
)
from tilewright.compat.tensor_descriptor import validate_block_shape
from tilewright.support import knobs

DECORATED = """
import triton.language as tl
from triton.language.math import tanh, pow
from triton.language.libdevice import rsqrt
from triton.language.extra.cuda.libdevice import fast_expf
from triton.language.extra.cuda import gdc_wait, libdevice
from triton.runtime.cache import FileCacheManager, default_cache_dir, default_dump_dir, default_override_dir

@triton.autotune([triton.Config({"BLOCK": 128}, num_warps=8, num_consumer_groups=2)], key=["n", "no_parameter"])
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x, tl.math.tanh(n))

@triton.jit
def helper(x):
    return tl.libdevice.pow(x, 2.0)

from tilewright.runtime.drivers.cpu import process
print(json.dumps(["torch" in sys.modules, process._set_up.cache_info().currsize, triton.runtime.driver._active]))
"""


@pytest.mark.spared
def test_nothing_asks_for_a_driver_at_import_or_decoration(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("import json, sys, triton\n" + DECORATED)

    quiet = "import warnings\nwarnings.simplefilter('ignore')"
    answer = asked(f"sys.path.insert(0, {str(tmp_path)!r})\n{quiet}\nimport kernels")

    assert answer == [False, 0, None]


def test_folders_of_the_cache_had_functions(tmp_path: Path) -> None:
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        with pytest.warns(UserWarning, match=r"write triton\.knobs\.cache\.dir"):
            assert deprecated.default_cache_dir() == str(tmp_path)
        with pytest.warns(UserWarning, match="dump_dir"):
            assert deprecated.default_dump_dir() == knobs.cache.dump_dir
        with pytest.warns(UserWarning, match="override_dir"):
            assert deprecated.default_override_dir() == knobs.cache.override_dir


@tw.jit
def moved(source, target, N: tl.constexpr):
    row = tl.program_id(0) * 4
    block = tl._experimental_descriptor_load(source, [row, 0], [4, N], tl.float16)
    tl._experimental_descriptor_store(target, block * 2, [row, 0])


@tw.jit
def moved_along(source, out, N: tl.constexpr):
    block = tl._experimental_descriptor_load(source, [N], [N], tl.float32)
    tl.store(out + tl.arange(0, N), block)


@pytest.mark.filterwarnings("ignore:.*is deprecated")
def test_descriptors_that_know_an_address_and_a_width() -> None:
    x = np.arange(10 * 16, dtype=np.float16).reshape(10, 16)
    out = np.zeros_like(x)

    source, target = (create_2d_tma_descriptor(array.ctypes.data, 10, 16, 4, 16, 2) for array in (x, out))
    moved[(3,)](source, target, N=16)

    np.testing.assert_array_equal(out, x * 2)
    numbers, part = np.arange(32, dtype=np.float32), np.zeros(8, np.float32)
    moved_along[(1,)](create_1d_tma_descriptor(numbers.ctypes.data, 32, 8, 4), part, N=8)
    np.testing.assert_array_equal(part, numbers[8:16])


def test_makers_of_old_descriptors_warn() -> None:
    with pytest.warns(UserWarning, match="write triton.tools.tensor_descriptor.TensorDescriptor"):
        assert create_1d_tma_descriptor(64, 32, 8, 4).shape == [32]


@pytest.mark.filterwarnings("ignore:.*is deprecated")
def test_comparisons_had_other_names() -> None:
    assert allclose(np.ones(4), np.full(4, 1.005))
    assert not allclose(np.ones(4), np.full(4, 1.05))
    assert allclose(np.zeros(4), np.zeros(4))
    assert_almost_equal(1.0, 1.014)
    with pytest.raises(AssertionError, match="here"):
        assert_almost_equal(1.0, 1.016, err_msg="here")


def test_drivers_had_their_figures_elsewhere() -> None:
    driver = DriverConfig()
    with pytest.warns(UserWarning, match=r"write triton\.runtime\.driver\.active\.utils"):
        assert driver.utils is driver.active.utils


def test_profiles_are_begun_and_stay_empty() -> None:
    with pytest.warns(UserWarning, match="records nothing on a CPU"):
        session = profiler.start("all", hook="triton")
    ran = []

    @profiler.profile(name="one")
    @profiler.scope("two")
    def work() -> None:
        ran.append(1)

    profiler.deactivate(session)
    profiler.activate(session)
    with profiler.scope("three", {"flops": 1}), profiler.state("four"), profiler.cpu_timed_scope("five"):
        profiler.exit_scope("six", metrics={}) if profiler.enter_scope("six") else work()
    profiler.finalize()

    assert ran == [1]


@tw.jit
def marked(x_ptr, turns, MARK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    if MARK:
        profiler.mark("loop")
        event = profiler.allocate_event("steps")
        profiler.mark(event)
    for _ in range(turns):
        if MARK:
            with profiler.KernelScope("step"):
                x += 1
        else:
            x += 1
    if MARK:
        profiler.mark(event)
        profiler.mark("loop")
    tl.store(x_ptr + tl.arange(0, 8), x)


def test_marks_of_a_profiler_inside_kernels_are_no_code() -> None:
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with_marks, without = marked[(1,)](x, 3, True), marked[(1,)](y, 3, False)

    assert x.tolist() == y.tolist() == [3.0] * 8
    assert [op.split("loc(")[0] for op in with_marks.asm["ttir"].splitlines()] == [
        op.split("loc(")[0] for op in without.asm["ttir"].splitlines()
    ]


PROFILED = """
import json
import triton.profiler as proton
import triton.profiler.language as marks
from triton.profiler.mode import Default
marks.enable_semantic("triton")
print(json.dumps([proton.mode.Default is Default, marks.scope("all").name, Default(optimizations="clock32").options]))
"""


def test_modules_of_the_profiler_have_tritons_names() -> None:
    assert asked(PROFILED) == [True, "all", {"optimizations": "clock32"}]


def test_places_in_nested_tuples() -> None:
    nested = [1, (2, [3])]
    seen = []
    apply_with_path(nested, lambda path, value: seen.append((path, value)))

    assert find_paths_if(nested, lambda path, value: value > 1) == [(1, 0), (1, 1, 0)]
    assert find_paths_if(7, lambda path, value: True) == [()]
    assert get_iterable_path(nested, (1, 1, 0)) == 3
    assert seen == [((0,), 1), ((1, 0), 2), ((1, 1, 0), 3)]
    set_iterable_path(nested, (1, 1, 0), 4)
    assert nested == [1, (2, [4])]


def test_shapes_of_blocks() -> None:
    assert validate_block_shape([16, 32]) == 512
    assert validate_block_shape([]) == 1
    for shape in ([3], [0], [2**21]):
        with pytest.raises(ValueError, match=r"power of 2|at most"):
            validate_block_shape(shape)
    with pytest.raises(TypeError, match="no whole number"):
        validate_block_shape([1.5])
    assert (BITWIDTH_DICT["float8_e5m2"], BITWIDTH_DICT["bool"], BITWIDTH_DICT["double"]) == (8, 1, 64)


def test_warnings_name_the_line_of_the_program() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        deprecated.default_cache_dir()

    assert [warning.filename for warning in caught] == [__file__]
