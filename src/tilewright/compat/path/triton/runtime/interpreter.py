"""`triton.runtime.interpreter`."""

from tilewright.compat.interpreter import TensorHandle
from tilewright.compat.interpreter import implicit_cvt as _implicit_cvt
from tilewright.runtime.errors import InterpreterError
from tilewright.runtime.interpreted import InterpretedFunction

__all__ = ["InterpretedFunction", "InterpreterError", "TensorHandle", "_implicit_cvt"]
