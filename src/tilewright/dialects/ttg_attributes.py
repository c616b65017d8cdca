"""Layout attributes in text: the aliases they get, and their one spelling.

`#ttg.blocked<{sizePerThread=[4], …}>` is read in any spelling and kept as Triton prints it.
"""

from __future__ import annotations

from tilewright.dialects.layout_rules import check_type
from tilewright.ir.aliases import ALIAS_NAMES
from tilewright.ir.attribute_parser import ATTRIBUTE_SPELLINGS, TYPE_RULES
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
_WITHOUT_ALIAS = ("#ttg.slice", "#ttg.dot_op")

SHARED_MEMORY = "#ttg.shared_memory"
TENSOR_MEMORY = "#ttng.tensor_memory"


def _spelling(text: str) -> str:
    try:
        return encoding(text).text
    except LayoutError as error:
        raise ValueError(str(error)) from None


TYPE_RULES.append(check_type)
ALIAS_NAMES.update({name: alias for alias, names in _ALIASES.items() for name in names})
ATTRIBUTE_SPELLINGS.update({name: _spelling for name in (*ALIAS_NAMES, *_WITHOUT_ALIAS) if name != SHARED_MEMORY})
