"""Tensor descriptors of the host: tensor maps that kernels for GPUs with a copy engine get by value."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from fake_driver import FakeDriver

import tilewright as tw
import tilewright.language as tl
from tilewright import cuda
from tilewright.backends.base import GPUTarget
from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.runtime.drivers.cuda import device, launching
from tilewright.runtime.tensor_maps import Images, MapFields

launch_from_python = launching.launch


@dataclass
class Descriptor:
    """The attributes that a kernel asks of a descriptor, whatever its class."""

    base: Any
    block_shape: tuple[int, ...]
    padding: str = "zero"
    round_f32_to_tf32: bool = False
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.shape = self.base.shape
        if not self.strides:
            steps = getattr(self.base, "strides", None)
            self.strides = self.base.stride() if steps is None else tuple(s // self.base.itemsize for s in steps)


@tw.jit
def doubled(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([row, column], x.load([row, column]) * 2)


@tw.jit
def padded(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, x.load([0]))


@tw.jit
def product(a, b, out, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    out.store([row, column], total.to(tl.float16))


def test_maps_are_parameters(fake: FakeDriver) -> None:
    content = np.arange(40 * 96, dtype=np.float16).reshape(40, 96)
    x, out = cuda.copy(content), cuda.empty((40, 96), np.float16)
    fake.expect(8, 4, 4, 4, 128, 8, 4, 4, 4, 128, 8, 8)
    for _ in range(2):
        kernel = doubled[(3, 2)](Descriptor(x, (16, 64)), Descriptor(out, (16, 64), "nan"), 16, 64)
    first, second = fake.launches()
    assert first == second
    base, rows, columns, step, map_of_x, *_ = first.parameters
    assert struct.unpack("<Qiii", base + rows + columns + step) == (x.data_ptr(), 40, 96, 96)
    facts = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [16, 64], "fp4_padded": False}
    assert kernel.metadata.tensordesc_meta == [facts, facts]
    element, rank, interleave, swizzle, promotion, fill = struct.unpack_from("<6i", map_of_x)
    assert (element, rank, interleave, swizzle, promotion, fill) == (6, 2, 0, 3, 2, 0)
    assert struct.unpack_from("<Q", map_of_x, 24) == (x.data_ptr(),)
    assert struct.unpack_from("<2i", map_of_x, 32) == (96, 40)
    assert struct.unpack_from("<2i", map_of_x, 52) == (64, 16)
    assert struct.unpack_from("<2i", map_of_x, 72) == (1, 1)
    assert struct.unpack_from("<i", map_of_x, 92) == (192,)
    assert struct.unpack_from("<i", first.parameters[9], 20) == (1,)
    assert kernel.asm["ptx"].count(".param .align 64 .b8") == 2


def test_known_launches_make_their_maps_without_python(fake: FakeDriver) -> None:
    fake.expect(8, 4, 4, 4, 128, 8, 4, 4, 4, 128)
    by_python = 0

    def counted(*arguments: Any) -> None:
        nonlocal by_python
        by_python += 1
        launch_from_python(*arguments)

    def launch(rows: int, columns: int, *, is_known: bool, kind: Any = tuple, **options: Any) -> None:
        x, out = cuda.zeros((rows, columns), np.float16), cuda.zeros((rows, columns), np.float16)
        shape, strides, block = kind((rows, columns)), kind((columns, 1)), kind((16, 64))
        given = [TensorDescriptor(array, shape, strides, block, **options) for array in (x, out)]
        fake.forget()
        before = by_python
        doubled[(3, 2)](*given, 16, 64)
        assert by_python - before == (not is_known)
        doubled[(3, 2)](*(Descriptor(array, (16, 64), **options) for array in (x, out)), 16, 64)
        assert by_python - before == (not is_known) + 1
        first, second = fake.launches()
        assert first == second

    with patch.object(launching, "launch", counted):
        launch(48, 64, is_known=False)
        launch(48, 64, is_known=True)
        launch(32, 192, is_known=True, kind=list)
        launch(32, 192, is_known=False, padding="nan")
        launch(48, 64, is_known=True, padding="nan")
        launch(41, 72, is_known=False)  # other multiples of 16
        launch(43, 88, is_known=True)
        launch(48, 64, is_known=False, round_f32_to_tf32=True)
        launch(48, 64, is_known=True)


def test_maps_that_the_driver_refuses_in_a_known_launch(fake: FakeDriver) -> None:
    x, out = cuda.zeros(64, np.float32), cuda.zeros(64)
    for _ in range(2):
        padded[(1,)](TensorDescriptor.from_tensor(x, [64]), out, 64)
    fake.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(cuda.CudaError, match=r"CUDA_ERROR_INVALID_VALUE \(1\) from cuTensorMapEncodeTiled: invalid"):
        padded[(1,)](TensorDescriptor.from_tensor(x, [64]), out, 64)
    fake.fail("cuTensorMapEncodeTiled", 0)
    unlike = TensorDescriptor.from_tensor(x, [64])
    unlike.shape = ["64"]
    with pytest.raises(TypeError):
        padded[(1,)](unlike, out, 64)


@pytest.mark.needs_torch
def test_known_launches_on_the_cpu_take_descriptors_too() -> None:
    import torch

    x = torch.arange(40 * 96, dtype=torch.float32).reshape(40, 96)
    for rows in (40, 40, 24):
        out = torch.zeros(rows, 96)
        blocks = (TensorDescriptor.from_tensor(array, [16, 32]) for array in (x[:rows], out))
        doubled[(3, 3)](*blocks, 16, 32)
        assert torch.equal(out, 2 * x[:rows])


@pytest.mark.parametrize(
    ("dtype", "number"), [(ml_dtypes.bfloat16, 9), (np.float64, 8), (np.int32, 3), (np.uint32, 2), (np.uint8, 0)]
)
def test_element_types_have_the_numbers_of_the_driver(fake: FakeDriver, dtype: Any, number: int) -> None:
    x, out = cuda.zeros(64, dtype), cuda.zeros(64, dtype)
    padded[(1,)](Descriptor(x, (64,)), out, 64)
    assert [call[2] for call in fake.calls("cuTensorMapEncodeTiled")] == [number]


def test_maps_of_images() -> None:
    """All lengths innermost first; a copy has 32 channels of 64 pixels."""
    calls: list[tuple[Any, ...]] = []
    gpu: Any = SimpleNamespace(driver=SimpleNamespace(call=lambda *arguments: calls.append(arguments)))
    box = Images(lower=(-1, -2), upper=(3, 4), steps=(1, 2, 2, 1))
    fields = MapFields(4096, 7, (32, 10, 8, 2), (128, 1280, 10240), (32, 64), 3, pads_with_nan=False, images=box)
    launching.encode(gpu, fields)
    ((name, place, element, rank, address, shape, strides, lower, upper, channels, pixels, steps, *modes),) = calls
    assert (name, place % 64, rank, address) == ("cuTensorMapEncodeIm2col", 0, 4, 4096)
    assert (list(shape), list(strides)[:3]) == ([32, 10, 8, 2], [128, 1280, 10240])
    assert (list(lower), list(upper), list(steps)) == ([-1, -2], [3, 4], [1, 2, 2, 1])
    assert (element, channels, pixels, modes) == (7, 32, 64, [0, 3, 2, 0])


@pytest.mark.slow
def test_rounding_to_tf32(fake: FakeDriver) -> None:
    x = cuda.zeros(64)
    for rounds in (False, True):
        padded[(1,)](Descriptor(x, (64,), round_f32_to_tf32=rounds), x, 64)
    assert [call[2] for call in fake.calls("cuTensorMapEncodeTiled")] == [7, 11]


def test_what_the_engine_cannot_address(fake: FakeDriver) -> None:

    class Shifted:
        dtype, device, shape = np.dtype(np.float32), "cuda:0", (64,)

        def __init__(self, shift: int) -> None:
            self.shift = shift

        def data_ptr(self) -> int:
            return out.data_ptr() + self.shift

    out = cuda.zeros(1024)
    with pytest.raises(tw.ArgumentError, match=r"'x': the tensor of a descriptor .* a multiple of 16 bytes, not at 0x"):
        padded[(1,)](Descriptor(Shifted(4), (64,), strides=(1,)), out, 64)
    x = cuda.zeros((4, 33))
    with pytest.raises(tw.ArgumentError, match=r"'x': .* strides of multiples of 16 bytes .*; that of axis 0 is 132"):
        doubled[(1, 1)](Descriptor(x, (4, 32)), Descriptor(x, (4, 32)), 4, 32)
    empty = cuda.zeros((0, 32))
    with pytest.raises(tw.ArgumentError, match=r"'x': .* 1 to 2\*\*32 elements along each axis; axis 0 has 0"):
        doubled[(1, 1)](Descriptor(empty, (4, 32)), Descriptor(empty, (4, 32)), 4, 32)
    fake.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(cuda.CudaError, match=r"INVALID_VALUE .* from cuTensorMapEncodeTiled"):
        padded[(1,)](Descriptor(out, (64,)), out, 64)


def test_kernels_are_compiled_for_descriptors_of_a_kind(fake: FakeDriver) -> None:
    kind = "tensordesc<fp32[16, 32]>"
    source = tw.ASTSource(doubled, {"x": kind, "out": kind}, {"ROWS": 16, "COLUMNS": 32})
    assert source.signature["x"] == kind
    kernel = tw.compile(source, target=GPUTarget("cuda", 90, 32))
    one = ("*fp32", "i32", "i32", "i64", kind)
    assert kernel.types == one + one
    x, out = cuda.zeros((16, 32)), cuda.zeros((16, 32))
    kernel[(1, 1)](Descriptor(x, (16, 32)), Descriptor(out, (16, 32)), None, None)
    assert [call[4] for call in fake.calls("cuTensorMapEncodeTiled")] == [x.data_ptr(), out.data_ptr()]
    with pytest.raises(ValueError, match=r"is written as tensordesc<fp16\[64, 64\]>, not tensordesc<fp32>"):
        tw.ASTSource(doubled, {"x": "tensordesc<fp32>", "out": kind}, {"ROWS": 16, "COLUMNS": 32})


def test_kernels_for_cpus_are_compiled_for_descriptors_too() -> None:
    kind = "tensordesc<fp32[16, 32]>"
    kernel = tw.compile(tw.ASTSource(doubled, {"x": kind, "out": kind}, {"ROWS": 16, "COLUMNS": 32}))
    x, out = np.arange(16 * 32, dtype=np.float32).reshape(16, 32), np.zeros((16, 32), np.float32)
    kernel[(1, 1)](Descriptor(x, (16, 32)), Descriptor(out, (16, 32)), None, None)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.slow
def test_without_an_engine_a_descriptor_is_its_parts(fake: FakeDriver) -> None:
    fake.state.device_facts[75] = 8
    with cuda_driver_anew():
        x, out = cuda.zeros(64), cuda.zeros(64)
        kernel = padded[(1,)](Descriptor(x, (64,)), out, 64)
    assert kernel.metadata.target.arch == 80
    assert kernel.types == ("*fp32", "i32", "*fp32")
    assert fake.calls("cuTensorMapEncodeTiled") == []


def cuda_driver_anew() -> Any:
    """Devices whose facts are asked for again."""
    return patch.object(device, "_devices", {})


@pytest.mark.slow
@pytest.mark.parametrize("rows", [16, 40])
def test_simulated(rows: int) -> None:
    x = aligned(np.arange(rows * 96, dtype=np.float32).reshape(rows, 96))
    out = aligned(np.zeros((rows, 96), np.float32))
    with tw.simulate("cuda:90"):
        kernel = doubled[(-(-rows // 16), 3)](Descriptor(x, (16, 32)), Descriptor(out, (16, 32)), 16, 32)
        np.testing.assert_array_equal(out, 2 * x)
        out[:] = 0
        kernel[(-(-rows // 16), 3)](Descriptor(x, (16, 32)), Descriptor(out, (16, 32)), 16, 32)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_simulated_padding(padding: str) -> None:
    out = np.ones(16, np.float32)
    with tw.simulate("cuda:90"):
        padded[(1,)](Descriptor(aligned(np.full(5, 3, np.float32)), (16,), padding), out, 16)
    np.testing.assert_array_equal(out, [3] * 5 + [np.nan if padding == "nan" else 0] * 11)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 3])
def test_simulated_product(stages: int) -> None:
    random = np.random.default_rng(0)
    a, b = (aligned(random.standard_normal(shape).astype(np.float16)) for shape in ((96, 128), (128, 96)))
    out = aligned(np.zeros((96, 96), np.float16))
    with tw.simulate("cuda:90"):
        blocks = Descriptor(a, (64, 32)), Descriptor(b, (32, 64)), Descriptor(out, (64, 64))
        product[(2, 2)](*blocks, 128, 64, 64, 32, num_stages=stages)
    np.testing.assert_allclose(
        out.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), rtol=0.01, atol=0.05
    )


def aligned(content: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same at a multiple of 64."""
    memory = np.zeros(content.nbytes + 64, np.uint8)
    found = memory[-memory.ctypes.data % 64 :][: content.nbytes].view(content.dtype).reshape(content.shape)
    found[...] = content
    return found
