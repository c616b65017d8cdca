"""Functions beyond the core language, under Triton's paths: `tl.extra.libdevice`, `tl.extra.cuda.libdevice`."""

from typing import Any

from tilewright.language.deprecated import deprecated as _deprecated
from tilewright.language.extra import cpu, cuda, libdevice

__all__ = [
    "cpu",
    "cuda",
    "libdevice",
]


def __getattr__(name: str) -> Any:
    return _deprecated("tl.extra", name)
