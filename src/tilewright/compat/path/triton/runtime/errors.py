"""`triton.runtime.errors`."""

from tilewright.compat.errors import PTXASError
from tilewright.runtime.errors import AutotunerError, InterpreterError, OutOfResources
from tilewright.support.diagnostics import TilewrightError as TritonError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
