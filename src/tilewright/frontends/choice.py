"""The choice, by name, of the front end that makes TTIR of a kernel.

    ast         reads its source text, as Triton does
    bytecode    reads what CPython made of it: no source needed
    auto        the source where there is one, else the bytecode
    trace       runs it once, on tiles that record what is done with them

What a kernel calls is read by the kernel's front end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType

from tilewright.frontends import from_ast, from_bytecode, hir
from tilewright.frontends.errors import NoSource
from tilewright.frontends.evaluate.kernel import evaluate_kernel
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.frontends.fp8_kinds import refuse_missing_fp8
from tilewright.frontends.from_trace import trace_kernel
from tilewright.frontends.memoise import Reader, memoise
from tilewright.frontends.signature import Parameter
from tilewright.ir.core import Op
from tilewright.support.diagnostics import CompilationError

TRACE = "trace"


def make_ttir(
    python: FunctionType, parameters: Sequence[Parameter], *, name: str, options: EvaluateOptions, frontend: str
) -> Op:
    """A kernel as TTIR, before any pass; the arguments are those of `evaluate_kernel`.

    Args:
        python: the kernel.
        parameters: what it is compiled for.
        name: its symbol.
        options: what else the result depends on.
        frontend: one of the names above.

    Raises:
        CompilationError: the kernel is wrong, or has types that the device has not.
    """
    if frontend == TRACE:
        module = trace_kernel(python, parameters, name=name, options=options)
    else:
        read = READERS[frontend]
        module = evaluate_kernel(read(python), parameters, name=name, options=options, read=read)
    refuse_missing_fp8(module, options.fp8_kinds)
    return module


def _read_auto(python: FunctionType) -> hir.Function:
    try:
        return from_ast.read_function(python)
    except CompilationError as error:
        if not isinstance(error.diagnostic, NoSource):
            raise
        return from_bytecode.read_function(python)


READERS: Mapping[str, Reader] = {
    "ast": from_ast.read_function_once,
    "auto": memoise(_read_auto, "auto"),
    "bytecode": memoise(from_bytecode.read_function, "bytecode"),
}
"""The reader of functions per front end; what was read is kept as long as the function."""
