"""Elements packed into the words that memory instructions move.

    words = PackedWords.of(bits=16, vector=8)      # 4 words of 32 bits, 2 elements in each
    words.pack(w, "half", eight_values)      # four i32
    words.unpack(w, "half", four_words)      # the eight values again

A boolean (i1) is a byte in memory, 1 for true, as on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.backends.nvidia.lower.access_plan import WORD


class PackedWords(NamedTuple):
    """The packing into words of elements that are moved at once.

    Attributes:
        width: bits of each word.
        number: the number of words.
        elements: the number of elements of each.
    """

    width: int
    number: int
    elements: int

    @classmethod
    def of(cls, bits: int, vector: int) -> PackedWords:
        """Words for `vector` elements of `bits` bits each in memory."""
        width = min(bits * vector, max(WORD, bits))
        return cls(width, bits * vector // width, width // bits)

    @property
    def type(self) -> str:
        """The LLVM type of a word."""
        return f"i{self.width}"

    @property
    def suffix(self) -> str:
        """The end of the instruction's name: `.v4.b32`."""
        return f"{f'.v{self.number}' if self.number > 1 else ''}.b{self.width}"

    def pack(self, w: LlvmWriter, element: str, values: Sequence[str]) -> list[str]:
        """The words that hold these elements."""
        if element == "i1":
            element, values = "i8", [BYTES.get(value) or w.emit(f"zext i1 {value} to i8") for value in values]
        found = []
        for first in range(0, len(values), self.elements):
            found.append(self._packed(w, element, values[first : first + self.elements]))
        return found

    def _packed(self, w: LlvmWriter, element: str, values: Sequence[str]) -> str:
        known = [bits_of_literal(element, value) for value in values]
        if all(bits is not None for bits in known):
            step = self.width // self.elements
            return str(sum((bits or 0) << step * number for number, bits in enumerate(known)))
        if len(values) == 1:
            return as_integer(w, element, values[0])
        type, packed = f"<{len(values)} x {element}>", "poison"
        for number, value in enumerate(values):
            packed = w.emit(f"insertelement {type} {packed}, {element} {value}, i32 {number}")
        return w.emit(f"bitcast {type} {packed} to {self.type}")

    def unpack(self, w: LlvmWriter, element: str, words: Sequence[str]) -> list[str]:
        """The elements in these words."""
        inside = "i8" if element == "i1" else element
        found = []
        for word in words:
            if self.elements == 1:
                found.append(from_integer(w, inside, word))
                continue
            type = f"<{self.elements} x {inside}>"
            vector = w.emit(f"bitcast {self.type} {word} to {type}")
            found += [w.emit(f"extractelement {type} {vector}, i32 {number}") for number in range(self.elements)]
        return [w.emit(f"icmp ne i8 {value}, 0") for value in found] if element == "i1" else found


def as_integer(w: LlvmWriter, element: str, value: str) -> str:
    """The bits of a value, as an integer as wide as it is."""
    if element.startswith("i"):
        return value
    if element.startswith("ptr"):
        return w.emit(f"ptrtoint {element} {value} to i64")
    return w.emit(f"bitcast {element} {value} to {INTEGERS[element]}")


def from_integer(w: LlvmWriter, element: str, value: str) -> str:
    """The value with these bits."""
    if element.startswith("i"):
        return value
    if element.startswith("ptr"):
        return w.emit(f"inttoptr i64 {value} to {element}")
    return w.emit(f"bitcast {INTEGERS[element]} {value} to {element}")


def bits_of_literal(element: str, text: str) -> int | None:
    """The bits of a constant; None for values that are known only when the program runs."""
    if element.startswith("i"):
        return int(text) & ((1 << int(element[1:])) - 1) if text.lstrip("-").isdigit() else None
    if not text.startswith("0x"):
        return None
    if element == "float":  # written as the double that it is
        return int(np.uint64(int(text, 16)).view(np.float64).astype(np.float32).view(np.uint32))
    return int(text[3:] if text[2] in "HR" else text, 16)


BYTES = {"false": "0", "true": "1"}
INTEGERS = {"bfloat": "i16", "double": "i64", "float": "i32", "half": "i16"}
