"""Blocks of kernels over several axes on CPUs.

Inductor gives such kernels square blocks, as threads of a GPU want them: 32 × 32, or 16 × 16 × 16. On a CPU a program
takes one row of its block after the other. Rows of 32 numbers, each far from the last one, are read at the speed of
the cache behind the others, since the processor sees no stream in them: the product of a gate in a small Mixtral takes
1.1 ms so, and 0.2 in rows of 256. Squares stay where some tensor is read or written across its rows.

Which axis is which is known where torch writes a kernel, and blocks are chosen where it is loaded. The facts of a
kernel (`inductor_meta`), which torch writes beside it, carry them: they are part of the text that is cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BLOCKS_OF_ROWS = "blocks_of_rows"
"""The name of the blocks among the facts of a kernel."""
ACROSS = "_is_across"
"""The name in torch's kernel that says that it has an access across the innermost axis."""
PROGRAM = 1024
"""The number of elements of a program."""
SHORTEST, LONGEST = 32, 128
"""The least length of a block that divides the innermost axis, and the greatest of one that does not.

A row that ends within a block is read and written under masks as a whole, which takes four times as long with AVX2.
"""


def note_rows(kernels: Any) -> None:
    """Let the module `torch._inductor.codegen.triton` tell the blocks of kernels on CPUs whose accesses are rows."""
    kernel, graph = kernels.TritonKernel, kernels.V
    load, store, facts = kernel.load, kernel.store, kernel.inductor_meta_per_kernel

    def noted_load(self: Any, name: str, index: Any) -> Any:
        _note(self, index)
        return load(self, name, index)

    def noted_store(self: Any, name: str, index: Any, *rest: Any, **named: Any) -> Any:
        _note(self, index)
        return store(self, name, index, *rest, **named)

    def inductor_meta_per_kernel(self: Any) -> dict[str, Any]:
        found: dict[str, Any] = facts(self)
        on_cpu = graph.graph.get_current_device_or_throw().type == "cpu"
        if on_cpu and not self.inside_reduction and not vars(self).get(ACROSS):
            sizes = {axis: int(graph.graph.sizevars.optimization_hint(size)) for axis, size in self.numels.items()}
            pointwise = {axis: size for axis, size in sizes.items() if not axis.startswith("r")}
            if len(pointwise) > 1:
                found[BLOCKS_OF_ROWS] = blocks_of(pointwise)
        return found

    kernel.load, kernel.store = noted_load, noted_store
    kernel.inductor_meta_per_kernel = inductor_meta_per_kernel


def _note(kernel: Any, index: Any) -> None:
    """Note whether an access goes from one of the innermost axis' elements to another that is no neighbour."""
    for tree in kernel.range_trees:
        if tree.prefix == "x":
            innermost = [node.symbol() for node in tree.nodes.values() if node.divisor == 1]
            steps = [index.coeff(symbol) for symbol in innermost if symbol in index.free_symbols]
            if any(step not in (0, 1) for step in steps):
                setattr(kernel, ACROSS, True)


def blocks_of(sizes: Mapping[str, int]) -> dict[str, int]:
    """The blocks of a kernel by its axes, of which `x` is the innermost: long rows, and as many as make a program."""
    left, blocks = PROGRAM, {}
    for axis in sorted(sizes):  # x, y, z
        wanted = _row(sizes[axis]) if axis == "x" else _whole(sizes[axis])
        blocks[f"{axis.upper()}BLOCK"] = block = min(wanted, left)
        left //= block
    return blocks


def _row(size: int) -> int:
    """The length of the blocks of a row: the longest that divide it, or such that few end in a masked one."""
    divisor = size & -size
    return divisor if divisor >= SHORTEST else min(_whole(size), LONGEST)


def _whole(size: int) -> int:
    """The length of a block for a whole axis."""
    return 1 << max(size - 1, 0).bit_length()
