"""`tilewright passes`: every pass, what it does and where it runs, as `docs/pass-list.md` has it."""

from __future__ import annotations

from tilewright.tools.opt_passes import CPU_PASSES, PASSES, PIPELINES, REPORTS, Report, Row, purpose

HEAD = """# All passes

The passes that `tilewright opt` runs one by one, from the table that it looks them up in and from the pipelines.
`python -m tilewright passes` prints this page; [passes.md](passes.md) says how passes are run over text.

A pipeline is a list of passes under one name: `ttir`, or `ttir-80` with the compute capability of a GPU. It may give
the reason why a pass stands where it does. The flags are those of Triton's `triton-opt`.
The name of a pass for CPUs leads to a few lines of text before and behind it.
"""
COLUMNS = "| pass | does | in the pipelines | because | Triton's flag |\n|---|---|---|---|---|\n"
SECTIONS = {
    "inline_tiles": "tiles-to-nests.md#calls-hand-over-scalars-only",
    "check_legality": "tiles-to-nests.md#what-has-no-lowering-is-refused",
    "order_programs": "tiles-to-nests.md#the-order-of-programs",
    "interchange_programs": "tiles-to-nests.md#programs-that-share-tiles-by-turns",
    "if_conversion": "tiles-to-nests.md#branches-in-functions-of-elements",
    "expand_map": "tiles-to-nests.md#functions-of-elements",
    "expand_reports": "tiles-to-nests.md#prints-and-assertions",
    "expand_histogram": "tiles-to-nests.md#histograms",
    "expand_unsplat": "tiles-to-nests.md#the-only-element-of-a-tile",
    "narrow_exactly": "tiles-to-nests.md#numbers-that-a-narrow-type-holds",
    "simplify_masks": "tiles-to-nests.md#choices-within-choices",
    "merge_stores": "tiles-to-nests.md#two-stores-that-exclude-each-other",
    "exchange_pairs": "sorting-networks.md#sums-of-pairs-each-element-asks-its-partner",
    "add_short_tiles": "loop-versions.md#sorts-of-few-elements",
    "pointer_induction": "tiles-to-nests.md#pointers-that-a-loop-moves",
    "transpose_tiles": "tiles-to-nests.md#tiles-that-lie-along-their-first-axis",
    "version_single_trips": "loop-versions.md#loops-along-a-row-that-have-one-turn",
    "interchange_loops": "tiles-to-nests.md#loops-inside-the-loops-over-elements",
    "bound_rows": "memory-dependences.md#rows-that-an-index-chooses-bounds",
    "bufferize_carried": "tiles-to-nests.md#other-tiles-that-cross-loops-and-branches",
    "find_networks": "sorting-networks.md#chains-of-steps-one-op-on-a-buffer",
    "fuse_loops": "tiles-to-nests.md#a-kernel-becomes-nests",
    "split_reductions": "tiles-to-nests.md#a-kernel-becomes-nests",
    "distribute_loops": "tiles-to-nests.md#numbers-of-rows",
    "add_alias_checks": "tiles-to-nests.md#a-kernel-becomes-nests",
    "allocate_buffers": "tiles-to-nests.md#a-kernel-becomes-nests",
    "version_atomics": "loop-versions.md#atomics-of-a-launch-that-one-thread-runs",
    "version_strides": "loop-versions.md#strides-a-nest-is-written-twice",
    "store_columns": "loop-versions.md#rows-that-may-lie-anywhere-stores-along-columns",
    "blocked_transpose": "loop-versions.md#stores-across-the-loads-square-blocks",
    "merge_programs": "loop-versions.md#rows-that-go-on-in-the-next-program",
    "clip_to_mask": "clipped-loops.md#clipped-loops-a-row-ends-where-its-mask-ends",
    "seen_lanes": "dot-micro-kernel.md#rows-and-columns-that-nobody-sees",
    "first_turn": "dot-micro-kernel.md#sums-that-begin-with-zeros",
    "copy_elision": "dot-micro-kernel.md#packing-and-when-it-is-left-out",
    "keep_panels": "dot-micro-kernel.md#panels-that-the-next-program-needs-again",
    "merge_turns": "dot-micro-kernel.md#turns-that-are-multiplied-at-once",
    "choose_widths": "vector-loops.md#vector-widths-and-interleaved-rows",
    "join_rows": "vector-loops.md#vector-widths-and-interleaved-rows",
    "redirect_stores": "memory-dependences.md#where-the-test-fails-buffers",
    "split_index_sets": "loop-versions.md#rows-of-two-arrays-one-loop-for-each",
    "version_loops": "loop-versions.md#what-is-true-nearly-always-a-loop-is-written-twice",
    "lower_nests": "vector-loops.md#from-a-nest-to-loops",
    "expand_dots": "vector-loops.md#a-product-of-tiles",
    "expand_networks": "sorting-networks.md#a-network-as-loops-over-vectors",
    "interchange_rows": "vector-loops.md#loop-interchange-sums-along-rows",
    "keep_lanes": "vector-loops.md#lanes-that-all-rows-share-computed-once",
    "stream_stores": "loop-versions.md#loops-that-store-past-the-caches-and-loops-that-ask-ahead",
    "prefetch_rows": "loop-versions.md#rows-that-the-next-program-reads",
    "unroll_and_jam": "vector-loops.md#parallel-loops-unrolled-and-jammed",
    "version_single_vectors": "loop-versions.md#rows-of-which-one-vector-counts",
    "scalarize_gathers": "vector-loops.md#scalar-loads-of-gathered-indices",
    "split_maxima": "vector-loops.md#nan-propagating-maxima",
    "control_flow_sink": "loop-versions.md#what-only-one-version-needs",
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
