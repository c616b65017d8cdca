"""`triton.language.semantic`: Triton's class of that name is no part of Tilewright; its error is here to be caught."""

from tilewright.support.diagnostics import SemanticError as IncompatibleTypeErrorImpl

__all__ = ["IncompatibleTypeErrorImpl"]
