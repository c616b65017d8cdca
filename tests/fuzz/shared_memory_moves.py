"""Values that move elements within a tile, fold them in an order, or multiply matrices: of what memory holds.

Each production gives what the kind asks for; `RICH_VALUES` takes them in.
"""

from __future__ import annotations

from math import prod

from kinds import Kind
from shared_memory_draft import RICH_VALUES, Draft, index, named, small, unsigned_zeros, value

COMBINES = {
    "larger": "tl.where(a > b, a, b)",
    "last_positive": "tl.where(b > 0, b, a)",
    "right": "b",
}
"""Functions of two elements that scans may call: associative, and some not commutative."""
PRODUCTS = ("float16", "bfloat16", "float32", "int8")
SQUARE = (16, 16)


def head(name: str) -> str:
    """The text of a function of two elements."""
    return f"@tw.jit\ndef {name}(a, b):\n    return {COMBINES[name]}\n\n\n"


def _reshaped(draft: Draft, kind: Kind, depth: int) -> str:
    """The text of a tile as rows and columns, turned, and flat again."""
    size = prod(kind.shape)
    rows = draft.rng.choice([extent for extent in (2, 4, 8, 16) if extent < size])
    turned = f"tl.trans(tl.reshape({value(draft, kind, depth)}, [{rows}, {size // rows}]))"
    return f"tl.reshape({turned}, {list(kind.shape)})"


def _halves(draft: Draft, kind: Kind, depth: int) -> str:
    """The even and the odd elements, joined in another way."""
    rng = draft.rng
    low, high = draft.name("low"), draft.name("high")
    pairs = f"tl.reshape({value(draft, kind, depth)}, [{prod(kind.shape) // 2}, 2])"
    draft.say(f"{low}, {high} = tl.split({pairs})")
    form = rng.choice(("tl.join({1}, {0})", "tl.join({0}, {1} + {0})", "tl.cat({0}, {1}, can_reorder=True)"))
    return f"tl.reshape({form.format(low, high)}, {list(kind.shape)})"


def _gathered(draft: Draft, kind: Kind, depth: int) -> str:
    """Elements of a tile at any places along an axis."""
    axis = draft.rng.randrange(len(kind.shape))
    number = draft.shapes.index(kind.shape)
    where = index(draft, kind.shape, distinct=False) if draft.rng.random() < 0.7 else f"i{number} // 2"
    if not kind.is_float and draft.rng.random() < 0.3:
        where = f"{value(draft, kind, 0)}.to(tl.int32)"
    return f"tl.gather({value(draft, kind, depth)}, (i{number} * 0 + ({where})) & {kind.shape[axis] - 1}, {axis})"


def _combined(draft: Draft, kind: Kind, depth: int) -> str:
    """A scan by a function of the program's own."""
    function = draft.rng.choice(list(COMBINES))
    draft.combines.add(function)
    reverse = draft.rng.choice(("", ", reverse=True"))
    operand = unsigned_zeros(kind, value(draft, kind, depth))
    return f"tl.associative_scan({operand}, {draft.rng.randrange(len(kind.shape))}, {function}{reverse})"


def product(draft: Draft, kind: Kind, depth: int) -> str:
    """A matrix product, exact because its numbers are small."""
    if kind.shape != SQUARE or kind.dtype not in PRODUCTS:
        return value(draft, kind, depth)
    a, b = (named(draft, kind, small(draft, kind, value(draft, kind, depth))) for _ in range(2))
    call = f'tl.dot({a}, {b}, input_precision="ieee")' if kind.dtype == "float32" else f"tl.dot({a}, {b})"
    return f"{call}.to(tl.{kind.dtype})"


RICH_VALUES += [_reshaped, _halves, _gathered, _combined]
