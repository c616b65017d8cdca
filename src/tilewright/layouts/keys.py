"""Keys of a layout attribute: their spelling, checking and printing, as in `order = [1, 0]` and the field `order`.

Triton 3.5.1's spelling is rewritten to 3.9's before a layout is read:

3.5.1                                                              3.9
CTAsPerCGA = [1, 2], CTASplitNum = [1, 2], CTAOrder = [1, 0]       CGALayout = [[0, 1]]
amd_wmma: warpsPerCTA = [2, 2]                                     ctaLayout = {warp = [[0, 1], [1, 0]]}
amd_mfma: elementType = f64                                        elementBitWidth = 64
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tilewright.layouts.attribute_text import Value, Written
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.linear_layout import Subspace

Bases = tuple[tuple[int, ...], ...]
REQUIRED = object()
MAX_SIZE = 1 << 30


class Key(NamedTuple):
    """One key.

    Attributes:
        spelled: the key in the text.
        field: the field of the encoding.
        read: from the value in the text to the value of the field; raises LayoutError.
        default: what the field is when the key is absent; a key with its default is not printed.
        printed: the key is printed also with its default.
    """

    spelled: str
    field: str
    read: Callable[[Value, str], Any]
    default: Any = REQUIRED
    printed: bool = False


def integer(value: Value, key: str) -> int:
    """A number that is no negative one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise LayoutError(f"{key} must be a number, not {_shown(value)}")
    demand(0 <= value <= MAX_SIZE, f"{key} must be between 0 and 2**30, not {value}")
    return value


def boolean(value: Value, key: str) -> bool:
    """`true` or `false` (or 1, 0)."""
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise LayoutError(f"{key} must be true or false, not {_shown(value)}")


def integers(value: Value, key: str) -> tuple[int, ...]:
    """`[1, 2]`."""
    if not isinstance(value, list):
        raise LayoutError(f"{key} must be a list of numbers, not {_shown(value)}")
    return tuple(integer(item, f"every element of {key}") for item in value)


def bases(value: Value, key: str) -> Bases:
    """`[[0, 1], [2, 0]]`, all rows of one length."""
    if not isinstance(value, list):
        raise LayoutError(f"{key} must be a list of lists of numbers, not {_shown(value)}")
    rows = tuple(integers(row, f"every element of {key}") for row in value)
    demand(len(set(map(len, rows))) <= 1, f"all elements of {key} must have one length")
    return rows


CGA = Key("CGALayout", "cga", bases, ())


def _shown(value: Value) -> str:
    match value:
        case Written():
            return f"#{value.name}"
        case bool():
            return str(value).lower()
        case list():
            return "a list"
        case dict():
            return "a dictionary"
    return f"{value}"


def spelled(value: object) -> str:
    """The text of a value of a field."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(spelled, value))}]"
        case dict():
            return f"{{{', '.join(f'{key} = {spelled(item)}' for key, item in value.items())}}}"
    return getattr(value, "text", None) or str(value)


def read_keys(written: dict[str, Value], keys: Sequence[Key], name: str) -> dict[str, Any]:
    """The fields that `written` gives; raises LayoutError about missing, unknown and malformed keys."""
    known = {key.spelled for key in keys}
    for word in written:
        demand(word in known, f"#{name} has no key {word}; it has {', '.join(k.spelled for k in keys)}")
    fields: dict[str, Any] = {}
    for key in keys:
        if key.spelled in written:
            fields[key.field] = key.read(written[key.spelled], key.spelled)
        else:
            demand(key.default is not REQUIRED, f"#{name} needs the key {key.spelled}")
            fields[key.field] = key.default
    return fields


def print_keys(values: Iterable[tuple[str, object]]) -> str:
    """`a = 1, b = [2]`."""
    return ", ".join(f"{key} = {spelled(value)}" for key, value in values)


# Rules that several kinds share.


def power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def demand_powers(values: Sequence[int], key: str) -> None:
    demand(
        all(map(power_of_two, values)), f"every element of {key} must be a power of two, not {spelled(tuple(values))}"
    )


def demand_order(order: Sequence[int]) -> None:
    demand(
        sorted(order) == list(range(len(order))),
        f"order must be a permutation of 0..(rank-1), but was {spelled(tuple(order))}",
    )


def demand_cga(cga: Bases, rank: int) -> None:
    """Blocks are dealt out along one dimension at a time, each step once."""
    for row in cga:
        demand(len(row) == rank, f"every element of CGALayout must have {rank} numbers, not {len(row)}")
    demand_permutation(cga, "CGALayout")


def demand_permutation(rows: Sequence[Sequence[int]], key: str) -> None:
    """Every row is zero or one power of two in one dimension; no two are alike, none is left out below the largest."""
    used: set[tuple[int, int]] = set()
    for row in rows:
        steps = [(dim, step) for dim, step in enumerate(row) if step]
        demand(len(steps) <= 1, f"{key}: {spelled(tuple(row))} moves in more than one dimension")
        for dim, step in steps:
            demand(power_of_two(step), f"{key}: {step} in {spelled(tuple(row))} is no power of two")
            demand((dim, step) not in used, f"{key}: {spelled(tuple(row))} stands there twice")
            used.add((dim, step))
    for dim, step in used:
        demand(step == 1 or (dim, step >> 1) in used, f"{key}: a step of {step >> 1} in dimension {dim} is missing")


def demand_onto(rows: Sequence[Sequence[int]], key: str, *, once: bool = False) -> None:
    """Steps reach every place below the largest one; with `once`, those that move reach each in one way only."""
    extents = [max(column).bit_length() for column in zip(*rows, strict=True)]
    columns = []
    for row in rows:
        column = 0
        for step, extent in zip(row, extents, strict=True):
            column = column << extent | step
        columns.append(column)
    rank = len(Subspace(columns).pivots)
    demand(rank == sum(extents), f"{key}: there are places that no sum of the steps reaches")
    demand(not once or rank == sum(map(bool, columns)), f"{key}: several sums of the steps reach the same place")


_TRIPLE = ("CTAsPerCGA", "CTASplitNum", "CTAOrder")
_ELEMENT_BITS = {"f64": 64, "f32": 32, "i32": 32}


def current_spelling(written: Written) -> Written:
    """`written` as 3.9 would write it; the same object when it already is."""
    keys = written.keys
    if any(key in keys for key in _TRIPLE):
        keys = _with_cga_layout(keys)
        rank = len(integers(written.keys["CTAOrder"], "CTAOrder"))
        if written.name == "ttg.nvmma_shared" and rank != 2:
            keys["rank"] = rank
    if written.name == "ttg.amd_wmma" and "warpsPerCTA" in keys:
        keys = _with_cta_layout(keys)
    elif written.name == "ttg.amd_mfma":
        keys = _mfma_keys(keys)
    return written if keys is written.keys else replace(written, keys=keys)


def _with_cga_layout(keys: dict[str, Value]) -> dict[str, Value]:
    demand(all(key in keys for key in _TRIPLE), f"{', '.join(_TRIPLE)} go together, but some of them are missing")
    demand("CGALayout" not in keys, f"CGALayout is given as well as {', '.join(_TRIPLE)}")
    blocks, splits, order = (integers(keys[key], key) for key in _TRIPLE)
    return {key: value for key, value in keys.items() if key not in _TRIPLE} | {
        "CGALayout": _as_value(cga_layout(blocks, splits, order))
    }


def cga_layout(blocks: tuple[int, ...], splits: tuple[int, ...], order: tuple[int, ...]) -> Bases:
    """The division among blocks: `splits` along each dimension, the rest hold copies; `order[0]` changes fastest."""
    demand(len(blocks) == len(splits) == len(order), f"{', '.join(_TRIPLE)} must have one length")
    demand_order(order)
    demand_powers(blocks, _TRIPLE[0])
    demand_powers(splits, _TRIPLE[1])
    rank, rows = len(order), []
    for dim in order:
        demand(splits[dim] <= blocks[dim], f"CTASplitNum is larger than CTAsPerCGA in dimension {dim}")
        steps = [1 << bit for bit in range(splits[dim].bit_length() - 1)]
        steps += [0] * (blocks[dim].bit_length() - splits[dim].bit_length())
        rows += [tuple(step if d == dim else 0 for d in range(rank)) for step in steps]
    return tuple(rows)


def _with_cta_layout(keys: dict[str, Value]) -> dict[str, Value]:
    demand("ctaLayout" not in keys, "ctaLayout is given as well as warpsPerCTA")
    warps = integers(keys["warpsPerCTA"], "warpsPerCTA")
    rows = cga_layout(warps, warps, tuple(reversed(range(len(warps)))))
    rest = {key: value for key, value in keys.items() if key != "warpsPerCTA"}
    return rest | {"ctaLayout": {"warp": _as_value(rows)}, "rank": len(warps)}


def _mfma_keys(keys: dict[str, Value]) -> dict[str, Value]:
    if "elementType" in keys:
        kind = keys["elementType"]
        if not isinstance(kind, str) or kind not in _ELEMENT_BITS:
            raise LayoutError(f"elementType must be f64, f32 or i32, not {kind}")
        keys = {key: value for key, value in keys.items() if key != "elementType"}
        keys["elementBitWidth"] = _ELEMENT_BITS[kind]
    tiles = keys.get("tilesPerWarp")
    if isinstance(tiles, list) and all(tile == 1 for tile in tiles):
        keys = {key: value for key, value in keys.items() if key != "tilesPerWarp"}
    return keys


def _as_value(rows: Bases) -> Value:
    return [list(row) for row in rows]
