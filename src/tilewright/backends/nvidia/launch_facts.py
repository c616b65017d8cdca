"""The facts that a launch needs, as the first line of a kernel's LLVM IR and of its PTX: each text stands by itself.

    ; launch: {"entry": "add", "shared": 0, "arguments": ["*fp32", "i32"], "num_warps": 4}          in LLVM IR
    // launch: {"entry": "add", "shared": 0, "arguments": ["*fp32", "i32"], "num_warps": 4}         in PTX

Text that somebody else wrote has no such line; then its list of parameters has to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.backends.nvidia import ptx_text

_MARK = " launch: "
_COMMENTS = {"llir": ";", "ptx": "//"}
_NAMES = (
    *("entry", "arguments", "stored", "reports", "shared", "num_warps", "num_ctas", "cluster_dims", "tmem_size"),
    "tensordesc_meta",
    *("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align"),
)


def text_of(stage: str, metadata: Mapping[str, Any]) -> str:
    """The line for these facts in the text of a stage: `llir` or `ptx`."""
    return f"{_COMMENTS[stage]}{_MARK}{json.dumps({name: metadata[name] for name in _NAMES if name in metadata})}\n"


def read(stage: str, text: str) -> dict[str, Any]:
    """The facts that the text of a stage tells; none where it tells none.

    Raises:
        ValueError: the line is no JSON object.
    """
    line, prefix = text.partition("\n")[0], _COMMENTS[stage] + _MARK
    if line.startswith(prefix):
        found: dict[str, Any] = json.loads(line.removeprefix(prefix))
        return {name: found[name] for name in _NAMES if name in found}
    return ptx_text.facts(text) if stage == "ptx" else {}
