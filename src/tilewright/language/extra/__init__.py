"""Functions beyond the core language, under Triton's paths: `tl.extra.libdevice`, `tl.extra.cuda.libdevice`."""

from typing import Any

from tilewright.language.extra import cpu, cuda, libdevice
from tilewright.language.former import former as _former

__all__ = [
    "cpu",
    "cuda",
    "libdevice",
]


def __getattr__(name: str) -> Any:
    return _former("tl.extra", name)
