"""Text with random damage is either refused with a ParseError or a VerificationError, or is stable; never a crash."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import ParseError, VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

TOKENS = re.findall(r"\s+|[%^@#!]?[\w$.]+|.", (Path(__file__).parent / "every_op.ttir").read_text())


def damaged(random: random.Random) -> str:
    """The tokens with one of them removed, doubled, replaced by another, or moved."""
    tokens = list(TOKENS)
    at = random.randrange(len(tokens))
    match random.randrange(3):
        case 0:
            del tokens[at]
        case 1:
            tokens[at] = random.choice(TOKENS)
        case 2:
            tokens.insert(at, random.choice(TOKENS))
    return "".join(tokens)


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_reported_or_harmless(seed: int) -> None:
    source = random.Random(seed)
    refused = 0
    for _ in range(25):
        try:
            module = parse_module(damaged(source))
            verify(module)
        except (ParseError, VerificationError) as error:
            refused += bool(str(error))
            continue
        text = print_op(module)
        assert print_op(parse_module(text)) == text
    assert refused
