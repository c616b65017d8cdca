"""`triton.runtime.interpreter`."""

from tilewright.runtime.errors import InterpreterError
from tilewright.runtime.interpreted import InterpretedFunction

__all__ = ["InterpretedFunction", "InterpreterError"]
