"""Kernels that check themselves: what they report, and that right kernels report nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sanitized_kernels as kernels

import tilewright as tw
import tilewright.dialects
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.runtime import sanitizer, unwritten

Golden = Callable[[str, str], None]
ALL = "bounds,races,uninit"
FILE = str(Path(kernels.__file__))


def found(kernel: Any, grid: tuple[int, ...], *args: Any, sanitize: str = ALL, **keywords: Any) -> tw.SanitizerError:
    """The error that a launch on one thread raises."""
    with pytest.raises(tw.SanitizerError) as caught:
        kernel[grid](*args, sanitize=sanitize, num_threads=1, **keywords)
    return caught.value


def text_of(error: tw.SanitizerError) -> str:
    return str(error).replace(FILE, "kernels.py") + "\n"


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# ---------------------------------------------------------------------------------------------------------- bounds


def test_a_right_kernel_does_the_same(to_array: Any) -> None:
    x, out = floats(1000), np.zeros(1000, np.float32)
    kernels.copy_kernel[(8,)](to_array(x), to_array(out), 0, 1000, BLOCK=128, sanitize=ALL)
    assert np.array_equal(out, x)


def test_one_element_too_many(to_array: Any, golden: Golden) -> None:
    x, out = floats(1001), np.full(1000 + 8, -1, np.float32)
    error = found(kernels.copy_kernel, (8,), to_array(x), to_array(out[:1000]), 0, 1001, BLOCK=128)
    (finding,) = error.findings
    assert (finding.check, finding.access.kind, finding.access.program) == ("bounds", "store", (7, 0, 0))
    assert (finding.lane, finding.argument, finding.element, finding.times) == ((104,), "out_ptr", (1000,), 1)
    assert (out[1000:] == -1).all(), "a bad store is left out"
    assert np.array_equal(out[:896], x[:896])
    golden(text_of(error), "sanitizer/one_too_many.err")


def test_negative_index(golden: Golden) -> None:
    error = found(kernels.copy_kernel, (2,), floats(256), floats(256), -3, 200, BLOCK=128)
    assert [finding.element for finding in error.findings] == [(-3,), (-3,)]
    golden(text_of(error), "sanitizer/negative.err")


def test_remainders_are_as_negative_as_they_may_be() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(8, np.float32)
    kernels.remainder_kernel[(1,)](x, out, 0, START=7, BLOCK=8, sanitize="bounds")
    np.testing.assert_array_equal(out, x[7::-1])
    error = found(kernels.remainder_kernel, (1,), x, out, 0, START=6, BLOCK=8, sanitize="bounds")
    assert "out-of-bounds load" in str(error)


def test_lanes_that_are_masked_off_may_point_anywhere() -> None:
    x, out = floats(5), np.zeros(5, np.float32)
    kernels.copy_kernel[(1,)](x, out, 0, 5, BLOCK=1024, sanitize=ALL)
    assert np.array_equal(out, x)


def test_scalar_access(golden: Golden) -> None:
    x, out = floats(1), np.zeros(4, np.float32)
    kernels.scalar_kernel[(1,)](x, out, 3, sanitize=ALL)
    assert out[3] == 1
    golden(text_of(found(kernels.scalar_kernel, (1,), x, out, 4)), "sanitizer/scalar.err")


def test_views_with_strides(to_array: Any, golden: Golden) -> None:
    x, out = floats(12, 20)[2:10, ::2], np.zeros((8, 32), np.float32)[:, 3:13]
    steps = [s // 4 for s in (x.strides[0], out.strides[0], x.strides[1], out.strides[1])]
    kernels.copy_2d_kernel[(1,)](to_array(x), to_array(out), 8, 10, *steps, BLOCK=16, sanitize=ALL)
    assert np.array_equal(x, out)
    error = found(kernels.copy_2d_kernel, (1,), to_array(x), to_array(out), 9, 9, *steps, BLOCK=16)
    assert [finding.element for finding in error.findings] == [(8, 0), (8, 0)]
    assert {finding.lane for finding in error.findings} == {(8, 0)}
    golden(text_of(error), "sanitizer/strided.err")


@pytest.mark.spared
def test_views_that_run_backwards() -> None:
    x, out = floats(10)[::-1], np.zeros((1, 10), np.float32)
    kernels.copy_2d_kernel[(1,)](x, out, 1, 10, 0, 0, -1, 1, BLOCK=16, sanitize=ALL)
    assert np.array_equal(out[0], x)
    error = found(kernels.copy_2d_kernel, (1,), x, out, 1, 11, 0, 0, -1, 1, BLOCK=16)
    assert (error.findings[0].argument, error.findings[0].element) == ("x_ptr", (10,))


@pytest.mark.spared
def test_block_pointers(golden: Golden) -> None:
    x, out = floats(30, 40), np.zeros((30, 40), np.float32)
    kernels.block_pointer_kernel[(2,)](x, out, 30, 40, BLOCK=16, CHECK=(0, 1), sanitize=ALL)
    assert np.array_equal(out, x)
    error = found(kernels.block_pointer_kernel, (2,), x, out, 30, 40, BLOCK=16, CHECK=(1,), sanitize="bounds")
    assert error.findings[0].element == (30, 0)
    golden(text_of(error), "sanitizer/block_pointer.err")


@pytest.mark.spared
def test_gathers(golden: Golden) -> None:
    x, out, indices = floats(100), np.zeros(8, np.float32), np.array([5, 99, 0, 7, 3, 2, 1, 98], np.int32)
    kernels.gather_kernel[(1,)](x, indices, out, 8, BLOCK=16, sanitize=ALL)
    assert np.array_equal(out, x[indices])
    indices[6] = 100
    error = found(kernels.gather_kernel, (1,), x, indices, out, 8, BLOCK=16)
    assert (error.findings[0].lane, error.findings[0].element) == ((6,), (100,))
    golden(text_of(error), "sanitizer/gather.err")


def test_atomics_out_of_bounds(golden: Golden) -> None:
    values, counts = np.arange(64, dtype=np.int32), np.zeros(65, np.int32)
    error = found(kernels.count_kernel, (1,), values, counts[:60], BLOCK=64)
    assert not counts.any()
    error2 = found(kernels.claim_kernel, (1,), counts[:60], 64)
    assert not counts.any()
    golden(text_of(error) + text_of(error2), "sanitizer/atomics.err")


@pytest.mark.spared
def test_pointers_to_one_of_two_arguments() -> None:
    a, b, out = floats(10), floats(20), np.zeros(20, np.float32)
    kernels.choose_kernel[(1,)](a, b, out, 0, 20, BLOCK=32, sanitize=ALL)
    assert np.array_equal(out, b)
    assert found(kernels.choose_kernel, (1,), a, b, out, 1, 20, BLOCK=32).findings[0].argument in ("a_ptr", "b_ptr")


def test_pointers_from_numbers() -> None:
    out = floats(3)
    kernels.from_address_kernel[(1,)](out.ctypes.data + 8, out, sanitize=ALL)
    assert out[0] == 2
    elsewhere = floats(3)
    assert found(kernels.from_address_kernel, (1,), elsewhere.ctypes.data, out).findings[0].access.kind == "load"


def test_memory_of_no_argument(golden: Golden) -> None:
    x = np.zeros(1, np.int32)
    golden(text_of(found(kernels.poke_kernel, (1,), x.ctypes.data)), "sanitizer/no_argument.err")
    assert x[0] == 0, "a bad store is left out"
    kernels.poke_kernel[(1,)](x.ctypes.data, sanitize="races,uninit")
    assert x[0] == 7, "nobody asked for bounds"


@pytest.mark.spared
def test_operands_of_dot(golden: Golden) -> None:
    a, b, out = floats(32, 64) / 100, floats(64, 32) / 100, np.zeros((32, 32), np.float32)
    kernels.dot_kernel[(1,)](a, b, out, 64, BLOCK=32, sanitize=ALL)
    assert np.allclose(out, a @ b, rtol=1e-3)
    error = found(kernels.dot_kernel, (1,), a, b[:63], out, 64, BLOCK=32)
    golden(text_of(error), "sanitizer/dot.err")


def test_calls_and_assertions(golden: Golden) -> None:
    x = np.zeros(4, np.int32)
    kernels.calls_kernel[(1,)](x, 2, sanitize=ALL, debug=True)
    assert x[2] == 1
    golden(text_of(found(kernels.calls_kernel, (1,), x, 4, debug=True)), "sanitizer/calls.err")
    golden(text_of(found(kernels.calls_kernel, (2,), x, 1)), "sanitizer/calls_race.err")


@pytest.mark.spared
def test_pointers_that_loops_exchange() -> None:
    x, y = np.zeros(10, np.float32), np.zeros(10, np.float32)
    kernels.swapped_pointers_kernel[(1,)](x, y, 10, 5, BLOCK=16, sanitize=ALL)
    assert (y == 5).all()
    error = found(kernels.swapped_pointers_kernel, (1,), x[:8], y, 10, 3, BLOCK=16)
    assert [finding.argument for finding in error.findings] == ["x_ptr", "x_ptr"]
    assert {
        finding.check for finding in found(kernels.swapped_pointers_kernel, (2,), x, y, 9, 2, BLOCK=16).findings
    } == {"races"}


@pytest.mark.spared
def test_tensor_descriptors() -> None:
    x, out = floats(30, 40), np.zeros((30, 40), np.float32)
    kernels.descriptor_kernel[(2,)](x, out, 30, 40, BLOCK=16, sanitize=ALL)
    assert np.array_equal(out, 2 * x)
    assert found(kernels.descriptor_kernel, (2,), x[:29], out, 30, 40, BLOCK=16).findings[0].element == (29, 0)


def test_accesses_of_another_size() -> None:
    x, out = floats(64), np.zeros(64, np.float32)
    kernels.bytes_kernel[(4,)](x, out, 256, BLOCK=64, sanitize=ALL)
    assert np.array_equal(x, out)
    finding = found(kernels.bytes_kernel, (5,), x, out, 257, BLOCK=64).findings[0]
    assert (finding.element, finding.access.program) == ((64,), (4, 0, 0))


def test_empty_arrays_have_no_elements() -> None:
    x, out = np.zeros(0, np.float32), np.zeros(8, np.float32)
    assert found(kernels.scalar_kernel, (1,), x, out, 0).findings[0].argument == "x_ptr"


# ----------------------------------------------------------------------------------------------------------- races


@pytest.mark.parametrize("threads", [1, 2])
def test_all_programs_write_one_element(threads: int, golden: Golden) -> None:
    with pytest.raises(tw.SanitizerError) as caught:
        kernels.all_to_one_kernel[(50,)](np.zeros(1, np.int32), sanitize="races", num_threads=threads)
    (finding,) = caught.value.findings
    assert finding.other is not None
    assert finding.other.kind == "store"
    assert finding.other.program != finding.access.program
    if threads == 1:
        assert finding.times == 49
        golden(text_of(caught.value), "sanitizer/all_to_one.err")


def test_read_and_write_of_neighbours(golden: Golden) -> None:
    error = found(kernels.neighbours_kernel, (4,), floats(512), 512, BLOCK=128)
    assert [finding.access.kind for finding in error.findings] == ["store"]
    golden(text_of(error), "sanitizer/neighbours.err")


def test_a_program_may_read_what_it_wrote() -> None:
    x = floats(128)
    kernels.neighbours_kernel[(1,)](x, 128, BLOCK=128, sanitize=ALL)


def test_several_readers_and_a_writer() -> None:
    (finding,) = found(kernels.read_then_write_kernel, (4,), np.zeros(8, np.int32)).findings
    assert finding.access.program == (3, 0, 0)
    assert finding.other is not None
    assert (finding.other.kind, finding.other.program) == ("load", (0, 0, 0))


def test_arguments_that_share_memory(golden: Golden) -> None:
    x = floats(300)
    error = found(kernels.copy_kernel, (2,), x[:256], x[20:276], 0, 256, BLOCK=128)
    golden(text_of(error), "sanitizer/shared_memory.err")
    kernels.copy_kernel[(2,)](x[:256], x[:256], 0, 256, BLOCK=128, sanitize=ALL)


def test_atomics_do_not_race() -> None:
    values, counts = np.arange(1024, dtype=np.int32) % 16, np.zeros(16, np.int32)
    for threads in (1, 2):
        kernels.count_kernel[(16,)](values, counts, BLOCK=64, sanitize=ALL, num_threads=threads)
    assert (counts == 128).all()


def test_atomic_and_plain_access_race(golden: Golden) -> None:
    error = found(kernels.atomic_and_plain_kernel, (3,), np.zeros(1, np.int32), np.zeros(3, np.int32))
    golden(text_of(error), "sanitizer/atomic_and_plain.err")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lock_orders_programs(threads: int) -> None:
    total = np.zeros(1, np.int32)
    kernels.locked_kernel[(200,)](
        total, np.zeros(1, np.int32), LOCKS=1, RELEASE_LATE=True, sanitize=ALL, num_threads=threads
    )
    assert total[0] == 200


@pytest.mark.spared
def test_locks_that_do_not_protect() -> None:
    """Two locks for one element, and a lock that is released too early."""
    for locks, late in ((2, True), (1, False)):
        error = found(
            kernels.locked_kernel, (4,), np.zeros(1, np.int32), np.zeros(2, np.int32), LOCKS=locks, RELEASE_LATE=late
        )
        assert {finding.check for finding in error.findings} == {"races"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.slow
def test_the_last_program_may_read_what_all_wrote(threads: int) -> None:
    x, sums, out, done = floats(64, 32), np.zeros(64, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    kernels.last_one_adds_kernel[(64,)](x, sums, out, done, BLOCK=32, PROGRAMS=64, sanitize=ALL, num_threads=threads)
    assert np.isclose(out[0], x.sum())


def test_launches_do_not_race_with_each_other() -> None:
    x, out = floats(256), np.zeros(256, np.float32)
    for first in (0, 1, 0):
        kernels.copy_kernel[(2,)](x, out, first, 256, BLOCK=128, sanitize="races")


def test_stamps_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizer, "LARGEST", 5000)
    x, out = floats(256), np.zeros(256, np.float32)
    for _ in range(500):
        kernels.copy_kernel[(2,)](x, out, 0, 256, BLOCK=128, sanitize="races")
    assert found(kernels.all_to_one_kernel, (50,), np.zeros(1, np.int32)).findings
    with pytest.raises(ValueError, match="too large"):
        kernels.copy_kernel[(4000,)](x, out, 0, 256, BLOCK=128, sanitize="races")


def test_shadows_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizer, "KEPT_BYTES", 5000)
    for count in (100, 1000, 200, 500, 300):
        kernels.copy_kernel[(8,)](floats(count), np.zeros(count, np.float32), 0, count, BLOCK=128, sanitize="races")
        assert 0 < sum(plane.nbytes for plane in sanitizer._pool.free) <= 5000


# ---------------------------------------------------------------------------------------------------------- uninit


def test_load_of_what_nobody_stored(to_array: Any, golden: Golden) -> None:
    x, middle, out = floats(256), tw.uninitialized(np.empty(256, np.float32)), np.zeros(256, np.float32)
    kernels.copy_kernel[(1,)](x, middle, 0, 128, BLOCK=128, sanitize=ALL)
    kernels.copy_kernel[(1,)](middle, out, 0, 128, BLOCK=128, sanitize=ALL)
    error = found(kernels.copy_kernel, (2,), middle, out, 0, 250, BLOCK=128)
    (finding,) = error.findings
    assert (finding.check, finding.element, finding.access.program) == ("uninit", (128,), (1, 0, 0))
    golden(text_of(error), "sanitizer/unwritten.err")
    kernels.copy_kernel[(2,)](tw.initialized(middle), out, 0, 250, BLOCK=128, sanitize=ALL)


@pytest.mark.needs_torch
def test_parts_of_marked_arrays() -> None:
    import torch

    middle, x = tw.uninitialized(torch.empty(256)), torch.zeros(256)
    kernels.copy_kernel[(1,)](x, middle[64:], 0, 64, BLOCK=64, sanitize=ALL)
    kernels.copy_kernel[(1,)](middle[64:128], x, 0, 64, BLOCK=64, sanitize=ALL)
    assert found(kernels.copy_kernel, (1,), middle[60:], x, 0, 64, BLOCK=64).findings[0].element == (0,)


def test_views_share_the_mark_of_their_array() -> None:
    x, out = tw.uninitialized(np.zeros(64, np.float32)), np.zeros(64, np.float32)
    kernels.copy_kernel[(1,)](out, x, 0, 64, BLOCK=64, sanitize=ALL)
    tw.uninitialized(x[8:16])
    kernels.copy_kernel[(1,)](x, out, 0, 8, BLOCK=64, sanitize=ALL)
    assert found(kernels.copy_kernel, (1,), x, out, 0, 64, BLOCK=64).findings[0].element == (8,)
    tw.initialized(x[:32])
    kernels.copy_kernel[(1,)](x, out, 0, 64, BLOCK=64, sanitize=ALL)


def test_atomics_read() -> None:
    counts = tw.uninitialized(np.zeros(4, np.int32))
    (finding,) = found(kernels.count_kernel, (1,), np.full(1, 2, np.int32), counts, BLOCK=1).findings
    assert (finding.check, finding.access.kind, finding.element) == ("uninit", "atomic", (2,))


def test_marks_end_with_their_arrays() -> None:
    before = len(unwritten._marks)
    array = tw.uninitialized(np.empty(100, np.float32))
    assert len(unwritten._marks) == before + 1
    del array
    assert len(unwritten._marks) == before
    with pytest.raises(tw.ArgumentError, match="a float is no array"):
        tw.uninitialized(1.0)


# --------------------------------------------------------------------------------------------------------- choosing


def test_only_what_was_asked_for_is_checked() -> None:
    kernels.all_to_one_kernel[(5,)](np.zeros(1, np.int32), sanitize="bounds,uninit")
    middle = tw.uninitialized(np.zeros(128, np.float32))
    kernels.copy_kernel[(1,)](middle, floats(128), 0, 128, BLOCK=128, sanitize=("bounds", "races"))
    with pytest.raises(ValueError, match="sanitize knows bounds, races, uninit; got 'bound'"):
        kernels.all_to_one_kernel[(5,)](np.zeros(1, np.int32), sanitize="bound")


def test_the_decorator_takes_it_too() -> None:
    kernel = tw.jit(sanitize="races")(kernels.all_to_one_kernel.fn)
    with pytest.raises(tw.SanitizerError):
        kernel[(2,)](np.zeros(1, np.int32))
    kernel[(2,)](np.zeros(1, np.int32), sanitize="")


def test_every_launch_is_checked() -> None:
    out = np.zeros(3, np.int32)
    for _ in range(3):
        kernels.all_to_one_kernel[(1,)](out, sanitize="races")
        assert found(kernels.all_to_one_kernel, (2,), out, sanitize="races").findings


def test_kernels_from_the_disk_cache_report_the_same() -> None:
    x = floats(1)
    fresh = [tw.jit(kernels.scalar_kernel.fn) for _ in range(2)]
    compiled, loaded = (text_of(found(kernel, (1,), x, x, 7)) for kernel in fresh)
    assert compiled == loaded
    first, second = (next(iter(kernel._kernels.values())) for kernel in fresh)
    assert first.hash == second.hash


def test_threads_may_launch_at_the_same_time() -> None:
    def launch(number: int) -> bool:
        x, out = floats(1000) + number, np.zeros(1000, np.float32)
        kernels.copy_kernel[(8,)](x, out, 0, 1000, BLOCK=128, sanitize=ALL)
        with pytest.raises(tw.SanitizerError):
            kernels.copy_kernel[(8,)](x, out, 1, 1001, BLOCK=128, sanitize=ALL)
        return np.array_equal(x, out)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(launch, range(40)))


def test_kernels_in_python_take_the_option() -> None:
    kernel = tw.jit(interpret=True, sanitize=ALL)(kernels.scalar_kernel.fn)
    x, out = floats(1), floats(4)
    kernel[(1,)](x, out, 2, sanitize=ALL)
    assert out[2] == 1
    with pytest.raises(IndexError):
        kernel[(1,)](x, out, 4)


@pytest.mark.slow
def test_the_environment_takes_it_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np, tilewright as tw, sanitized_kernels as kernels\n"
        "kernels.all_to_one_kernel[(9,)](np.zeros(1, np.int32))\n"
    )
    run = subprocess.run(
        [sys.executable, script, Path(__file__).parent],
        env={**os.environ, "TILEWRIGHT_SANITIZE": "races"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert "error: race between programs" in run.stderr


def test_off_is_the_same_code() -> None:
    x, out = floats(128), floats(128)
    plain = kernels.copy_kernel.warmup(x, out, 0, 128, BLOCK=128, grid=(1,))
    off = kernels.copy_kernel.warmup(x, out, 0, 128, BLOCK=128, grid=(1,), sanitize="")
    on = kernels.copy_kernel.warmup(x, out, 0, 128, BLOCK=128, grid=(1,), sanitize="bounds")
    assert plain.hash == off.hash != on.hash
    assert plain.asm["ttir"] == on.asm["ttir"]
    assert plain.asm["asm"] == off.asm["asm"]
    assert "sanitizer" not in plain.asm["ttcir"]
    assert "sanitizer" in on.asm["ttcir"]
    for kernel in (plain, on):
        verify(parse_module(str(kernel.asm["ttcir"])))


def test_the_loops_of_a_sanitised_kernel_may_take_the_place_of_that_stage(tmp_path: Path) -> None:
    x = floats(1)
    text = str(kernels.scalar_kernel.warmup(x, x, 7, grid=(1,), sanitize="bounds").asm["ttcir"])
    (tmp_path / "kernel.ttcir").write_text(text)
    kernel = tw.jit(kernels.scalar_kernel.fn)
    error = found(kernel, (1,), x, x, 7, sanitize="bounds", ir_override=str(tmp_path / "kernel.ttcir"))
    assert error.findings[0].element == (7,)
    assert found(kernel, (1,), x, x, 8, sanitize="", ir_override=str(tmp_path / "kernel.ttcir")).findings
    from_text = tw.compile(str(tmp_path / "kernel.ttcir"))
    with pytest.raises(tw.SanitizerError):
        from_text[(1,)](x, x, 9)
    from_text[(1,)](x, x, 0)
    assert x[0] == 1
