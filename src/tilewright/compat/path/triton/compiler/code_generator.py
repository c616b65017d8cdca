"""`triton.compiler.code_generator`: what programs catch or ask for; how kernels are compiled is Tilewright's own."""

from tilewright.language.callable import JITCallable
from tilewright.runtime.constexpr_function import ConstexprFunction
from tilewright.runtime.jit import JITFunction
from tilewright.support.diagnostics import CompilationError, CompileTimeAssertionFailure
from tilewright.support.diagnostics import Unsupported as UnsupportedLanguageConstruct

__all__ = [
    "CompilationError",
    "CompileTimeAssertionFailure",
    "ConstexprFunction",
    "JITCallable",
    "JITFunction",
    "UnsupportedLanguageConstruct",
]
