"""The one warning for features of older versions of Triton, with their replacement.

warn_deprecated("tl.math.tanh", "tl.extra.libdevice.tanh")
    kernels.py:12: UserWarning: tl.math.tanh is deprecated: write tl.extra.libdevice.tanh
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import FrameType
from typing import Any

OURS = ("tilewright", "triton", "importlib")
"""Packages whose lines are not the program's."""

DROPPED_OPTIONS = frozenset(
    [
        "allow_fp8e4nv",
        "enable_persistent",
        "enable_warp_specialization",
        "instruction_sched_variant",
        "num_buffers_warp_spec",
        "num_consumer_groups",
        "optimize_epilogue",
        "reg_dec_producer",
        "reg_inc_consumer",
        "schedule_hint",
    ]
)
"""Options of launches in Triton 2.1 to 3.4: how GPUs share and order the work, which changes no result."""


def without_dropped(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that there still are; of the others a warning says that nothing is to be written now."""
    for name in options:
        if name in DROPPED_OPTIONS:
            warn_deprecated(f"the option {name}", "nothing")
    return {name: value for name, value in options.items() if name not in DROPPED_OPTIONS}


def warn_deprecated(old: str, now: str) -> None:
    """Say at the line of the program that led here, once per line, what is written now."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in OURS:
        frame = frame.f_back
    known = frame.f_globals.setdefault("__warningregistry__", {})
    text = f"{old} is deprecated: write {now}"
    warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=known)
