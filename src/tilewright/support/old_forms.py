"""One warning for everything that an older Triton had and a newer one writes otherwise.

old_form("tl.math.tanh", "tl.extra.libdevice.tanh")
    kernels.py:12: UserWarning: tl.math.tanh is an old form: write tl.extra.libdevice.tanh
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

OURS = ("tilewright", "triton", "importlib")
"""Packages whose lines are not the program's."""


def old_form(old: str, now: str) -> None:
    """Say at the line of the program that led here, once per line, what is written now."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in OURS:
        frame = frame.f_back
    known = frame.f_globals.setdefault("__warningregistry__", {})
    text = f"{old} is an old form: write {now}"
    warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=known)
