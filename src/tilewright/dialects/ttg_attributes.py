"""Layout attributes in text: their aliases and their canonical spelling.

`#ttg.blocked<{sizePerThread=[4], …}>` is read in any spelling and kept as Triton prints it.
"""

from __future__ import annotations

import json
import re
from functools import cache

from tilewright.dialects.layout_rules import check_type
from tilewright.ir.aliases import ALIAS_NAMES
from tilewright.ir.attribute_parser import ATTRIBUTE_SPELLINGS, TYPE_RULES
from tilewright.ir.types import OLDER_LAYOUTS
from tilewright.layouts.encodings import LayoutError, encoding

_ALIASES = {
    "blocked": ("#ttg.blocked",),
    "generic_linear": ("#ttg.generic_linear",),
    "linear": ("#ttg.linear",),
    "mma": ("#ttg.nvidia_mma", "#ttg.amd_mfma", "#ttg.amd_wmma"),
    "shared": (
        *("#ttg.swizzled_shared", "#ttg.nvmma_shared", "#ttg.padded_shared", "#ttg.partitioned_shared"),
        *("#ttg.shared_linear", "#ttg.amd_rotating_shared"),
    ),
    "smem": ("#ttg.shared_memory",),
    "tmem": ("#ttng.tensor_memory_encoding",),
    "tmem_scales": ("#ttng.tensor_memory_scales_encoding",),
}
_BLOCKS = re.compile(r"CGALayout = (\[\[[\d, \[\]]*?\]\])")
_RANK = re.compile(r"\brank = (\d+)")
_WITHOUT_ALIAS = ("#ttg.slice", "#ttg.dot_op")

SHARED_MEMORY = "#ttg.shared_memory"
TENSOR_MEMORY = "#ttng.tensor_memory"

OFFSET = "allocation.offset"
"""The attribute of an op for the offset of its shared memory, in bytes."""
SHARED_BYTES = "ttg.shared"
"""The attribute of a module for the size of the shared memory that a program needs, in bytes."""
TWO_CTAS = "ttng.two-ctas"
"""Whether products in tensor memory are those of pairs of CTAs; of a module."""
TENSOR_MEMORY_COLUMNS = "ttg.tensor_memory_size"
"""The attribute of a module for the number of columns of tensor memory that a program gets."""


def _spelling(text: str) -> str:
    try:
        return encoding(text).text
    except LayoutError as error:
        raise ValueError(str(error)) from None


TYPE_RULES.append(check_type)


@cache
def _older(text: str) -> str:
    """The text as Triton 3.5 spells it, which has other keys for several blocks, and for more axes than two."""
    text = _BLOCKS.sub(lambda match: _blocks_text(json.loads(match[1])), text)
    return _RANK.sub(lambda match: _blocks_text([], int(match[1])), text)


def _blocks_text(rows: list[list[int]], rank: int = 0) -> str:
    """`CTAsPerCGA`, `CTASplitNum` and `CTAOrder` for the steps of the bits of a block."""
    rank = rank or len(rows[0])
    blocks, splits, last = [1] * rank, [1] * rank, 0
    for row in rows:
        moving = [axis for axis, step in enumerate(row) if step]
        last = moving[0] if moving else last
        blocks[last] *= 2
        splits[last] *= 2 if moving else 1
    order = list(dict.fromkeys(axis for row in rows for axis, step in enumerate(row) if step))
    axes = list(reversed(range(rank)))
    order = axes if len(order) < 2 else [*order, *(axis for axis in axes if axis not in order)]
    return f"CTAsPerCGA = {blocks}, CTASplitNum = {splits}, CTAOrder = {order}"


OLDER_LAYOUTS.append(_older)
ALIAS_NAMES.update({name: alias for alias, names in _ALIASES.items() for name in names})
ATTRIBUTE_SPELLINGS.update({name: _spelling for name in (*ALIAS_NAMES, *_WITHOUT_ALIAS) if name != SHARED_MEMORY})
