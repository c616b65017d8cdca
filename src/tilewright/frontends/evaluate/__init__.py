"""HIR + parameters → TTIR: runs the steps of a function on tiles whose operations are recorded."""

from tilewright.frontends.evaluate.frame import EvaluateOptions
from tilewright.frontends.evaluate.kernel import evaluate_kernel

__all__ = ["EvaluateOptions", "evaluate_kernel"]
