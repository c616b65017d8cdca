"""Damaged text: read, verified and printed, or refused with one of our errors; never another exception, never a hang.

    python tests/ir/text_fuzz.py --minutes 60 --seed 7        # cases that end in another way, with their text

A case is one of the texts in this folder, or of the goldens, with one to three kinds of damage.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path

import tilewright.dialects
from tilewright.ir.errors import ParseError, VerificationError
from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

assert tilewright.dialects.__all__

HERE = Path(__file__).parent
FILES = (
    *sorted(HERE.glob("every_*")),
    *sorted((HERE / "triton_text").glob("*.*")),
    *sorted((HERE.parent / "goldens/frontends").glob("*/*.ttir"))[:12],
)
TOKEN = re.compile(r'\s+|[%^@#!]?[\w$.]+|"[^"\n]*"|->|.', re.DOTALL)
STRANGE = (
    "\0",
    "\x7f",
    "ß",
    "∀",
    '"',
    "\\",
    "/*",
    "<",
    ">>>",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "%",
    "#",
    "!",
    "^",
    "loc(",
    "-",
)
NUMBERS = (
    "0",
    "-1",
    "1e999",
    "0x7FF8000000000000",
    "99999999999999999999",
    "340282366920938463463374607431768211457",
    "1.5",
)
BRACKETS = (
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("<", ">"),
    ("scf.if %x {\n", "}\n"),
    ("loc(fused[", "])"),
    ("tensor<", ">"),
)
SECONDS = 5.0
"""A case that takes longer hangs."""

Damage = Callable[[random.Random, str], str]


def flip_character(source: random.Random, text: str) -> str:
    at = source.randrange(len(text))
    return text[:at] + chr(ord(text[at]) ^ 1 << source.randrange(7)) + text[at + 1 :]


def change_tokens(source: random.Random, text: str) -> str:
    """A token, or a run of some, is removed, doubled, moved, or replaced by one from elsewhere."""
    tokens = TOKEN.findall(text)
    at, length = source.randrange(len(tokens)), source.choice((1, 1, 1, 2, 8))
    part = tokens[at : at + length]
    match source.randrange(4):
        case 0:
            del tokens[at : at + length]
        case 1:
            tokens[at:at] = part
        case 2:
            tokens[at : at + length] = [source.choice(tokens)]
        case 3:
            del tokens[at : at + length]
            to = source.randrange(len(tokens) + 1)
            tokens[to:to] = part
    return "".join(tokens)


def insert_strange(source: random.Random, text: str) -> str:
    at = source.randrange(len(text) + 1)
    return text[:at] + source.choice(STRANGE) + text[at:]


def change_number(source: random.Random, text: str) -> str:
    places = list(re.finditer(r"-?\d+", text))
    if not places:
        return text
    place = source.choice(places)
    return text[: place.start()] + source.choice(NUMBERS) + text[place.end() :]


def cut(source: random.Random, text: str) -> str:
    return text[: source.randrange(len(text))]


def move_line(source: random.Random, text: str) -> str:
    lines = text.split("\n")
    line = lines.pop(source.randrange(len(lines)))
    lines.insert(source.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def nest(source: random.Random, text: str) -> str:
    """Brackets, many times."""
    opening, closing = source.choice(BRACKETS)
    depth = source.choice((10, 300, 5000))
    at = source.randrange(len(text) + 1)
    return text[:at] + opening * depth + closing * source.choice((0, depth)) + text[at:]


DAMAGES: tuple[Damage, ...] = (
    flip_character,
    change_tokens,
    change_tokens,
    insert_strange,
    change_number,
    cut,
    move_line,
    nest,
)


def damaged(source: random.Random) -> str:
    """One case."""
    text = source.choice(FILES).read_text()
    for _ in range(source.choice((1, 1, 2, 3))):
        text = source.choice(DAMAGES)(source, text) or "\n"
    return text


def outcome(text: str) -> str:
    """`refused`, `kept`, or what is wrong."""
    try:
        with limited(SECONDS):
            module = Parser(text, "fuzz", unregistered=text.count("x") % 2 == 0).module()
            verify(module)
            Parser(print_op(module, locations=True), "with locations", unregistered=True).module()
            once = print_op(module)
            again = print_op(Parser(once, "again", unregistered=True).module())
    except (ParseError, VerificationError) as error:
        return "refused" if str(error) else "an error without words"
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "kept" if once == again else "printed in another way the second time"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A TimeoutError after so many seconds of CPU time."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def for_some_time(seconds: float, first: int) -> Iterator[int]:
    """Numbers from the first one on, until the time is over."""
    end = time.monotonic() + seconds
    return takewhile(lambda _: time.monotonic() < end, count(first))


def run(seeds: Iterable[int]) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """One case for each seed.

    Returns:
        how many were refused and kept, and of all others the seed, what is wrong, and the text.
    """
    counts, found = Counter[str](), []
    for seed in seeds:
        text = damaged(random.Random(seed))
        result = outcome(text)
        if result in ("refused", "kept"):
            counts[result] += 1
        else:
            found.append((seed, result, text))
    return counts, found


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged text of IR")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the next have the numbers behind it")
    options = parser.parse_args()
    counts, found = run(for_some_time(60 * options.minutes, options.seed))
    kinds: Counter[str] = Counter()
    for seed, result, text in found:
        kinds[result[:60]] += 1
        if kinds[result[:60]] <= 2:
            Path(f"fuzz_{seed}.mlir").write_text(text)
            sys.stdout.write(f"seed {seed}: {result} (fuzz_{seed}.mlir)\n")
    sys.stdout.write(f"{dict(counts)} {dict(kinds)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
