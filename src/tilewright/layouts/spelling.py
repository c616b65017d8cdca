"""Triton 3.5.1's spelling of layouts, rewritten to 3.9's before a layout is read.

3.5.1                                                              3.9
CTAsPerCGA = [1, 2], CTASplitNum = [1, 2], CTAOrder = [1, 0]       CGALayout = [[0, 1]]
amd_wmma: warpsPerCTA = [2, 2]                                     ctaLayout = {warp = [[0, 1], [1, 0]]}
amd_mfma: elementType = f64                                        elementBitWidth = 64
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.layouts.attribute_text import Value, Written
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import Bases, demand_order, demand_powers, integers

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
