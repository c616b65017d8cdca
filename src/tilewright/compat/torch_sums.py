"""Sums of products in torch's graphs: passes before those that Inductor runs after gradients.

The gradient of a weight that a graph uses repeatedly, as a recurrent layer does, is a sum of products with few terms
each. Each product would read and write the whole sum. They become one product, on all CPUs:

    a·b + c·d = (a c)·(b over d)

torch turns a sum with a product into `addmm`, and drops the factor of `torch.add(x, y, alpha=2)`: C++ gives the same
wrong numbers. Such factors are multiplied out first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PASSES = "torch._inductor.compile_fx"
MOVED = 4
"""How many times fewer numbers the matrices of a product have than the sum to which it is added, at least.

Where products become one, these are moved twice, and the sum is not. Few terms take less time than moving the sum.
"""


def change_sums(passes: Any) -> None:
    """Let the module `PASSES` begin with our passes of sums, where kernels for CPUs are Triton's."""
    original, config = passes.post_grad_passes, passes.config

    def post_grad_passes(gm: Any, *rest: Any, **named: Any) -> None:
        if config.cpu_backend == "triton":
            multiply_out(gm.graph, passes.torch.ops.aten)
            merge_products(gm.graph, passes.torch.ops.aten)
        original(gm, *rest, **named)

    passes.post_grad_passes = post_grad_passes


def multiply_out(graph: Any, aten: Any) -> None:
    """x + factor·y is x + (factor·y) in a graph of `aten`'s operators, where a part of the sum is a product."""
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        factor, (first, second) = node.kwargs.get("alpha", 1), node.args
        targets = [getattr(each, "target", None) for each in node.args]
        if factor != 1 and aten.mm.default in targets and node.meta["val"].dtype == second.meta["val"].dtype:
            with graph.inserting_before(node):
                node.args, node.kwargs = (first, _call(graph, aten.mul.Tensor, second, factor)), {}


def merge_products(graph: Any, aten: Any) -> None:
    """Make one product of those with few terms whose sum a graph of `aten`'s operators computes, on CPUs."""
    done: set[Any] = set()
    for node in reversed(graph.find_nodes(op="call_function", target=aten.add.Tensor)):
        if node in done or node.kwargs:
            continue
        sums, summands = _taken_apart(node)
        done.update(sums)
        few = [each for each in summands if _is_product_of_few(each, node, aten)]
        if len(few) > 1:
            with graph.inserting_before(node):
                total = _product(graph, few, aten)
                for each in summands:
                    total = total if each in few else _call(graph, aten.add.Tensor, total, each)
            node.replace_all_uses_with(total)
            for each in dict.fromkeys((*sums, *few)):  # once each, also in x + x
                graph.erase_node(each)


def _taken_apart(total: Any) -> tuple[list[Any], list[Any]]:
    """A sum with those in it that nothing else uses, and what all of them add up, from left to right."""
    sums, summands, left = [], [], [total]
    while left:
        node = left.pop()
        if node is total or (_is_like(node, total, total.target) and not node.kwargs):
            sums.append(node)
            left.extend(reversed(node.args))
        else:
            summands.append(node)
    return sums, summands


def _is_product_of_few(node: Any, total: Any, aten: Any) -> bool:
    """Whether a part of the sum `total` is a product on a CPU, and its matrices are small beside the sum."""
    if not _is_like(node, total, aten.mm.default):
        return False
    left, right = (each.meta["val"] for each in node.args)
    rows, terms, columns = sizes = *left.shape, right.shape[1]
    is_known = all(isinstance(size, int) for size in sizes)
    if not is_known or left.device.type != "cpu" or not left.dtype.is_floating_point:
        return False
    return bool(MOVED * terms * (rows + columns) <= rows * columns)


def _is_like(node: Any, total: Any, target: Any) -> bool:
    """Whether `node` calls `target` for a part of the sum `total` alone, of the same shape and dtype."""
    if getattr(node, "target", None) is not target or len(node.users) > 1:
        return False
    mine, whole = node.meta["val"], total.meta["val"]
    return bool(mine.dtype == whole.dtype and mine.shape == whole.shape)


def _product(graph: Any, products: Sequence[Any], aten: Any) -> Any:
    """The sum of `products` as one."""
    left, right = zip(*(each.args for each in products), strict=True)
    return _call(graph, aten.mm.default, _joined(graph, left, 1, aten), _joined(graph, right, 0, aten))


def _joined(graph: Any, matrices: Sequence[Any], axis: int, aten: Any) -> Any:
    """Matrices side by side along an axis; those that are all transposed are joined as they were before."""
    before = [_before(each, aten) for each in matrices]
    if None in before:
        return _call(graph, aten.cat.default, list(matrices), axis)
    return _call(graph, aten.permute.default, _call(graph, aten.cat.default, before, 1 - axis), [1, 0])


def _before(matrix: Any, aten: Any) -> Any:
    """The matrix that a matrix is the transposed of, or None."""
    if matrix.target is not aten.permute.default:
        return None
    before, axes = matrix.args
    return before if list(axes) == [1, 0] else None


def _call(graph: Any, target: Any, *arguments: Any) -> Any:
    """A new call in a graph, with what torch knows of its result."""
    node = graph.call_function(target, arguments)
    node.meta["val"] = target(*map(_value, arguments))
    return node


def _value(argument: Any) -> Any:
    """A tensor without data for a node that is an argument of a call; numbers are themselves."""
    if isinstance(argument, list):
        return [_value(each) for each in argument]
    return argument.meta["val"] if hasattr(argument, "meta") else argument
