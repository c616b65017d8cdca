"""`triton.compiler.compiler`."""

from tilewright.runtime.kernel import CompiledKernel
