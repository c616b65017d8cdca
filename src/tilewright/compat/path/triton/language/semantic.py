"""`triton.language.semantic`: Triton's class of that name is no part of Tilewright; its error is here to be caught."""

from tilewright.compat.compile_errors import IncompatibleTypeErrorImpl

__all__ = ["IncompatibleTypeErrorImpl"]
