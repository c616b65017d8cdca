"""`tilewright passes`: every pass, what it does and where it runs, as `docs/pass-list.md` has it."""

from __future__ import annotations

from tilewright.tools.opt_passes import CPU_PASSES, PASSES, PIPELINES, REPORTS, Report, Row, purpose

HEAD = """# All passes

The passes that `tilewright opt` runs one by one, from the table that it looks them up in and from the pipelines.
`python -m tilewright passes` prints this page; [passes.md](passes.md) says how passes are run over text.

A pipeline is a list of passes under one name: `ttir`, or `ttir-80` with the compute capability of a GPU. It may give
the reason why a pass stands where it does. The flags are those of Triton's `triton-opt`.
"""
COLUMNS = "| pass | does | in the pipelines | because | Triton's flag |\n|---|---|---|---|---|\n"
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
    return f"| `{row.name}` | {purpose(row)} | {pipelines} | {reasons} | {flags} |\n"
