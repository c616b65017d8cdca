"""`triton.runtime.errors`."""

from tilewright.runtime.errors import AutotunerError, InterpreterError, OutOfResources
from tilewright.support.diagnostics import TilewrightError as TritonError
from tilewright.support.device_errors import PTXASError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
