"""Functions beyond the core language, under Triton's paths: `tl.extra.libdevice`, `tl.extra.cuda.libdevice`."""

from tilewright.language.extra import cpu, cuda, libdevice

__all__ = [
    "cpu",
    "cuda",
    "libdevice",
]
