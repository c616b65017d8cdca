"""`triton.compiler`."""

from tilewright.runtime.kernel import CompiledKernel
from tilewright.support.diagnostics import CompilationError

from triton.compiler import compiler, errors
