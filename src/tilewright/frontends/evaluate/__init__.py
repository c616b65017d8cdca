"""HIR + parameters → TTIR: executes the steps of a function on tiles that record their operations."""

from tilewright.frontends.evaluate.kernel import evaluate_kernel
from tilewright.frontends.evaluate.tiles import EvaluateOptions

__all__ = ["EvaluateOptions", "evaluate_kernel"]
