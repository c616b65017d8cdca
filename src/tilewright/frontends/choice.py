"""The choice, by name, of the front end that makes TTIR of a kernel.

    ast         reads its source text, as Triton does
    bytecode    reads CPython's bytecode: no source needed
    auto        the source if there is one, else the bytecode
    trace       runs it once, on tiles that record operations

Functions that a kernel calls are read by the kernel's front end.

A device without one of the 8-bit float formats could emulate it by conversions, and does so if the option
`supported_fp8_dtypes` lists it. By default it does not: Triton refuses such kernels, and they are not fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType

from tilewright.frontends import from_ast, hir
from tilewright.frontends.errors import MissingFp8, NoSource
from tilewright.frontends.evaluate.kernel import evaluate_kernel
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.frontends.python_function import Reader, memoise
from tilewright.frontends.signature import Parameter
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op
from tilewright.ir.types import Type
from tilewright.semantics.types import FP8_KINDS, dtype
from tilewright.support.diagnostics import CompilationError, SemanticError, located
from tilewright.support.locks import importing

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
        with importing:
            from tilewright.frontends.from_trace import trace_kernel

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
        return _read_bytecode(python)


def _read_bytecode(python: FunctionType) -> hir.Function:
    with importing:
        from tilewright.frontends.from_bytecode import read_function

    return read_function(python)


READERS: Mapping[str, Reader] = {
    "ast": from_ast.read_function_once,
    "auto": memoise(_read_auto, "auto"),
    "bytecode": memoise(_read_bytecode, "bytecode"),
}
"""The reader of functions per front end; what was read is kept as long as the function."""


def refuse_missing_fp8(module: Op, available: Sequence[str]) -> None:
    """Refuse a module with 8-bit floats that are not among `available`.

    Raises:
        CompilationError: an op makes, or a function takes, values of another kind.
    """
    missing = {dtype(name).ir.text: name for name in FP8_KINDS if name not in available}
    if not missing:
        return
    in_text = re.compile(rf"(?:{'|'.join(missing)})\b")
    found = [
        (op.location, kind[0]) for op in module.walk() for type in _types(op) if (kind := in_text.search(type.text))
    ]
    if found:
        location, text = next((use for use in found if span_of(use[0]).line), (module.location, found[0][1]))
        error = SemanticError(MissingFp8(missing[text], tuple(available)))
        raise located(error.diagnostic, span_of(location)) from error


def _types(op: Op) -> Iterator[Type]:
    """The types of what an op takes, makes and hands to its regions; constants have no place, but their users have."""
    for value in (*op.operands, *op.results):
        yield value.type
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                yield argument.type
