"""Block sizes of Inductor's kernels over several axes on CPUs.

Inductor gives such kernels square blocks, which suit the threads of a GPU: 32 × 32, or 16 × 16 × 16. On a CPU a program
computes one row of its block after the other. Rows of 32 numbers, each far from the last one, are read at the speed of
the outer caches, since the hardware prefetcher sees no stream in them: the product of a gate in a small Mixtral takes
1.1 ms with them, and 0.2 ms in rows of 256. Where some tensor is read or written across the rows, blocks have as many
rows as a cache line has numbers.

A kernel that adds up columns has blocks of many columns and few rows, where torch has 8 columns of 32 rows, or 64 of 4:
it can then read cache lines one after the other. Where only some columns are contiguous, such as the channels of a
pixel, blocks end where those do. A kernel that adds up rows has blocks of whole rows, and needs no loop.

The roles of the axes are known when torch writes a kernel, and blocks are chosen when it is loaded. The facts that
torch writes beside a kernel (`inductor_meta`) carry them: they are part of the text that is cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import pairwise
from math import gcd, prod
from typing import Any

from tilewright.compat.torch_products import is_number

BLOCKS_OF_ROWS = "blocks_of_rows"
"""The name of the blocks among the facts of a kernel."""
LEAST_BLOCKS = "tma_min_block_sizes"
"""torch's name for the blocks that a kernel needs at least: a tensor descriptor's has 16 bytes along its last axis."""
ACROSS, ALONG, ALONG_KEPT, ALONG_SUMMED = "_is_across", "_is_along", "_is_along_kept", "_is_along_summed"
WAYS, RUN = "_ways", "_run"
"""The names in torch's kernel that say that it has an access across the innermost axis, along which axes its accesses
go, whether one of numbers that it adds up goes along the axis `x`, or along those of the sums, which ways its loads
go along `x`: 1 forwards, -1 backwards, and how many elements of `x` such numbers have from one remainder 0 to the next,
0 if there is none."""
TURNED_ROWS, TURNED_COLUMNS, TURNED_PARTS = 16, 64, 2
"""The block of a kernel that reads along one axis and writes along another: lines of float32, some of them, and the
block of a third axis. With one element of that, its quotients and remainders are no axis of the tile, and the tile is
not turned in registers: a pooling of `channels_last` images takes 15 times as long.
"""
PROGRAM = 1024
"""The number of elements of a program."""
SHORTEST, LONGEST = 32, 128
"""The least length of a block that divides the innermost axis, and the greatest of one that does not.

A row that ends within a block is read and written under masks as a whole, which takes four times as long with AVX2.
"""

FEW_MASKED = 8
"""The number of blocks of the greatest such length from which on it matters little that the last one is masked."""
LONGEST_SUM = 8192
"""The greatest length of a row that is added up as a whole; a longer one leaves the near caches."""
COLUMNS = 64, 256
"""The least and the greatest number of columns that a program adds up, if there are as many."""
SHORTEST_RUN = 16
"""The least block of columns of which only so many lie side by side."""
PROGRAMS = 8
"""The number of programs that share columns, where each gets the least number of them."""
NEAR = 8
"""The greatest step, in elements, with which an access still uses most lines of memory that it reads."""
PLACES = range(4, 9)
"""The elements of an axis that are compared."""


def note_rows(kernels: Any) -> None:
    """Let the module `torch._inductor.codegen.triton` tell the blocks of kernels on CPUs whose accesses are rows."""
    kernel, graph = kernels.TritonKernel, kernels.V
    load, store, facts = kernel.load, kernel.store, kernel.inductor_meta_per_kernel

    def noted_load(self: Any, name: str, index: Any) -> Any:
        _note(self, index)
        _note_ways(self, index)
        return load(self, name, index)

    def noted_store(self: Any, name: str, index: Any, *rest: Any, **named: Any) -> Any:
        _note(self, index)
        return store(self, name, index, *rest, **named)

    def inductor_meta_per_kernel(self: Any) -> dict[str, Any]:
        found: dict[str, Any] = facts(self)
        on_cpu = graph.graph.get_current_device_or_throw().type == "cpu"
        sizes = {axis: int(graph.graph.sizevars.optimization_hint(size)) for axis, size in self.numels.items()}
        blocks = _blocks(self, sizes) if on_cpu else None
        least = found.get(LEAST_BLOCKS, {})
        large = {name: max(size, least.get(name, 1)) for name, size in (blocks or {}).items()}
        return found if blocks is None else found | {BLOCKS_OF_ROWS: large}

    kernel.load, kernel.store = noted_load, noted_store
    kernel.inductor_meta_per_kernel = inductor_meta_per_kernel


def _note(kernel: Any, index: Any) -> None:
    """Note along which axes an access goes: to neighbours, or from one element to another that is none."""
    steps = {tree.prefix: [abs(step) for step in _steps(tree, index)] for tree in kernel.range_trees}
    kept, summed = steps.get("x", []), [*steps.get("r0_", []), *steps.get("r1_", [])]
    if any(step > NEAR for step in kept):
        setattr(kernel, ACROSS, True)
    setattr(kernel, ALONG, vars(kernel).get(ALONG, frozenset()) | {axis for axis, found in steps.items() if 1 in found})
    if kept and summed:
        for name, found in ((ALONG_KEPT, kept), (ALONG_SUMMED, summed)):
            setattr(kernel, name, vars(kernel).get(name, False) or 1 in found)
        setattr(kernel, RUN, gcd(vars(kernel).get(RUN, 0), *_runs(kernel, index)))


def _note_ways(kernel: Any, index: Any) -> None:
    """Note which ways along `x` a load goes to neighbours."""
    steps = {step for tree in kernel.range_trees if tree.prefix == "x" for step in _steps(tree, index)}
    setattr(kernel, WAYS, vars(kernel).get(WAYS, frozenset()) | (steps & {1, -1}))


def _runs(kernel: Any, index: Any) -> list[int]:
    """How many elements of the axis `x` an access reads from one remainder 0 to the next, where it reads remainders."""
    trees = [tree for tree in kernel.range_trees if tree.prefix == "x"]
    nodes = [(tree, node) for tree in trees for node in tree.nodes.values() if node.divisor == 1]
    lengths = [node.length for tree, node in nodes if node.symbol() in index.free_symbols and node.length != tree.numel]
    return [int(length) for length in lengths if is_number(length)]


def _steps(tree: Any, index: Any) -> list[int]:
    """The steps of an access along an axis."""
    innermost = [node.symbol() for node in tree.nodes.values() if node.divisor == 1]
    return [_step(index, symbol) for symbol in innermost if symbol in index.free_symbols]


def _step(index: Any, symbol: Any) -> int:
    """How far apart two neighbours of an axis lie that an access reads, in elements; far if unknown.

    A symbol within a remainder, a quotient or a distance has no coefficient: some elements behind the first ones, where
    padding is over, say how far, if most of them agree.
    """
    step = index.coeff(symbol)
    if step == 0:
        places = _places(index, symbol)
        if places is None:
            return NEAR + 1
        ((step, count),) = Counter(after - before for before, after in pairwise(places)).most_common(1)
        step = step if count > len(PLACES) // 2 else 0
    return int(step) if is_number(step) else NEAR + 1


def _places(index: Any, symbol: Any) -> list[Any] | None:
    """The elements that an access reads at `PLACES`, where all other numbers are 1; None if it reads none there.

    The size of an axis is another number in graphs for any size. torch asserts that no remainder is of a negative
    number, such as that of a roll by three of an axis of two.
    """
    others = dict.fromkeys(index.free_symbols - {symbol}, 1)
    try:
        return [index.subs({**others, symbol: place}) for place in PLACES]
    except (AssertionError, ZeroDivisionError):
        return None


def _blocks(kernel: Any, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """The blocks of a kernel with axes of `sizes`; None if they are torch's."""
    kept = {axis: size for axis, size in sizes.items() if not axis.startswith("r")}
    noted = vars(kernel)
    if not kernel.inside_reduction:
        if len(noted.get(WAYS, ())) > 1:  # the gradient of a mirrored padding takes three times as long in long rows
            return None
        along = noted.get(ALONG, frozenset()) & kept.keys()
        return blocks_across(kept, along) if noted.get(ACROSS) else blocks_of(kept) if len(kept) > 1 else None
    is_down, is_along = noted.get(ALONG_KEPT, False), noted.get(ALONG_SUMMED, False)
    summed = [size for axis, size in sizes.items() if axis not in kept]
    is_looped = not kernel.persistent_reduction
    if is_down == is_along or (is_looped and len(summed) > 1) or not (is_looped or is_down):
        return None
    blocks = blocks_of_sums(kept, prod(summed), is_down=is_down, run=noted.get(RUN, 0))
    if kernel.persistent_reduction and blocks is not None:
        del blocks["R0_BLOCK"]
    return blocks


def blocks_across(sizes: Mapping[str, int], along: Collection[str]) -> dict[str, int] | None:
    """The blocks of a kernel whose accesses go along `x`, and across; None if they go along several axes, or none.

    What goes across may go along another axis. Where it goes along none, elements of several rows may share lines.
    """
    others = [axis for axis in along if axis != "x"]
    parts, rows = (TURNED_PARTS, others[0]) if others else (1, "y")
    if len(others) > 1 or "x" not in along or rows not in sizes:
        return None
    wanted = dict.fromkeys(sizes, parts) | {rows: TURNED_ROWS, "x": TURNED_COLUMNS}
    return {f"{axis.upper()}BLOCK": min(wanted[axis], _whole(size)) for axis, size in sizes.items()}


def blocks_of_sums(kept: Mapping[str, int], summed: int, *, is_down: bool, run: int = 0) -> dict[str, int] | None:
    """The blocks of a kernel that adds up `summed` numbers for each of those that are `kept`; None for long rows.

    Args:
        kept: the sizes by axis.
        summed: the size of the axes of the sums.
        is_down: whether neighbours in memory are neighbours along `x`, and not along the axis of the sums.
        run: how many elements of `x` lie side by side in memory, 0 for all; blocks divide it if they can.
    """
    blocks = {f"{axis.upper()}BLOCK": 1 for axis in kept}
    if not is_down:
        return blocks | {"R0_BLOCK": _whole(summed)} if summed <= LONGEST_SUM else None
    least, most = COLUMNS
    columns = _whole(kept["x"])
    columns = min(columns, most, max(least, columns // PROGRAMS))
    if run:
        columns = min(columns, max(SHORTEST_RUN, run & -run))
    return blocks | {"XBLOCK": columns, "R0_BLOCK": min(_whole(summed), PROGRAM // columns)}


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
    is_long = divisor >= (SHORTEST if size < FEW_MASKED * LONGEST else LONGEST)
    return divisor if is_long else min(_whole(size), LONGEST)


def _whole(size: int) -> int:
    """The length of a block for a whole axis."""
    return 1 << max(size - 1, 0).bit_length()
