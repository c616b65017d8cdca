"""Python's own error messages, where versions differ: texts of messages as Python 3.11 has them."""

from __future__ import annotations

import re

_AS_IN_3_11 = (
    (r"ZeroDivisionError: division by zero", "ZeroDivisionError: integer division or modulo by zero"),  # 3.14
    (r"(too many values to unpack \(expected \d+), got \d+\)", r"\1)"),  # 3.14
)


def as_in_3_11(text: str) -> str:
    """The text with what Python itself says in 3.11's words."""
    for pattern, words in _AS_IN_3_11:
        text = re.sub(pattern, words, text)
    return text
