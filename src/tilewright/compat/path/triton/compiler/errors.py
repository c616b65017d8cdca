"""`triton.compiler.errors`."""

from tilewright.support.diagnostics import CompilationError, CompileTimeAssertionFailure
from tilewright.support.diagnostics import TilewrightError as TritonError
from tilewright.support.diagnostics import Unsupported as UnsupportedLanguageConstruct

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "TritonError", "UnsupportedLanguageConstruct"]
