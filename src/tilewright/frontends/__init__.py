"""Front ends, from Python functions to TTIR: readers write HIR, `evaluate` turns HIR and parameters into a module.

function = read_function(kernel)
parameters = [Parameter("x", pointer_type(float32)), Parameter("BLOCK", constant=64)]
module = evaluate_kernel(function, parameters, name="kernel")
"""

from tilewright.frontends.evaluate import EvaluateOptions, evaluate_kernel
from tilewright.frontends.from_ast import read_function, read_function_once
from tilewright.frontends.signature import NO_CONSTANT, Parameter

__all__ = ["NO_CONSTANT", "EvaluateOptions", "Parameter", "evaluate_kernel", "read_function", "read_function_once"]
