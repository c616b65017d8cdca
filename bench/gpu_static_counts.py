"""Counts of the instructions of each kind in the PTX of a kernel, in all and in its main loop.

counts(ptx)                 # {"all": 51, "ld.global": 4, …}
counts(main_loop(ptx))      # the same of the longest stretch that a branch goes back over
"""

from __future__ import annotations

import re

KINDS = {
    "ld.global": r"ld\.(weak\.|relaxed\.)?global",
    "st.global": r"st\.(weak\.|relaxed\.)?global",
    "cp.async": r"cp\.async\.c[ag]\.",
    "bulk": r"cp\.(async|reduce\.async)\.bulk\.",
    "ldmatrix": r"ldmatrix\.",
    "stmatrix": r"stmatrix\.",
    "mma": r"mma\.sync\.|tcgen05\.mma\.",
    "wgmma": r"wgmma\.mma_async\.",
    "ld.shared": r"ld\.shared",
    "st.shared": r"st\.shared",
    "bar.sync": r"bar(rier)?\.(cta\.)?(sync|red)",
    "shfl": r"shfl\.",
    "mbarrier": r"mbarrier\.",
    "ex2": r"ex2\.",
}
"""Names of columns, and how the opcodes begin."""
COMPARED = ("ld.global", "st.global", "bar.sync", "ldmatrix", "mma", "wgmma")
"""The counts that must not exceed Triton's."""
_INSTRUCTION = re.compile(r"^\s*(?:\{\s*)?(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:\.[\w:]+)*)\b[^;]*;")
_LABEL = re.compile(r"^\s*([$\w]+):")
_RETURN = re.compile(r"^\s*ret;")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+([$\w]+)")


def body(ptx: str) -> list[str]:
    """The lines of the kernel's body."""
    inner = ptx[ptx.index(".entry") :]
    return inner[inner.index("\n{") : inner.rindex("\n}")].splitlines()  # inline assembly may have such lines, too


def opcodes(lines: list[str]) -> list[str]:
    """The opcodes of the instructions in these lines, declarations left out."""
    found = (_INSTRUCTION.match(line) for line in lines)
    return [match[1] for match in found if match]


def counts(lines: list[str]) -> dict[str, int]:
    """The number of instructions of each kind."""
    names = opcodes(lines)
    return {"all": len(names), **{kind: sum(bool(re.match(begin, n)) for n in names) for kind, begin in KINDS.items()}}


def main_loop(lines: list[str]) -> list[str]:
    """The longest stretch of lines that a branch goes back over; empty without a loop.

    A branch from behind a return goes back from code that was moved out of the way: no loop.
    """
    labels: dict[str, int] = {}
    longest: list[str] = []
    for number, line in enumerate(lines):
        if _RETURN.match(line):
            labels.clear()
        label, branch = _LABEL.match(line), _BRANCH.search(line)
        if label:
            labels[label[1]] = number
        if branch and branch[1] in labels and number - labels[branch[1]] > len(longest):
            longest = lines[labels[branch[1]] : number + 1]
    return longest
