"""HIR + parameters → TTIR: runs the steps of a function on tiles whose operations are recorded."""

from tilewright.frontends.evaluate.kernel import evaluate_kernel
from tilewright.frontends.evaluate.tiles import EvaluateOptions

__all__ = ["EvaluateOptions", "evaluate_kernel"]
