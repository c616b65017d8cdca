"""Conditions as people write them: `y - x - 256 >= 0 or x - y - 256 >= 0`."""

from __future__ import annotations

from tilewright.analysis.guard_conditions import ALWAYS, Comparison, Condition, Connection, Part, Remainder, Scaled, Sum
from tilewright.analysis.integer_forms import Symbol


def condition_text(condition: Condition) -> str:
    if isinstance(condition, Comparison):
        return f"{sum_text(condition.sum)} {condition.relation} 0"
    if not condition.of:
        return "always" if condition == ALWAYS else "never"
    parts = [(condition_text(c), isinstance(c, Connection)) for c in condition.of]
    return f" {condition.word} ".join(f"({text})" if nested else text for text, nested in parts)


def sum_text(sum: Sum) -> str:
    words = [_product_text(factor, list(map(_symbol_text, monomial))) for monomial, factor in sum.terms.items()]
    words += [_product_text(factor, [_part_text(part)]) for factor, part in sum.parts]
    return " + ".join(words).replace("+ -", "- ") or "0"


def _symbol_text(symbol: Symbol) -> str:
    return symbol.source.name or f"v{symbol.number}"


def _product_text(factor: int, words: list[str]) -> str:
    if factor == -1 and words:
        return "-" + "·".join(words)
    return "·".join([str(factor)] * (factor != 1 or not words) + words)


def _part_text(part: Part) -> str:
    if isinstance(part, Scaled):
        return f"({sum_text(part.left)})·({sum_text(part.right)})"
    if isinstance(part, Remainder):
        return f"({sum_text(part.of)}) mod {part.divisor}"
    return f"{'min' if part.sign < 0 else 'max'}({', '.join(map(sum_text, part.among))})"
