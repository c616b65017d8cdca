"""Copies of images (im2col): their pixels from one on, with some channels of each."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from descriptors import Tensor, aligned, described
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.compat.gluon import TensorDescriptorIm2Col
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import tma as newer_tma
from tilewright.language.gluon.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma
from tilewright.support.diagnostics import Unsupported

RANDOM = np.random.default_rng(21)


def images(array: np.ndarray, block: list[int], layout: gl.NVMMASharedLayout, **options: Any) -> TensorDescriptorIm2Col:
    axes = array.ndim - 2
    corners = {"pixel_box_lower_corner": [0] * axes, "pixel_box_upper_corner": [0] * axes}
    return TensorDescriptorIm2Col.from_tensor(Tensor(array), block, layout, **{**corners, **options})


@gluon.jit
def pixels(source, target, coord, offsets, WAITS: gl.constexpr, MULTICAST: gl.constexpr):
    buffer = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load_im2col(source, coord, offsets, bar, buffer, multicast=MULTICAST)
    if WAITS:
        mbarrier.wait(bar, 0, deps=[buffer])
    tma.async_store(target, [0, 0], buffer)
    tma.store_wait(0)


def walked(x: np.ndarray, coord: list[int], offsets: list[int], block: list[int], **box: Any) -> np.ndarray:
    """The pixels one by one, as PTX ISA has it."""
    axes = x.ndim - 2
    lower, upper = (box.get(f"pixel_box_{side}_corner", [0] * axes) for side in ("lower", "upper"))
    steps = box.get("element_strides", [1] * x.ndim)[1:-1]
    last = [extent - 1 + corner for extent, corner in zip(x.shape[1:-1], upper, strict=True)]
    rows = []
    (image, *pixel, channel), found = coord, np.zeros(block, x.dtype)
    for _ in range(block[0]):
        rows.append((image, *(place + more for place, more in zip(pixel, offsets, strict=True))))
        for axis in reversed(range(axes)):
            pixel[axis] += steps[axis]
            if pixel[axis] <= last[axis]:
                break
            pixel[axis] = lower[axis]
        else:
            image += 1
    for row, place in enumerate(rows):
        if all(0 <= number < extent for number, extent in zip(place, x.shape[:-1], strict=True)):
            part = x[place][channel : channel + block[1]]
            found[row, : len(part)] = part
    return found


def check(shape: tuple[int, ...], coord: list[int], offsets: list[int], block: list[int], **box: Any) -> str:
    """The PTX of a program that has copied the right pixels."""
    x, out = aligned(shape, np.float32), aligned((block[0], block[1]), np.float32)
    x[...] = RANDOM.standard_normal(shape)
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float32)
    source = images(x, block, layout, **box)
    with tilewright.simulate("cuda:90"):
        kernel = pixels[(1,)](
            source, described(out, block, layout), tuple(coord), tuple(offsets), WAITS=True, MULTICAST=False
        )
    np.testing.assert_array_equal(out, walked(x, coord, offsets, block, **box))
    assert "im2col" in kernel.asm["ptx"]
    return assembled_text(kernel, 90)


def test_pixels_of_one_image() -> None:
    text = check((1, 1, 64, 32), [0, 0, 0, 0], [0, 0], [64, 32])
    assert "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes" in text


STARTS = [([0, 0], [0, 0]), ([-1, -1], [0, 0]), ([-1, 2], [2, 1]), ([3, 4], [1, 0])]


@pytest.mark.parametrize(("start", "offsets"), STARTS)
def test_pixels_of_a_box_go_on_in_the_next_image(start: list[int], offsets: list[int]) -> None:
    """A box of a pixel more on all sides, minus the two that a filter of 3 by 3 reaches; of 44 channels the last 12."""
    box = {"pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -1]}
    check((3, 5, 6, 44), [0, *start, 32], offsets, [64, 32], **box)


def test_channels_start_at_whole_16_bytes() -> None:
    with pytest.raises(tilewright.SimulationError, match="starts at 30 along the innermost dimension") as caught:
        check((1, 1, 64, 44), [0, 0, 0, 30], [0, 0], [64, 32])
    assert caught.value.kind == "misaligned address"


def test_steps_between_pixels() -> None:
    box = {"pixel_box_lower_corner": [-1, 0], "pixel_box_upper_corner": [0, -2], "element_strides": [1, 2, 3, 1]}
    check((2, 9, 10, 32), [0, -1, 0, 0], [1, 2], [32, 32], **box)


@pytest.mark.parametrize("rank", [3, 5])
def test_images_of_other_dimensions(rank: int) -> None:
    axes = rank - 2
    box = {"pixel_box_lower_corner": [-1] * axes, "pixel_box_upper_corner": [-1] * axes}
    check((2, *(3, 4, 5)[:axes], 32), [0, *(-1,) * axes, 0], list(range(axes)), [32, 32], **box)


def test_many_pixels_and_several_boxes_of_channels() -> None:
    """Each warp copies some of the channels of all 512 pixels."""
    check((2, 16, 16, 64), [0, 0, 0, 0], [0, 0], [512, 64])


@gluon.jit
def convolution(source, weights, target, HEIGHT: gl.constexpr, WIDTH: gl.constexpr, SIDE: gl.constexpr,
                PADDING: gl.constexpr, STEP: gl.constexpr, CHANNELS: gl.constexpr):  # fmt: skip
    """A block of pixels of the result: one product for each place of the filter, whose weights are (place, in, out)."""
    M: gl.constexpr = source.block_shape[0]
    N: gl.constexpr = target.block_shape[1]
    x = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    y = gl.allocate_shared_memory(weights.dtype, weights.block_shape, weights.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    total = gl.zeros([M, N], gl.float32, layout=sums)
    first = gl.program_id(0) * M
    image, row, column = first // (HEIGHT * WIDTH), first // WIDTH % HEIGHT, first % WIDTH
    phase = 0
    for place in gl.static_range(SIDE * SIDE):
        mbarrier.expect(bar, source.nbytes_per_cta + weights.nbytes_per_cta)
        corner = (image, row * STEP - PADDING, column * STEP - PADDING, 0)
        tma.async_load_im2col(source, corner, (place // SIDE, place % SIDE), bar, x)
        tma.async_load(weights, [place * CHANNELS, 0], bar, y)
        mbarrier.wait(bar, phase)
        total = warpgroup_mma(x, y, total)
        gl.barrier()
        phase ^= 1
    out = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    out.store(total.to(target.dtype))
    fence_async_shared()
    tma.async_store(target, [first, 0], out)
    tma.store_wait(0)


@pytest.mark.parametrize(("side", "padding", "step"), [(3, 1, 1), (3, 0, 2), (1, 0, 1), (5, 2, 2)])
def test_convolution(side: int, padding: int, step: int) -> None:
    x, weights = (RANDOM.integers(-2, 3, shape).astype(np.float16) for shape in ((2, 10, 12, 32), (side, side, 32, 32)))
    height, width = ((extent + 2 * padding - side) // step + 1 for extent in (10, 12))
    padded = np.pad(x.astype(np.float32), ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    right = np.zeros((2, height, width, 32), np.float32)
    for i, j in product(range(side), range(side)):
        part = padded[:, i : i + height * step : step, j : j + width * step : step]
        right += part[:, :height, :width] @ weights[i, j]
    out = aligned((2 * height * width, 32), np.float16)
    layout = gl.NVMMASharedLayout.get_default_for([64, 32], gl.float16)
    upper = [(extent - 1) * step + 1 - own - padding for extent, own in ((height, 10), (width, 12))]
    box = {"pixel_box_lower_corner": [-padding] * 2, "pixel_box_upper_corner": upper}
    source = images(x, [64, 32], layout, element_strides=[1, step, step, 1], **box)
    filters = described(weights.reshape(-1, 32), [32, 32], layout)
    with tilewright.simulate("cuda:90"):
        convolution[(-(-len(out) // 64),)](
            source, filters, described(out, [64, 32], layout),
            HEIGHT=height, WIDTH=width, SIDE=side, PADDING=padding, STEP=step, CHANNELS=32,
        )  # fmt: skip
    np.testing.assert_array_equal(out, right.reshape(-1, 32))


def test_one_copy_of_images_for_all_ctas() -> None:
    x, out = aligned((1, 8, 8, 32), np.float32), aligned((64, 32), np.float32)
    x[...] = RANDOM.standard_normal(x.shape)
    layout = gl.NVMMASharedLayout.get_default_for([64, 32], gl.float32, cga_layout=[[0, 0]])
    arguments = images(x, [64, 32], layout), described(out, [64, 32], layout), (0, 0, 0, 0), (0, 0)
    with tilewright.simulate("cuda:90"):
        kernel = pixels[(1,)](*arguments, WAITS=True, MULTICAST=True, num_ctas=2)
        np.testing.assert_array_equal(out, x.reshape(64, 32))
        assert ".multicast::cluster" in assembled_text(kernel, 90)
        with pytest.raises(tilewright.SimulationError) as caught:
            pixels[(1,)](*arguments, WAITS=False, MULTICAST=True, num_ctas=2)
    assert caught.value.kind == "race"


@pytest.mark.parametrize("parts", [[[0, 1]], [[1, 0]]])
def test_ctas_have_parts_of_the_channels(parts: list[list[int]]) -> None:
    x, out = aligned((1, 8, 8, 64), np.float32), aligned((64, 64), np.float32)
    x[...] = RANDOM.standard_normal(x.shape)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float32, cga_layout=parts)
    arguments = images(x, [64, 64], layout), described(out, [64, 64], layout), (0, 0, 0, 0), (0, 0)
    with tilewright.simulate("cuda:90"):
        if parts == [[1, 0]]:
            with pytest.raises(Unsupported, match="pixels are divided among CTAs"):
                pixels[(1,)](*arguments, WAITS=True, MULTICAST=False, num_ctas=2)
        else:
            pixels[(1,)](*arguments, WAITS=True, MULTICAST=False, num_ctas=2)
            np.testing.assert_array_equal(out, x.reshape(64, 64))


@gluon.jit
def as_tiles(source):
    buffer = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    tma.async_load(source, [0, 0], bar, buffer)


@gluon.jit
def as_images(source):
    buffer = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    newer_tma.async_load_im2col(source, [0, 0, 0, 0], [0, 0], bar, buffer)


def test_copies_of_the_other_kind() -> None:
    layout = gl.NVMMASharedLayout.get_default_for([64, 32], gl.float32)
    of_tiles = described(aligned((64, 32), np.float32), [64, 32], layout)
    of_images = images(aligned((1, 8, 8, 32), np.float32), [64, 32], layout)
    with tilewright.simulate("cuda:90"):
        with pytest.raises(tilewright.CompilationError, match="a descriptor of images is for async_load_im2col"):
            as_tiles[(1,)](of_images)
        with pytest.raises(tilewright.CompilationError, match="wants a descriptor of images"):
            as_images[(1,)](of_tiles)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"element_strides": [1, 9, 1, 1]}, "element strides are 1 to 8"),
        ({"element_strides": [1, 1, 1, 2]}, "channels are taken one after the other"),
        ({"element_strides": [1, 1]}, "a number per axis"),
        ({"pixel_box_lower_corner": [0, -129]}, "corners are -128 to 127 away"),
        ({"pixel_box_upper_corner": [0]}, "a number per axis of an image"),
        ({"block_shape": [1, 8, 8, 32]}, "pixels and channels"),
    ],
)
def test_descriptors_that_the_engine_cannot_have(options: dict[str, Any], said: str) -> None:
    layout = gl.NVMMASharedLayout.get_default_for([64, 32], gl.float32)
    block = options.pop("block_shape", [64, 32])
    with pytest.raises(AssertionError, match=said):
        images(aligned((1, 8, 8, 32), np.float32), block, layout, **options)


def test_too_many_pixels() -> None:
    layout = gl.NVMMASharedLayout.get_default_for([2048, 8], gl.float32)
    source = images(aligned((8, 16, 16, 8), np.float32), [2048, 8], layout)
    target = described(aligned((2048, 8), np.float32), [2048, 8], layout)
    with tilewright.simulate("cuda:90"), pytest.raises(Exception, match="1024 pixels at most"):
        pixels[(1,)](source, target, (0, 0, 0, 0), (0, 0), WAITS=True, MULTICAST=False)
