"""`tilewright passes`: every pass, its purpose and the pipelines that run it, as in `docs/pass-list.md`."""

from __future__ import annotations

from tilewright.tools.opt_passes import CPU_PASSES, PASSES, PIPELINES, REPORTS, Report, Row, purpose

HEAD = """# All passes

The passes that `tilewright opt` runs one by one, from the table that it looks them up in and from the pipelines.
`python -m tilewright passes` prints this page; [passes.md](passes.md) says how passes are run over text.

A pipeline is a list of passes under one name: `ttir`, or `ttir-80` with the compute capability of a GPU. It may give
the reason why a pass stands where it does. The flags are those of Triton's `triton-opt`.
The name of a pass for CPUs leads to a few lines of IR before and behind it.
"""
COLUMNS = "| pass | does | in the pipelines | because | Triton's flag |\n|---|---|---|---|---|\n"
SECTIONS = {
    "inline_tiles": "tiles-to-nests.md#calls-pass-scalars-only",
    "check_legality": "tiles-to-nests.md#legality-unsupported-ops-are-refused",
    "order_programs": "tiles-to-nests.md#the-order-of-programs",
    "group_programs": "tiles-to-nests.md#programs-of-products-that-share-columns",
    "interchange_programs": "tiles-to-nests.md#programs-that-share-tiles-cyclically",
    "if_conversion": "tiles-to-nests.md#if-conversion-in-combine-functions",
    "expand_map": "tiles-to-nests.md#mapped-functions",
    "expand_reports": "tiles-to-nests.md#prints-and-assertions",
    "expand_histogram": "tiles-to-nests.md#histograms",
    "expand_unsplat": "tiles-to-nests.md#extracting-the-only-element-of-a-tile",
    "narrow_exactly": "tiles-to-nests.md#exact-conversions-to-narrower-types",
    "simplify_masks": "tiles-to-nests.md#nested-selections-and-masks",
    "merge_stores": "tiles-to-nests.md#two-stores-with-complementary-masks",
    "exchange_pairs": "sorting-networks.md#sums-of-pairs-become-gathers-of-the-partner",
    "add_short_tiles": "loop-versions.md#sorts-of-few-elements",
    "pointer_induction": "tiles-to-nests.md#pointers-as-induction-variables",
    "widen_programs": "loop-versions.md#programs-that-add-up-columns",
    "transpose_tiles": "tiles-to-nests.md#tiles-that-are-contiguous-along-their-first-axis",
    "version_single_trips": "loop-versions.md#loops-with-a-single-iteration",
    "interchange_loops": "tiles-to-nests.md#loop-interchange",
    "bound_rows": "memory-dependences.md#bounds-of-rows-that-an-index-selects",
    "bufferize_carried": "tiles-to-nests.md#bufferisation-of-other-tiles-that-cross-loops-and-branches",
    "find_networks": "sorting-networks.md#chains-of-steps-become-one-op-on-a-buffer",
    "fuse_loops": "tiles-to-nests.md#a-kernel-becomes-nests",
    "split_reductions": "tiles-to-nests.md#a-kernel-becomes-nests",
    "distribute_loops": "tiles-to-nests.md#loop-distribution-expensive-values-per-row",
    "add_alias_checks": "tiles-to-nests.md#a-kernel-becomes-nests",
    "allocate_buffers": "tiles-to-nests.md#a-kernel-becomes-nests",
    "version_atomics": "loop-versions.md#atomics-of-single-threaded-launches",
    "version_strides": "loop-versions.md#strides",
    "store_columns": "loop-versions.md#stores-along-columns",
    "blocked_transpose": "loop-versions.md#blocked-transposes",
    "merge_programs": "loop-versions.md#merged-programs",
    "clip_to_mask": "clipped-loops.md#clipped-loops-a-row-ends-where-its-mask-ends",
    "demanded_lanes": "dot-micro-kernel.md#rows-and-columns-that-are-never-read",
    "elide_zero_fill": "dot-micro-kernel.md#accumulators-that-start-at-zero",
    "copy_elision": "dot-micro-kernel.md#packing-and-copy-elision",
    "keep_panels": "dot-micro-kernel.md#panels-kept-for-the-next-program",
    "merge_iterations": "dot-micro-kernel.md#merged-iterations",
    "choose_widths": "vector-loops.md#vector-widths-and-interleaved-rows",
    "join_rows": "vector-loops.md#vector-widths-and-interleaved-rows",
    "redirect_stores": "memory-dependences.md#buffers-for-stores-that-overlap",
    "split_index_sets": "loop-versions.md#index-set-splitting-rows-of-two-arrays",
    "version_loops": "loop-versions.md#masks-quotients-and-divisions",
    "lower_nests": "vector-loops.md#from-a-nest-to-loops",
    "expand_dots": "vector-loops.md#a-product-of-tiles",
    "expand_networks": "sorting-networks.md#a-network-as-loops-over-vectors",
    "interchange_rows": "vector-loops.md#loop-interchange-sums-along-rows",
    "keep_lanes": "vector-loops.md#lanes-that-all-rows-share-computed-once",
    "stream_stores": "loop-versions.md#streaming-stores-and-prefetches",
    "prefetch_rows": "loop-versions.md#prefetching-the-next-programs-row",
    "unroll_and_jam": "vector-loops.md#parallel-loops-unrolled-and-jammed",
    "version_single_vectors": "loop-versions.md#rows-with-a-single-active-vector",
    "scalarize_gathers": "vector-loops.md#scalar-loads-of-gathered-indices",
    "split_maxima": "vector-loops.md#nan-propagating-maxima",
    "control_flow_sink": "loop-versions.md#control-flow-sinking",
}
"""The sections that show what a pass of the CPU makes of a few lines."""
TABLES: dict[str, tuple[Row | Report, ...]] = {
    "On TTIR and TTGIR": PASSES,
    "From TTIR to vector loops, on CPUs": CPU_PASSES,
    "Reports, which change nothing": REPORTS,
}


def page() -> str:
    return HEAD + "".join(f"\n## {title}\n\n{COLUMNS}{''.join(map(_row, rows))}" for title, rows in TABLES.items())


def _row(row: Row | Report) -> str:
    homes = [
        (name.partition("-")[0], step) for name, steps in PIPELINES.items() for step in steps if step.name == row.name
    ]
    pipelines = ", ".join(dict.fromkeys(name for name, _ in homes))
    reasons = "; ".join(dict.fromkeys(step.reason for _, step in homes if step.reason))
    flags = ", ".join(f"`{flag}`" for flag in row.flags)
    section = SECTIONS.get(row.name)
    name = f"`{row.name}`" if section is None else f"[`{row.name}`]({section})"
    return f"| {name} | {purpose(row)} | {pipelines} | {reasons} | {flags} |\n"
