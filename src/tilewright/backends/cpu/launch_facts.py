"""The facts that a launch needs, as the first line of the LLVM IR, so that the text can be compiled by itself.

    ; launch: {"entry": "add", "scratch_bytes": 512, "arguments": ["*fp32", "i32"], "stored": [0]}

A text without such a line (or with an edited one) can replace a stage as well: the facts then come from the previous
stages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_PREFIX = "; launch: "
_NAMES = ("entry", "scratch_bytes", "arguments", "stored", "reports", "waits", "spins", "sanitizer")


def text_of(metadata: Mapping[str, Any]) -> str:
    """The line for these facts."""
    return f"{_PREFIX}{json.dumps({name: metadata[name] for name in _NAMES if name in metadata})}\n"


def read(text: str) -> dict[str, Any]:
    """The facts that a text begins with; none when it has no such line.

    Raises:
        ValueError: the line is no JSON object.
    """
    line = text.partition("\n")[0]
    if not line.startswith(_PREFIX):
        return {}
    found: dict[str, Any] = json.loads(line.removeprefix(_PREFIX))
    return {name: found[name] for name in _NAMES if name in found}
