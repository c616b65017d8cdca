"""The cost figures by which the CPU back end chooses, one row per kind of CPU.

Rows differ in what the instruction set has and in what the processor is fast at. Cache sizes are those of common cores,
since code that is compiled once runs on many. ARCHITECTURE.md has the measurements behind the figures.
"""

from __future__ import annotations

from tilewright.backends.llvm.machine import Target
from tilewright.support.named_tuple import NamedTuple

CACHE_LINE = 64
"""Bytes of a cache line."""

SECOND_LEVEL = 2
"""LLVM's name for the L2 cache, where prefetches go whose lines the L1 cache has no room for yet."""

PAGE = 4096
"""Bytes after which places in memory look alike to a load that waits for stores, and to the L1 cache."""

WAYS = 8
"""Lines on one set of the L1 cache from which on they push each other out of it."""

PRODUCT_ROWS = 8
"""Rows of tiles of a product whose programs share columns one after the other, a power of two: with four or sixteen it
takes up to 2 % longer."""

SINGLE_ROW = 4
"""Rows of a block of a product that take as long as a single row, whose multiply-adds wait for its loads and for each
other."""


class CpuCosts(NamedTuple):
    """The resources of a kind of CPU, and the sizes from which on something pays off.

    Attributes:
        registers: vector registers.
        splits_vectors: instructions on the widest vectors are executed as two halves.
        chains: results that a loop has in flight, so that it need not wait for them: the cycles that a multiply-add
            takes, times how many begin per cycle.
        chunks: vectors of one step of a loop that reduces nothing.
        chunks_with_powers: the most vectors of one step with exp, whose constants and table take registers: LLVM keeps
            what is computed of more of them in memory (5 to 8 % slower).
        product_columns: vectors side by side in the block of a product that stays in registers.
        grouped_columns: the same where one instruction multiplies several numbers of a word.
        square_columns: the same where one instruction multiplies two rows by two columns.
        prefetched_rows: the least number of rows of a product's tile for which its next operands are prefetched.
        in_place_blocks: blocks of rows of a product up to which the right matrix is read in place, though its rows
            collide in the L1 cache.
        copies_colliding: a left matrix that lies transposed is copied before a product if its rows are whole pages
            apart: multiply-adds are so fast that they wait for the L2 cache.
        packs_far_rows: a right matrix that several blocks read from the program's array is packed though its rows do
            not collide in the L1 cache: loads that cross cache lines, and those from many pages, take longer.
        kept_rows: min bytes of the packed rows of a product that are kept for the next one, where packing only copies
            them.
        kept_groups: the same where packing interleaves them, as one instruction multiplies several numbers of a word;
            0: they are never kept.
        merged_groups: max groups of k per iteration for several iterations of a product to be multiplied at once, where
            one instruction takes a group, as a block of C is loaded and stored for few multiply-adds; 0: they never
            are.
        adds_results_last: a block of a product is read behind its last step, and not waited for before the first.
        transposed_pieces: pieces of 16 bytes of each row that a transpose in registers reads at a time: a cache line,
            as rows a PAGE apart share one set of the L1 cache, which fetches the rest again; half of one where
            registers are few.
        kept_panels: bytes of the packed right matrices that loops of products keep for the next programs.
        near_caches: bytes up to which arrays that are used again and again are in near caches.
        prefetched_row: max bytes of a row that is prefetched; two such rows fit into L1 together with what is stored.
        prefetched_tile_row: the same of a row of a tile; processors find the rest of longer ones.
        prefetched_short_row: max bytes of a row of a tile that is prefetched an iteration of a loop ahead; 0: never.
        prefetches_far_rows: rows of a tile that each iteration finds on other pages are prefetched, too.
        prefetched_under_mask: bytes that a masked load prefetches; 0: the processor prefetches for it, too.
        prefetched_indexed_row: bytes ahead that a copied row at a loaded address is prefetched; 0: none.
        prefetched_results: products prefetch the memory that their result goes to: multiply-adds are so fast that they
            wait for the store behind them.
        max_prefetched_grid: max bytes loaded by a grid whose rows that are read twice are prefetched one program ahead;
            from memory they come faster by themselves.
        streams_from: bytes that a grid stores from which stores bypass the caches; 0: never.
        streamed: bytes in a step of a loop that stores past the caches: shorter steps wait for each other.
        stored_before: bytes behind a store after which it does not delay loads any more.
        slow_masked_stores: a store under a mask takes as long as many others.
        merged_row: bytes of a row up to which programs that add up columns run as one, since each row that it starts
            takes as long as several cache lines of it; 0: never.
        gathers: the instruction that reads elements of 32 or 64 bits here and there is no slower than scalar loads.
    """

    registers: int
    splits_vectors: bool
    chains: int
    chunks: int
    chunks_with_powers: int
    product_columns: int
    grouped_columns: int
    square_columns: int
    prefetched_rows: int
    in_place_blocks: int
    copies_colliding: bool
    packs_far_rows: bool
    kept_rows: int
    kept_groups: int
    merged_groups: int
    adds_results_last: bool
    transposed_pieces: int
    kept_panels: int
    near_caches: int
    prefetched_row: int
    prefetched_tile_row: int
    prefetched_short_row: int
    prefetches_far_rows: bool
    prefetched_under_mask: int
    prefetched_indexed_row: int
    prefetched_results: bool
    max_prefetched_grid: int
    streams_from: int
    streamed: int
    stored_before: int
    slow_masked_stores: bool
    merged_row: int
    gathers: bool


X86 = CpuCosts(
    registers=16,
    splits_vectors=False,
    chains=8,
    chunks=4,
    chunks_with_powers=2,
    product_columns=2,
    grouped_columns=2,
    square_columns=2,
    prefetched_rows=1,
    in_place_blocks=4,
    copies_colliding=False,
    packs_far_rows=False,
    kept_rows=4 << 10,
    kept_groups=0,
    merged_groups=0,
    adds_results_last=False,
    transposed_pieces=2,
    kept_panels=512 << 10,
    near_caches=512 << 10,
    prefetched_row=8192,
    prefetched_tile_row=2048,
    prefetched_short_row=0,
    prefetches_far_rows=False,
    prefetched_under_mask=0,
    prefetched_indexed_row=0,
    prefetched_results=False,
    max_prefetched_grid=4 << 20,
    streams_from=16 << 20,
    streamed=128,
    stored_before=320,
    slow_masked_stores=False,
    merged_row=0,
    gathers=False,
)
ZEN3 = X86._replace(slow_masked_stores=True)
"""AMD's processors with AVX2, whose `vmaskmovps` to memory takes some 25 cycles."""
AVX512 = X86._replace(registers=32, chunks_with_powers=8, grouped_columns=4, transposed_pieces=4)
ZEN4 = AVX512._replace(splits_vectors=True, in_place_blocks=8, kept_rows=24 << 10)
ZEN5 = AVX512._replace(
    copies_colliding=True,
    kept_groups=8 << 10,
    merged_groups=16,
    adds_results_last=True,
    kept_panels=1 << 20,
    prefetched_short_row=4096,
    prefetches_far_rows=True,
    prefetched_under_mask=2048,
    prefetched_indexed_row=2048,
    prefetched_results=True,
    gathers=True,
)
"""AMD's Zen 5 with registers of 512 bits, where no load under a mask has anything fetched ahead."""
INTEL = AVX512._replace(
    prefetched_rows=64,
    in_place_blocks=1,
    copies_colliding=True,
    packs_far_rows=True,
    kept_groups=1 << 10,
    adds_results_last=True,
    kept_panels=1 << 20,
    prefetched_short_row=4096,
    prefetched_under_mask=2048,
    prefetched_indexed_row=4096,
    prefetched_results=True,
    merged_row=512,
)
"""Intel's server processors from Ice Lake on, measured on Sapphire Rapids."""
SAPPHIRE_RAPIDS = INTEL._replace(gathers=True)
"""Microcode made the gathers of earlier ones slow, against attacks on other programs."""
NEON = AVX512._replace(product_columns=4, streams_from=0)
"""Two multiply-adds a cycle, each of four: Cortex-A76, Neoverse N1."""
NEON_WIDE = NEON._replace(chains=16)
"""Four multiply-adds a cycle, each of four: Neoverse V2, Apple's; V1 where its scalable vectors are not used."""
SVE_256 = NEON
"""Two multiply-adds a cycle, each of eight, which take four cycles: Neoverse V1."""
SVE_512 = SVE_256._replace(chains=16)
"""Two multiply-adds a cycle, each of sixteen, which take nine cycles: A64FX, at 16 of 18 chains, as blocks are even."""

WIDE_X86 = {"icelake-server": INTEL, "sapphirerapids": SAPPHIRE_RAPIDS, "znver4": ZEN4, "znver5": ZEN5}
"""Processors with registers of 512 bits that have figures of their own."""

WIDE_ARM = frozenset({"apple-m1", "apple-m2", "neoverse-v1", "neoverse-v2"})
"""Models of cores that begin four multiply-adds of vectors a cycle, as Arm's guides of Neoverse V1 and V2 say."""


def costs_of(target: Target) -> CpuCosts:
    """The figures for a machine."""
    if target.has_sve:
        return SVE_512 if target.vector_bits == 512 else SVE_256
    if target.neon:
        return NEON_WIDE if target.tune in WIDE_ARM else NEON
    if not target.has_avx512f:
        return ZEN3 if target.tune in ("znver2", "znver3") else X86
    return WIDE_X86.get(target.tune, AVX512) if target.vector_bits == 512 else AVX512
