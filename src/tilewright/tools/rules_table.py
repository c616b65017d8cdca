"""`tilewright rules`: the rewrite rules with their conditions and reasons, as in `docs/rules.md`."""

from __future__ import annotations

from tilewright.transforms import arith_rules, combine, memory_rules, shape_rules
from tilewright.transforms.equations import Equation

HEAD = """# Rewrite rules

The rules that are equations, from the rows that the compiler matches. `python -m tilewright rules` prints this page.
`transforms/equations.py` says how an equation is read, [passes.md](passes.md) how the rules that apply to a program are
shown. Within an op the rows of a table are tried in order, folds before rules.
"""
TABLES = {
    "Canonicalize, folds: arithmetic": arith_rules.IDENTITIES,
    "Canonicalize, folds: shapes": shape_rules.IDENTITIES,
    "Canonicalize, folds: addresses and memory": memory_rules.IDENTITIES,
    "Canonicalize, rules: arithmetic": arith_rules.ROWS,
    "Canonicalize, rules: shapes": shape_rules.ROWS,
    "Canonicalize, rules: addresses and memory": memory_rules.ROWS,
    "Combine": combine.ROWS,
}
COLUMNS = "| rule | equation | if | because |\n|---|---|---|---|\n"


def page() -> str:
    return HEAD + "".join(f"\n## {title}\n\n{COLUMNS}{''.join(map(_row, rows))}" for title, rows in TABLES.items())


def _row(row: Equation) -> str:
    equation = row.text.replace("|", "\\|")
    return f"| {row.name} | `{equation}` | {row.condition} | {row.reason} |\n"
