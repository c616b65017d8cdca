"""Instructions in LLVM IR for GPUs, with those of PTX in its assembly."""

from __future__ import annotations

import re
from collections import Counter

CALLED = re.compile(r" call [^@\n]*@([\w.]+)\(")
ASSEMBLY = re.compile(r"asm (?:sideeffect )?\"([^\"]*)\"")
MNEMONIC = re.compile(r"(?:^|[;{}\s])\s*(?:@!?[\w$%]+\s+)?([a-z]\w*(?:[.:]+\w+)+)")
INSTRUCTION = re.compile(r"^ +(?:%\S+ = )?(?!call|ret|br|label)([a-z]+) ", re.MULTILINE)


def instructions(text: str) -> Counter[str]:
    """LLVM's by name, with what is called, and PTX's in assembly, with their modifiers."""
    found = Counter(INSTRUCTION.findall(text))
    found.update(CALLED.findall(text))
    for assembly in ASSEMBLY.findall(text):
        found.update(MNEMONIC.findall(assembly))
    return found
