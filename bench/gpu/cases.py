"""Arguments and expected results of the kernels of a bundle.

case = case_of(entry)                   # entry: constants and types, as of an anchor or of the bundle
case.grid, case.arguments, case.expected, case.error
fast = LARGE["matmul"](entry)           # the same, as large as is worth timing; without what it must give
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
from anchor_cases import ANCHOR_CASES, LARGE_ANCHOR_CASES
from case_basics import RANDOM, Case
from timed_cases import LARGE_TIMED_CASES, TIMED_CASES

CASES: dict[str, Callable[[Any], Case]] = ANCHOR_CASES | TIMED_CASES
LARGE: dict[str, Callable[[Any], Case]] = LARGE_ANCHOR_CASES | LARGE_TIMED_CASES


def case_of(entry: Any) -> Case:
    """The launch that shows whether a kernel is right; the same numbers on every machine."""
    RANDOM.bit_generator.state = np.random.default_rng(crc32(entry.name.encode())).bit_generator.state
    return CASES[entry.kernel](entry)
