"""The pipeline of a vectorized function on one screen.

read, evaluate      program.py      Python function → TTIR on scalars
write               bodies.py       TTIR → LLVM IR of a scalar function, of vectors of elements, of a fold
compile, link       LLVM, blob.py   → an image that is mapped where it is needed
"""

from __future__ import annotations

from types import FunctionType

from tilewright.backends.llvm.machine import compile_object
from tilewright.ir.printer import print_op
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.vectorizing import bodies
from tilewright.vectorizing.build import FOLD, SCALAR, Product, Request, current_target
from tilewright.vectorizing.lanes import is_quick
from tilewright.vectorizing.program import make_program


def compiled(python: FunctionType, frontend: str, request: Request) -> Product:
    """Compile a function.

    Args:
        python: the function.
        frontend: which front end reads it.
        request: for what.

    Raises:
        CompilationError: the function is wrong.
    """
    is_scalar, is_fold = request.form == SCALAR, request.form == FOLD
    program = make_program(python, request.kinds, frontend=frontend, exact=is_scalar, fold=is_fold)
    target, result, lanes = current_target(), program.result, 1
    if is_scalar:
        text = bodies.scalar_text(program.module, target, result, request.kinds)
    elif is_fold:
        text = bodies.fold_text(program.module, target, (result, request.kinds[1]))
    else:
        kinds = (*request.kinds, result)
        lanes = bodies.lanes_for(program.module, target, kinds)
        layout = bodies.Traversal(request.pattern, request.select)
        text = bodies.span_text(program.module, target, kinds, layout, lanes)
    blob = link(compile_object(text, target))
    checks = any(op.name == "tt.assert" for op in program.module.walk())
    facts = {"result": result.name, "weak": result.weak, "lanes": lanes, "checks": checks}
    facts["entry"] = blob.symbols[request.form]
    facts["quick"] = is_quick(bodies.function_of(program.module))
    return Product(blob.image, facts, {"ttir": print_op(program.module), "llir": text})
