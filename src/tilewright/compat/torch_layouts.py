"""The loops of Inductor's kernels for CPUs, and the memory format of images that convolutions take.

Its kernels for a GPU run over one flat index, which they split by divisions and remainders. `TILED` requests an axis
per loop, as the C++ back end has: neighbours in memory are then neighbours in a tile, and nothing is divided. Where the
innermost axis is short, vectors over the flat index are longer.

Where a graph has convolutions, Inductor makes images and weights `channels_last` for oneDNN. Weights are parameters, so
each call copies them again; networks with more weights than numbers in images are faster without the change.

torch decomposes linear upsampling before it derives the gradient, which then adds the neighbours of each pixel by
index. The gradient operator of torch itself visits each pixel once. It takes sizes as numbers, so graphs for dynamic
sizes keep the decomposition.

If a result is a view, torch orders its strides, and compares symbols as if they were numbers: an image without a batch,
convolved in a graph for dynamic sizes, ended in an error. The C++ back end replaces convolutions before that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce, wraps
from itertools import chain
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

GRAPH, LOOPS, NODES = "torch._inductor.graph", "torch._inductor.codegen.simd", "torch._inductor.ir"
BLOCKS = "torch._inductor.codegen.block_analysis"
TILED = {"triton.prefer_nd_tiling": True, "triton.max_tiles": 3, "triton.tile_reductions": True}
"""Settings of Inductor."""


SHORTEST = 16
"""Min number of elements along the innermost axis of a kernel over several: a vector of float32."""
MAX_REDUCED = 2
"""Max number of reduced axes that torch has names for in a kernel."""


def tile_long_rows(loops: Any) -> None:
    """Let the module `LOOPS` give kernels for CPUs several axes only where that pays and torch can choose blocks.

    Programs that ask Inductor for other axes than `TILED` get short ones, too. Inductor asks for the axes of all pairs
    of kernels that it might fuse, over and over, and sets out from the indices of both: a third of the time in which it
    compiles a bicubic upsampling and its gradient. Nodes with the same indices have the same axes.
    """
    original = loops.SIMDScheduling.get_nd_tilings.__func__
    answers = _Answers(loops.V)

    def of_node(cls: Any, node: Any, *numbers: Any) -> list[Any]:
        shortest = SHORTEST if all(_setting(loops.config, name) == TILED[name] for name in TILED) else 0
        found, sizes = original(cls, [node], *numbers), loops.V.graph.sizevars
        return [tiling for tiling in found if not _is_unfit(tiling, sizes, shortest)]

    def get_nd_tilings(cls: Any, nodes: Any, *numbers: Any) -> Any:
        devices = [node.get_device() for node in nodes if hasattr(node, "get_device")]
        if any(device is None or device.type != "cpu" for device in devices):
            return original(cls, nodes, *numbers)
        looped = [n for n in loops.EnableReduction.filter(nodes) if isinstance(n, loops.scheduler.SchedulerNode)]
        found = [answers.of((*_indices(n, loops.MemoryDep), *numbers), of_node, cls, n, *numbers) for n in looped]
        return sorted(dict.fromkeys(chain.from_iterable(found)), key=len, reverse=True)

    loops.SIMDScheduling.get_nd_tilings = classmethod(get_nd_tilings)
    _merge_reduced(loops.SIMDScheduling)
    _split_once(loops.SIMDKernel, answers)


def match_divided(blocks: Any) -> None:
    """Let the module `BLOCKS` look for axes in an index only where each of its terms is a quotient or a remainder.

    torch looks at the terms first where there are five axes or more. Where there are four, sympy compared every index
    with all of them, without success: more than half of the time in which torch compiles a pooling over three axes
    of any size.
    """
    original = blocks.BlockPatternMatcher.match_mod_div_block_expr.__func__
    divided = (blocks.FloorDiv, blocks.ModularIndexing)

    def match_mod_div_block_expr(cls: Any, index: Any, index_var: Any, *rest: Any) -> Any:
        terms = [each for each in _parts(cls._preprocess(index), "is_Add") if index_var in each.free_symbols]
        if all(any(isinstance(factor, divided) for factor in _parts(term, "is_Mul")) for term in terms):
            return original(cls, index, index_var, *rest)
        return None

    blocks.BlockPatternMatcher.match_mod_div_block_expr = classmethod(match_mod_div_block_expr)


def _parts(expression: Any, kind: str) -> Sequence[Any]:
    """The terms of a sum, or the factors of a product; another expression is the only one."""
    return expression.args if getattr(expression, kind) else (expression,)


class _Answers:
    """Answers about the sizes and indices of the graph that a module of torch works on.

    Args:
        virtualized: torch's `V`, which knows the graph.
    """

    def __init__(self, virtualized: Any) -> None:
        self._virtualized = virtualized
        self._known: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()

    def of(self, key: tuple[Any, ...], ask: Callable[..., Any], *arguments: Any) -> Any:
        """The answer of a function to arguments that the key stands for; sizes that a graph finds equal end all."""
        graph = self._virtualized.graph
        known = self._known.setdefault(graph, {})
        full = (ask.__qualname__, len(graph.sizevars.replacements), *key)
        if full not in known:
            known[full] = ask(*arguments)
        return known[full]


def _indices(node: Any, memory: Any) -> tuple[Any, ...]:
    """All that the axes of a node depend on: its ranges, and where it reads and writes."""
    accesses = [each for each in node.read_writes.reads_and_writes() if isinstance(each, memory)]
    places = tuple((each.index, each.var_names, each.size) for each in accesses)
    return (*map(tuple, node.get_ranges()), places)


def _split_once(kernel: Any, answers: _Answers) -> None:
    """Let torch try once per graph whether ranges can be split into axes."""
    original = kernel.is_compatible.__func__

    def is_compatible(cls: Any, groups: Any, lengths: Any, reduction_numel: Any = 1) -> bool:
        axes = tuple(groups)
        key = (axes, *map(tuple, lengths), reduction_numel)
        return bool(answers.of(key, original, cls, axes, lengths, reduction_numel))

    kernel.is_compatible = classmethod(is_compatible)


def _merge_reduced(scheduling: Any) -> None:
    """Let torch make one of the outer axes that a kernel reduces, where there are more than it has names for.

    Inductor asserts that there is no such tiling: `max_tiles` counts the axes of a kernel without a reduction.
    """
    original = scheduling.create_tiling.__func__

    def create_tiling(cls: Any, kept: Any, reduced: Any) -> Any:
        merged = max(len(reduced) - MAX_REDUCED, 0) + 1
        return original(cls, kept, [prod(reduced[:merged]), *reduced[merged:]] if merged > 1 else reduced)

    scheduling.create_tiling = classmethod(create_tiling)


UPSAMPLED = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
"""Operators whose gradients torch has in one piece."""


def has_fixed_sizes(inputs: Sequence[Any]) -> bool:
    """Whether a graph with these inputs is made for one size of each, and not for any."""
    sizes = [size for each in inputs for size in getattr(each, "shape", (each,))]
    return all(isinstance(size, int) for size in sizes)


def keep_upsampling(graph: Any) -> None:
    """Let the module `GRAPH` call torch for `UPSAMPLED`, and graphs keep it whole within `whole_gradients`.

    torch refuses such a call by itself where `CI` is set. Its own back ends never come here, since they have taken
    these operators apart before.
    """
    torch = graph.torch
    keys = torch._C.DispatchKey
    for operator in [getattr(torch.ops.aten, name) for name in UPSAMPLED]:
        for overload in (operator.default, operator.vec):
            graph.make_fallback(overload, override_decomp=True)
            native = keys.Autograd if overload is operator.default else keys.CompositeImplicitAutograd
            for key in (keys.Autograd, keys.CompositeImplicitAutograd):
                if key in overload.py_kernels:
                    overload.py_kernels[key] = _whole_if_wanted(overload.py_kernels[key], overload, native)
            overload._dispatch_cache.clear()


def _whole_if_wanted(apart: Callable[..., Any], overload: Any, native: Any) -> Callable[..., Any]:
    """A function that takes an operator apart, and within `whole_gradients` is torch's own for the key `native`."""

    @wraps(apart)
    def whole_or_apart(*args: Any, **kwargs: Any) -> Any:
        return overload._op_dk(native, *args, **kwargs) if _is_whole.get() else apart(*args, **kwargs)

    return whole_or_apart


_is_whole = ContextVar("_is_whole", default=False)
"""Whether graphs that this thread traces keep the gradients of `UPSAMPLED`."""


@contextmanager
def whole_gradients() -> Iterator[None]:
    """Let graphs that this thread traces meanwhile keep the gradients of `UPSAMPLED` whole."""
    before = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(before)


def order_symbols(nodes: Any) -> None:
    """Let the module `NODES` compare strides that are symbols by what its graph knows of them."""
    original = nodes.get_fill_order

    def get_fill_order(strides: Any, shape_env: Any = None) -> Any:
        try:
            return original(strides, shape_env)
        except TypeError:
            return original(strides, nodes.V.graph.sizevars.shape_env)

    nodes.get_fill_order = get_fill_order


def _setting(config: Any, name: str) -> Any:
    """A setting of Inductor, whose name has dots."""
    return reduce(getattr, name.split("."), config)


def _is_unfit(tiling: Any, sizes: Any, shortest: int) -> bool:
    """Whether torch has no block sizes for a kernel, or its innermost axis is known to be shorter than `shortest`.

    Reductions have block sizes for two other axes at most. Short axes count where there are several and no reduction.
    """
    pointwise = {axis for axis in tiling if not axis.startswith("r")}
    if any(not sizes.statically_known_equals(tiling[axis], 1) for axis in tiling.keys() - pointwise):
        return len(pointwise) > 2
    return len(pointwise) > 1 and bool(sizes.statically_known_lt(tiling["x"], shortest))


def weigh_weights(graph: Any) -> None:
    """Let the module `GRAPH` make no images `channels_last` for convolutions on CPUs that have mostly weights."""
    original, config = graph.GraphLowering.decide_layout_opt, graph.config

    def decide_layout_opt(gm: Any, *, is_inference: bool) -> bool:
        wanted = bool(original(gm, is_inference=is_inference))
        weighs = config.cpu_backend == "triton" and not config.force_layout_optimization
        return wanted and not (weighs and _are_mostly_weights(gm.graph.nodes, graph.torch.ops.aten.convolution.default))

    graph.GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _are_mostly_weights(nodes: Any, convolution: Any) -> bool:
    """Whether the convolutions are on CPUs, with fewer numbers in their images than in their weights."""
    images = weights = 0
    for node in nodes:
        if node.target is convolution:
            image, weight, result = (of.meta["val"] for of in (*node.args[:2], node))
            if weight.device.type != "cpu":
                return False
            weights += _count(weight)
            images += _count(image) + _count(result)
    return images < weights


def _count(tensor: Any) -> int:
    """The elements of a tensor; where an extent is a symbol, those of the sizes that were seen."""
    hints = [extent if isinstance(extent, int) else extent.node.hint for extent in tensor.shape]
    return prod(1 if hint is None else hint for hint in hints)
