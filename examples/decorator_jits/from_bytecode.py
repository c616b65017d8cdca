"""Step 3: the way of Numba. Run CPython's bytecode on a stack of trees instead of values.

No source is needed, and Python has already sorted out precedence, scopes and constants. But the bytecode differs from
one version of Python to the next, and loops have to be found again among its jumps. The real thing:
src/tilewright/frontends/from_bytecode/, where `opcodes.py` knows the versions and `flow.py` finds the loops.
"""

from __future__ import annotations

import dis
from collections.abc import Callable

from decorator_jits.expressions import Argument, Constant, Operation, Tree, decorator


def read(function: Callable[..., float]) -> Tree:
    """The tree of a function without jumps."""
    code = function.__code__
    names: dict[str, Tree] = {name: Argument(i) for i, name in enumerate(code.co_varnames[: code.co_argcount])}
    stack: list[Tree] = []
    for instruction in dis.get_instructions(function):
        match instruction.opname:
            case "RESUME" | "CACHE" | "NOP":
                continue
            case "LOAD_FAST" | "LOAD_FAST_BORROW":  # the second from 3.14 on
                stack.append(names[instruction.argval])
            case "LOAD_FAST_LOAD_FAST" | "LOAD_FAST_BORROW_LOAD_FAST_BORROW":  # from 3.13 on, and 3.14
                stack += [names[name] for name in instruction.argval]
            case "LOAD_CONST" | "LOAD_SMALL_INT" if isinstance(instruction.argval, int | float):
                stack.append(Constant(float(instruction.argval)))
            case "STORE_FAST":
                names[instruction.argval] = stack.pop()
            case "STORE_FAST_LOAD_FAST":  # 3.13
                stored, loaded = instruction.argval
                names[stored] = stack.pop()
                stack.append(names[loaded])
            case "BINARY_OP":
                right, left = stack.pop(), stack.pop()
                stack.append(Operation(instruction.argrepr.rstrip("="), left, right))
            case "RETURN_VALUE":
                return stack.pop()
            case other:
                raise SyntaxError(f"the instruction {other} is not known here")
    raise SyntaxError(f"{function.__name__} returns nothing")


bytecodejit = decorator(read)
