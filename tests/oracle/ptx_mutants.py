"""PTX with one mistake in it.

    mutants(text)      # yields Mutant("without barrier", number=3, line=120, text=…)

Every kind names the instructions that it changes, and how. `number` counts those of one kind in a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A text with one changed line.

    `proof`: a text that runs like the original one if the mistake makes no difference for these arguments; or "".
    """

    kind: str
    number: int
    line: int
    text: str
    proof: str = ""


def gone(_: re.Match[str]) -> str:
    return ""


def one_more(found: re.Match[str]) -> str:
    return f"{found[1]}{int(found[2]) + 1}{found[3]}"


def halved(found: re.Match[str]) -> str:
    return f"{found[1]}{int(found[2]) // 2}{found[3]}"


def doubled(found: re.Match[str]) -> str:
    return f"{found[1]}{int(found[2]) * 2}{found[3]}"


BARRIERS = "without barrier"
MASKS = "mask always true"
KINDS: dict[str, tuple[str, Callable[[re.Match[str]], str]]] = {
    BARRIERS: (r"(\s|@!?%\w+ )*(bar|barrier)\.sync\b.*", gone),
    "without commit of copies": (r"\s*(@!?%\w+ )?cp\.async\.commit_group.*", gone),
    "waits for one copy less": (r"(\s*cp\.async\.wait_group\s+)(\d+)(.*)", one_more),
    "without fence": (r"\s*fence\.proxy\.async.*", gone),
    "without fence of products": (r"\s*wgmma\.fence.*", gone),
    "without wait for products": (r"\s*wgmma\.wait_group.*", gone),
    "without commit of products": (r"\s*wgmma\.commit_group.*", gone),
    "without wait at mbarrier": (r"\s*@!complete bra\.uni waitLoop;", gone),
    "expects other bytes": (r"(.*mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )(\d+)(.*)", halved),
    "without wait for bulk stores": (r"\s*cp\.async\.bulk\.wait_group.*", gone),
    "without wait for tensor memory": (r"\s*tcgen05\.wait::st.*", gone),
    "without commit to mbarrier": (r"\s*(@!?%\w+ )?tcgen05\.commit.*", gone),
    "matrix transposed": (r"(\s*ldmatrix\S*x[124])(\.shared.*)", lambda found: f"{found[1]}.trans{found[2]}"),
    "matrix not transposed": (r"(\s*ldmatrix\S*x[124])\.trans(.*)", lambda found: f"{found[1]}{found[2]}"),
    "swizzled otherwise": (r"(\s*xor\.b32\s+%\w+, %\w+, )(\d+)(;.*)", doubled),
    "shuffle of half the distance": (r"(\s*shfl\.sync\.bfly\S+\s+\S+ \S+ )(\d+)(,.*)", halved),
    MASKS: (r"(\s*)(@%\w+ )((?:ld|st)\.global.*)", lambda found: f"{found[1]}{found[3]}"),
}


def mutants(text: str) -> Iterator[Mutant]:
    """Every text with one mistake, kind by kind."""
    lines = text.split("\n")
    for kind, (pattern, change) in KINDS.items():
        number = 0
        for index, line in enumerate(lines):
            found = re.fullmatch(pattern, line)
            if found and change(found) != line:
                proof = with_line(lines, index, trapping(found)) if kind == MASKS else ""
                yield Mutant(kind, number, index + 1, with_line(lines, index, change(found)), proof)
                number += 1


def without_barriers(text: str, numbers: tuple[int, ...]) -> str:
    """The text without several barriers, by the numbers that `mutants` gives them."""
    chosen = {mutant.line - 1 for mutant in mutants(text) if mutant.kind == BARRIERS and mutant.number in numbers}
    return "\n".join("" if index in chosen else line for index, line in enumerate(text.split("\n")))


def with_line(lines: list[str], index: int, line: str) -> str:
    return "\n".join([*lines[:index], line, *lines[index + 1 :]])


def trapping(found: re.Match[str]) -> str:
    """The access, and a trap where its mask is false: if that never happens, the mask makes no difference."""
    return f"@!{found[2][1:]}trap; {found[3]}"
