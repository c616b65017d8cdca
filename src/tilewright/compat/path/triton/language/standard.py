"""`triton.language.standard`."""

from tilewright.language import standard as _own
from tilewright.language.sorting import bitonic_merge, flip, sort, topk
from tilewright.compat.core_shims import _log2
from tilewright.compat.names import public_names

_names = public_names(_own)
globals().update(_names)
__all__ = [*_names["__all__"], "bitonic_merge", "flip", "sort", "topk"]
