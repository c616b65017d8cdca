"""The pipeline of a vectorized function on one screen.

read, evaluate      program.py      Python function → TTIR on scalars
lower               lowering.py     TTIR on scalars → a loop over arrays, with vectors of elements
write               bodies.py       → LLVM IR
compile, link       LLVM, blob.py   → an image that is mapped where it is needed
"""

from __future__ import annotations

from types import FunctionType

from tilewright.backends.llvm.machine import compile_object
from tilewright.ir.printer import print_op
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.vectorizing import bodies
from tilewright.vectorizing.build import FOLD, SCALAR, SPAN, Product, Request, current_target
from tilewright.vectorizing.lowering import Traversal, is_bound_by_memory, is_quick, lower_to_fold, lower_to_span
from tilewright.vectorizing.program import function_of, make_program


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
    module, target, lanes = program.module, current_target(), 1
    if is_scalar:
        loops, text = module, bodies.scalar_text(module, target, program.result, request.kinds)
    elif is_fold:
        loops = lower_to_fold(module)
        text = bodies.loop_text(loops, FOLD, target)
    else:
        lanes = bodies.lanes_for(module, target, (*request.kinds, program.result))
        loops = lower_to_span(module, Traversal(request.pattern, request.select), lanes)
        text = bodies.loop_text(loops, SPAN, target, halves=is_bound_by_memory(function_of(module)))
    blob = link(compile_object(text, target))
    facts = {
        "result": program.result.name,
        "weak": program.result.weak,
        "lanes": lanes,
        "checks": any(op.name == "tt.assert" for op in module.walk()),
        "entry": blob.symbols[request.form],
        "quick": is_quick(function_of(module)),
    }
    ttir = print_op(module)
    return Product(
        blob.image, facts, {"ttir": ttir, "loops": ttir if loops is module else print_op(loops), "llir": text}
    )
