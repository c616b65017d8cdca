"""MLIR string literals: printable ASCII as it is, `\\\\`, and two hexadecimal digits for every other byte."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\([nt\"\\]|[0-9A-Fa-f]{2})")
_SPECIAL = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def quoted(text: str) -> str:
    """`text` in quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(byte) for byte in text.encode(errors="surrogateescape")) + '"'


def unquoted(body: str) -> str:
    """The text between the quotes with its escapes resolved."""
    if "\\" not in body:
        return body
    return _ESCAPE.sub(_resolve, body.encode()).decode(errors="surrogateescape")


def _escaped(byte: int) -> str:
    if byte == 0x5C:
        return "\\\\"
    return chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:02X}"


def _resolve(match: re.Match[bytes]) -> bytes:
    return _SPECIAL.get(match[1]) or bytes([int(match[1], 16)])
