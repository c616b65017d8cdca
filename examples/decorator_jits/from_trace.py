"""Step 4: the way of JAX. Call the function, with arguments that write down what is done to them.

The shortest of the three, and all of Python works: loops, helper functions, closures run while the trace is made and
leave only operations behind. But what depends on the arguments' values cannot be seen: `if a > 0` would have to choose
one side. The real thing: src/tilewright/frontends/from_trace.py; src/tilewright/language/control.py has such choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from decorator_jits.expressions import Argument, Constant, Operation, Tree, decorator


class Tracer:
    """Stands for a number, and remembers how it was computed."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __bool__(self) -> bool:
        raise TypeError("the value is not known while tracing: both ways cannot be taken")


def _recording(symbol: str) -> tuple[Callable[[Tracer, Any], Tracer], Callable[[Tracer, Any], Tracer]]:
    """`a + b` and, for numbers on the left, its reflection."""

    def forward(self: Tracer, other: Any) -> Tracer:
        return Tracer(Operation(symbol, self.tree, tree_of(other)))

    def reflected(self: Tracer, other: Any) -> Tracer:
        return Tracer(Operation(symbol, tree_of(other), self.tree))

    return forward, reflected


for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.items():
    _forward, _reflected = _recording(_symbol)
    setattr(Tracer, f"__{_name}__", _forward)
    setattr(Tracer, f"__r{_name}__", _reflected)


def tree_of(value: Any) -> Tree:
    """The tree of a traced value or of a number."""
    return value.tree if isinstance(value, Tracer) else Constant(float(value))


def read(function: Callable[..., float]) -> Tree:
    """The tree of whatever the function computes."""
    arguments = [Tracer(Argument(i)) for i in range(function.__code__.co_argcount)]
    return tree_of(function(*arguments))


tracejit = decorator(read)
