"""Constant offsets between addresses, moved into the instructions that use the addresses.

    add.s64  %rd2, %rd1, 4;
    @%p2 ld.global.b32 { %r2 }, [ %rd2 + 0 ];            @%p2 ld.global.b32 { %r2 }, [ %rd1 + 4 ];

LLVM does so for its own loads and stores, but those of tiles are inline assembly, which it does not look into. The
addition is removed if its result is used in addresses only. Its first operand must be set by one instruction of the
same block, so that it has the same value wherever the sum is used, and no use may stand between the two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

FUNCTION = re.compile(r"^(?=(?:\.visible |\.weak |\.extern )?\.(?:entry|func)\b)", re.MULTILINE)
"""The start of a function, whose registers are its own."""
_SUM = re.compile(r"\s*add\.s64\s+(%rd\d+), (%rd\d+), (-?\d+);")
_ADDRESS = re.compile(r"\[ ?(%rd\d+)(?: ?\+ ?(-?\d+))? ?\]")
_REGISTER = re.compile(r"%rd\d+")
_TARGET = re.compile(r"\s*(?:@!?%p\d+\s+)?[a-z][\w.:]*\s+(%rd\d+)\b")
_IN_BRACES = re.compile(r"\{[^{}\[\]]*\}")
_BLOCK_ENDS = re.compile(r"\s*[$\w]+:|\s*(?:@!?%p\d+\s+)?(?:bra|brx|ret|call|exit)\b")


def fold_offsets(text: str) -> str:
    """PTX, in which addresses have their constant parts in the instructions."""
    return "".join(_folded(part) if "add.s64" in part else part for part in FUNCTION.split(text))


def _folded(function: str) -> str:
    lines = function.splitlines(keepends=True)
    found = {target: (base, distance) for target, base, distance in _sums(lines)}
    if not found:
        return function

    def address(match: re.Match[str]) -> str:
        if match[1] not in found:
            return match[0]
        base, distance = found[match[1]]
        return f"[ {base} + {distance + int(match[2] or 0)} ]"

    kept = [line for line in lines if (match := _SUM.match(line)) is None or match[1] not in found]
    return _ADDRESS.sub(address, "".join(kept))


def _sums(lines: list[str]) -> Iterator[tuple[str, str, int]]:
    """The sums to be left out: their registers, first terms and distances."""
    text = "".join(lines)
    used, addressed = Counter(_REGISTER.findall(text)), Counter(match[1] for match in _ADDRESS.finditer(text))
    packed = {register for braces in _IN_BRACES.findall(text) for register in _REGISTER.findall(braces)}
    targets = Counter(target for line in lines for target in _targets(line))
    fresh: dict[str, int] = {}
    for number, line in enumerate(lines):
        if _BLOCK_ENDS.match(line):
            fresh.clear()
        if (match := _SUM.match(line)) is not None:
            target, base, distance = match[1], match[2], int(match[3])
            alone = targets[target] == targets[base] == 1 and used[target] == 1 + addressed[target]
            between = lines[fresh.get(base, number) : number]
            if alone and base in fresh and base not in packed and not any(target in _registers(one) for one in between):
                yield target, base, distance
        fresh.update(dict.fromkeys(_targets(line), number))


def _targets(line: str) -> list[str]:
    """The registers that the instructions of a line set."""
    return [match[1] for statement in line.split(";") if (match := _TARGET.match(statement)) is not None]


def _registers(line: str) -> list[str]:
    return _REGISTER.findall(line)
