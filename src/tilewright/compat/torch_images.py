"""Operators on images on CPUs, whose decompositions by torch are slow there.

Overlapping blocks are combined into an image by `fold` and by the gradient of `unfold`. Torch adds each number by its
index, as GPUs do with atomics. Here each pixel reads the blocks that cover it, so a kernel has a few loads under masks.
For a stride of one:

    image[y, x] = Σ blocks[i, j, y - i, x - j]

Padding an image with contiguous rows by reflection or repetition is a copy of rows, which loads by index hide: these
operators remain torch's own. `channels_last` images are copied pixel by pixel, in kernels as well.

A circular border is a concatenation of an image and its edges, which has a kernel for each part, without masks.

A group of channels of a `channels_last` image extends over two axes with others between them. Its variance follows from
the means and variances of channels, which kernels compute along columns:

    var(group) = mean(var(channel) + (mean(channel) - mean(group))²)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

DECOMPOSITIONS, LOWERINGS = "torch._inductor.decomposition", "torch._inductor.lowering"
PADDINGS = ("reflection_pad2d", "replication_pad2d")
"""Operators that stay torch's own where the rows of their images are contiguous."""
MOST_BLOCKS = 36
"""Max number of blocks that may cover a pixel that reads all of them."""

Operator = Callable[..., Any]


def keep_images(decompositions: Any) -> None:
    """Let the module `DECOMPOSITIONS` keep paddings and folds whole that `keep_padding` and `gather_folds` lower."""
    torch, table, config = decompositions.torch, decompositions.decompositions, decompositions.config

    def is_kept_padding(image: Any, padding: Sequence[Any]) -> bool:
        contiguous = torch._prims_common.suggest_memory_format(image) == torch.contiguous_format
        return bool(image.dtype.is_floating_point and contiguous and any(padding[:2]))

    def is_kept_fold(blocks: Any, size: Any, *axes: Sequence[int]) -> bool:
        most = prod(Axis(*each).most for each in zip(*axes, strict=True))
        return blocks.dim() == 3 and blocks.dtype.is_floating_point and 1 < most <= MOST_BLOCKS

    aten = torch.ops.aten
    kept = {getattr(aten, name).default: is_kept_padding for name in PADDINGS} | {aten.col2im.default: is_kept_fold}
    for overload, is_kept in kept.items():
        table[overload] = _kept_where(is_kept, table[overload], config)


def _kept_where(is_kept: Callable[..., bool], apart: Operator, config: Any) -> Operator:
    """A decomposition that keeps an operator on CPUs for which a condition holds, where kernels are Triton's."""

    def decompose(image: Any, *rest: Any) -> Any:
        is_ours = config.cpu_backend == "triton" and image.device.type == "cpu"
        return NotImplemented if is_ours and is_kept(image, *rest) else apart(image, *rest)

    return decompose


def join_borders(decompositions: Any) -> None:
    """Let the module `DECOMPOSITIONS` make circular borders by concatenation, on CPUs where kernels are Triton's.

    torch stores image and edges into what was stored before, which is a kernel that asks each pixel where it is.
    """
    torch, config = decompositions.torch, decompositions.config
    whole, key = torch.ops.aten._pad_circular.default, torch._C.DispatchKey.CompositeImplicitAutograd

    def pad(image: Any, padding: Sequence[Any]) -> Any:
        contiguous = torch._prims_common.suggest_memory_format(image) == torch.contiguous_format
        is_ours = config.cpu_backend == "triton" and image.device.type == "cpu" and not image.is_complex()
        if not is_ours or not contiguous or not all(isinstance(each, int) and each >= 0 for each in padding):
            return whole._op_dk(key, image, padding)
        joined = image
        for axis, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True), 1):
            first = joined.narrow(-axis, joined.shape[-axis] - before, before)
            joined = torch.cat([first, joined, joined.narrow(-axis, 0, after)], -axis)
        return joined.contiguous()

    whole.py_kernels[key] = pad
    whole._dispatch_cache.clear()


def keep_padding(lowerings: Any) -> None:
    """Let the module `LOWERINGS` call torch for `PADDINGS`; kernels pad images that become `channels_last`."""
    distance, most, least = lowerings.sympy.Abs, lowerings.Max, lowerings.Min
    sources = {
        "reflection_pad2d": lambda place, last: last - distance(last - distance(place)),
        "replication_pad2d": lambda place, last: most(0, least(place, last)),
    }
    for name, source in sources.items():
        overload = getattr(lowerings.aten, name).default
        lowerings.make_fallback(overload, override_decomp=True)
        known = lowerings.lowerings
        known[overload] = _padding_of(lowerings, known[overload], source)


def _padding_of(lowerings: Any, whole: Operator, source: Callable[[Any, Any], Any]) -> Operator:
    """The lowering of a padding.

    Args:
        lowerings: the module.
        whole: the call of torch.
        source: where a pixel comes from, for its place beside the first one and the place of the last one.
    """
    nodes = lowerings.ir

    def pad(image: Any, padding: Sequence[Any]) -> Any:
        if not lowerings.V.graph.layout_opt:
            return whole(nodes.ExternKernel.require_contiguous(image), padding)
        *others, height, width = image.get_size()
        left, right, top, bottom = padding
        load = image.make_loader()

        def pixel(place: Sequence[Any]) -> Any:
            *outer, y, x = place
            return load([*outer, source(y - top, height - 1), source(x - left, width - 1)])

        ranges = [*others, height + top + bottom, width + left + right]
        return nodes.Pointwise.create(device=image.get_device(), dtype=image.get_dtype(), inner_fn=pixel, ranges=ranges)

    return pad


@dataclass(frozen=True)
class Axis:
    """How blocks lie along an axis of an image; `kernel` is their length."""

    kernel: int
    dilation: int
    padding: int
    stride: int

    @property
    def most(self) -> int:
        """The max number of blocks that cover a pixel, or are tested for it."""
        return -(-self.kernel // self.stride) if self.dilation == 1 else self.kernel

    def count(self, size: Any) -> Any:
        """The number of blocks along an axis of `size`."""
        return (size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    def covers(self, place: Any, count: Any, module: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Each block that may cover a pixel: the place within the block, its number, and whether it does."""
        ops, inside = module.ops, place + self.padding
        for step in range(self.most):
            if self.dilation == 1:
                within = module.ModularIndexing(inside, 1, self.stride) + step * self.stride
                number = module.FloorDiv(inside, self.stride) - step
                covers = module.range_mask(within, self.kernel, 0)
            else:
                within, start = step, inside - step * self.dilation
                number = module.FloorDiv(start, self.stride)
                covers = ops.eq(*(ops.index_expr(each, module.torch.int64) for each in (number * self.stride, start)))
            yield within, number, ops.and_(covers, module.range_mask(number, count, 0))


def gather_folds(lowerings: Any) -> None:
    """Let the module `LOWERINGS` have a lowering of `col2im` whose pixels read the blocks that cover them."""
    ops, nodes = lowerings.ops, lowerings.ir

    def fold(blocks: Any, size: Sequence[Any], *parameters: Sequence[int]) -> Any:
        axes = [Axis(*each) for each in zip(*parameters, strict=True)]
        counts = [axis.count(extent) for axis, extent in zip(axes, size, strict=True)]
        area = prod(axis.kernel for axis in axes)
        blocks.realize()
        load = blocks.make_loader()

        def pixel(place: Sequence[Any]) -> Any:
            image, channel, *at = place
            total = None
            rows, columns = (list(axes[n].covers(at[n], counts[n], lowerings)) for n in range(2))
            for (i, row, is_row), (j, column, is_column) in product(rows, columns):
                source = [image, channel * area + i * axes[1].kernel + j, row * counts[1] + column]
                value = ops.masked(ops.and_(is_row, is_column), lambda source=source: load(source), 0.0)
                total = value if total is None else ops.add(total, value)
            return total

        images, channels, _ = blocks.get_size()
        ranges = [images, lowerings.FloorDiv(channels, area), *size]
        return nodes.Pointwise.create(
            device=blocks.get_device(), dtype=blocks.get_dtype(), inner_fn=pixel, ranges=ranges
        )

    lowerings.register_lowering(lowerings.aten.col2im.default, type_promotion_kind=None)(fold)


def split_variances(lowerings: Any) -> None:
    """Let the module `LOWERINGS` compute variances of groups of channels from those of channels, on CPUs."""
    overload, known, config = lowerings.aten.var_mean.correction, lowerings.lowerings, lowerings.config
    original = known[overload]

    def var_mean(image: Any, axis: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        is_ours = config.cpu_backend == "triton" and lowerings.ir.is_cpu(image)
        is_whole = list(axis or ()) == [2, 3] and correction == 0 and keepdim and image.get_dtype().itemsize >= 4
        if not (is_ours and is_whole and len(image.get_size()) == 4 and _has_channels_last(lowerings.V.graph)):
            return original(image, axis, correction=correction, keepdim=keepdim)
        variance, mean = original(image, [3], correction=0, keepdim=True)
        average = known[lowerings.aten.mean.dim]
        of_group = average(mean, [2], keepdim=True)
        between = lowerings.square(lowerings.sub(mean, of_group))
        return average(lowerings.add(variance, between), [2], keepdim=True), of_group

    known[overload] = var_mean


def _has_channels_last(graph: Any) -> bool:
    """Whether the last axis of what a graph is at has longer steps than the one before."""
    if graph.layout_opt:
        return True
    steps = graph.current_node.all_input_nodes[0].meta["val"].stride()
    return all(isinstance(step, int) for step in steps[2:]) and steps[3] > steps[2]
