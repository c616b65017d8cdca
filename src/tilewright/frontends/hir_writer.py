"""The base class of readers, for writing HIR: new registers, shared constants, the current block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontends import hir, operations
from tilewright.ir.attributes import FileLocation

BREAK, CONTINUE = "`break`", "`continue`"


class HirWriter:
    """Collects the steps of one function.

    Attributes:
        initial: what the registers hold at the start.
    """

    def __init__(self) -> None:
        self._steps: list[hir.Step] = []
        self._constants: dict[tuple[type, Any], hir.Register] = {}
        self.initial: list[Any] = []

    def put(self, step: hir.Step) -> None:
        """Add a step to the current block."""
        self._steps.append(step)

    def block(self, fill: Callable[[], Any]) -> hir.Block:
        """The block of the steps that `fill()` puts."""
        return self.valued_block(fill)[0]

    def valued_block(self, fill: Callable[[], Any]) -> tuple[hir.Block, Any]:
        """The block of the steps that `fill()` puts, and what `fill()` returns."""
        outer, self._steps = self._steps, []
        value = fill()
        steps, self._steps = self._steps, outer
        return hir.Block(tuple(steps)), value

    def register(self) -> hir.Register:
        """A fresh register."""
        self.initial.append(None)
        return len(self.initial) - 1

    def constant(self, value: Any) -> hir.Register:
        """A register that holds `value` from the start; equal numbers, strings and functions share one."""
        key = (value.__class__, value if value.__class__ is not float else repr(value))
        try:
            found = self._constants.get(key)
        except TypeError:  # not hashable
            self.initial.append(value)
            return len(self.initial) - 1
        if found is None:
            self.initial.append(value)
            found = self._constants[key] = len(self.initial) - 1
        return found

    def put_operation(
        self, function: Callable[..., Any], operands: tuple[hir.Register, ...], location: FileLocation
    ) -> hir.Register:
        """Put `function(*operands)`; the register of the result."""
        result = self.register()
        self._steps.append(hir.Operate(result, function, operands, location))
        return result

    def put_leave(self, what: str, depth: int, location: FileLocation) -> None:
        """Put `continue` or `break` of the loop `depth`."""
        self.put(hir.Leave(what, location))
        if what == BREAK:
            self._bind_true(hir.left_variable(depth), location)

    def put_return(self, value: hir.Register, depth: int, location: FileLocation) -> None:
        """Put `return value` from inside `depth` loops."""
        if not depth:
            self.put(hir.Return(value, location))
            return
        self.put(hir.Leave("`return` inside a loop", location))
        self.put(hir.Bind(hir.RESULT, value, location))
        self._bind_true(hir.RETURNED, location)
        self._bind_true(hir.left_variable(depth), location)

    def put_loop(self, loop: hir.For | hir.While, depth: int) -> None:
        """Put a loop inside of `depth` others; its body may leave it early."""
        for name in (hir.RETURNED, hir.left_variable(depth + 1)):
            if name in loop.body.stores:
                self.put(hir.Bind(name, self.constant(False), loop.location))
        left = hir.left_variable(depth + 1)
        self.put(loop._replace(left=left) if left in loop.body.stores else loop)

    def put_rest_of_loop(self, depth: int, location: FileLocation, rest: Callable[[], Any] | None) -> None:
        """Put what follows a loop that has a `return`, inside of `depth` others, as one side of a branch.

        Args:
            depth: how many loops are around that loop.
            location: of the loop.
            rest: puts what follows; None if nothing but a `return` ends the loop.
        """
        if rest is None:
            self._return_again(depth, location)
            return
        test = self.put_load(hir.RETURNED, location)
        then, orelse = self.block(lambda: self._return_again(depth, location)), self.block(rest)
        self.put(hir.If(test, then, orelse, not depth, location))

    def _return_again(self, depth: int, location: FileLocation) -> None:
        if depth:
            self._bind_true(hir.left_variable(depth), location)
        else:
            self.put(hir.Return(self.put_load(hir.RESULT, location), location))

    def _bind_true(self, name: str, location: FileLocation) -> None:
        self.put(hir.Bind(name, self.constant(True), location))

    def mark_unused(self, register: hir.Register) -> None:
        """Note that the program drops the result `register`, if it is that of a call just put."""
        last = self._steps[-1] if self._steps else None
        if isinstance(last, hir.Call) and last.result == register:
            self._steps[-1] = last._replace(unused=self._spelling(last.callee))

    def _spelling(self, register: hir.Register) -> str:
        """The spelling in the program of a value that is a variable or an attribute of one."""
        for step in reversed(self._steps):
            if isinstance(step, hir.Load) and step.result == register:
                return step.name
            if isinstance(step, hir.Operate) and step.result == register and step.function is operations.attribute:
                owner, name = step.operands
                return f"{self._spelling(owner)}.{self.initial[name]}"
        return "this call"

    def put_load(self, name: str, location: FileLocation) -> hir.Register:
        """Put a load of the variable `name`; the register of its value."""
        result = self.register()
        self._steps.append(hir.Load(result, name, location))
        return result
