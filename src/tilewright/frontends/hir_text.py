"""HIR as text, a step per line, for people.

kernel(x, n)
  r0 = load x
  r1 = mul(r0, 2)
  if r2:
    store x = r1
  else:
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tilewright.frontends import hir


class Line(NamedTuple):
    """One line, and the line of the source that it comes from (0: none)."""

    text: str
    source: int


def listing(function: hir.Function) -> Iterator[Line]:
    """The lines of a function."""
    names = ", ".join(f"*{p.name}" if p.variadic else p.name for p in function.parameters)
    yield Line(f"{function.name}({names})", function.location.line)
    yield from _Text(function).block(function.body, 1)


class _Text:
    def __init__(self, function: hir.Function) -> None:
        self._initial = function.initial
        self._results = {register for step in hir.walk(function.body) for register in _written(step)}

    def block(self, block: hir.Block, depth: int) -> Iterator[Line]:
        for step in block.steps:
            yield from self._step(step, depth)

    def register(self, number: hir.Register) -> str:
        """`r3`, or the constant that it holds."""
        if number in self._results:
            return f"r{number}"
        value = self._initial[number]
        return getattr(value, "__name__", None) or repr(value)

    def _step(self, step: hir.Step, depth: int) -> Iterator[Line]:
        indent, line = "  " * depth, step.location.line
        yield Line(indent + self._head(step), line)
        for title, block, value in self._parts(step):
            if title:
                yield Line(f"{indent}{title}", line)
            yield from self.block(block, depth + 1)
            if value is not None:
                yield Line(f"{indent}  = {self.register(value)}", line)

    def _head(self, step: hir.Step) -> str:
        r = self.register
        match step:
            case hir.Operate(result, function, operands):
                text = f"r{result} = {function.__name__}({', '.join(map(r, operands))})"
            case hir.Call(result, callee, arguments, starred, keywords):
                given = [f"*{r(a)}" if i in starred else r(a) for i, a in enumerate(arguments)]
                given += [f"{name}={r(value)}" if name else f"**{r(value)}" for name, value in keywords]
                text = f"r{result} = {r(callee)}({', '.join(given)})"
            case hir.Load(result, name):
                text = f"r{result} = load {name}"
            case hir.Store(name, value, constant):
                text = f"store {name}{': constexpr' if constant else ''} = {r(value)}"
            case hir.Bind(name, value):
                text = f"bind {name} = {r(value)}"
            case hir.Delete(name):
                text = f"delete {name}"
            case hir.Unpack(results, star, value):
                names = [f"*r{n}" if i == star else f"r{n}" for i, n in enumerate(results)]
                text = f"{', '.join(names)} = unpack {r(value)}"
            case _:
                text = self._head_of_block(step)
        return text

    def _head_of_block(self, step: Any) -> str:
        r = self.register
        match step:
            case hir.Choose(result, test):
                text = f"r{result} = choose {r(test)}"
            case hir.ShortCircuit(result, conjunction, left):
                text = f"r{result} = {r(left)} {'and' if conjunction else 'or'}"
            case hir.Collect(result, item, iterable):
                text = f"r{result} = collect r{item} in {r(iterable)}"
            case hir.If(test, _, _, tail):
                text = f"if {r(test)}:{'  # the last statement' if tail else ''}"
            case hir.Continue():
                text = "go on with"
            case hir.For(target, iterable):
                text = f"for {target} in {r(iterable)}:"
            case hir.While():
                text = "while"
            case hir.Return(value):
                text = f"return {r(value)}"
            case hir.Refuse(what):
                text = f"refuse {what}"
            case hir.Assert(test):
                text = f"assert {r(test)}, message:"
            case _:
                raise TypeError(f"{step} is no step")
        return text

    def _parts(self, step: hir.Step) -> Iterator[tuple[str, hir.Block, hir.Register | None]]:
        """The blocks inside a step, with what stands above them and the register that each computes."""
        match step:
            case hir.Choose(_, _, then, then_value, orelse, else_value):
                yield "then", then, then_value
                yield "else", orelse, else_value
            case hir.ShortCircuit(_, _, _, right, value):
                yield "", right, value
            case hir.Collect(_, _, _, target, filters, body, value):
                yield "", target, None
                for block, test in filters:
                    yield "where", block, test
                yield "item", body, value
            case hir.If(_, then, orelse):
                yield "", then, None
                if orelse.steps:
                    yield "else:", orelse, None
            case hir.Continue(block) | hir.For(_, _, block):
                yield "", block, None
            case hir.While(test, value, body):
                yield "", test, value
                yield "do", body, None
            case hir.Assert(_, block, value):
                yield "", block, value


def _written(step: hir.Step) -> tuple[hir.Register, ...]:
    """The registers that a step writes."""
    match step:
        case hir.Unpack(results):
            return results
        case hir.Collect(result, item):
            return result, item
        case hir.Operate(result) | hir.Call(result) | hir.Load(result) | hir.Choose(result) | hir.ShortCircuit(result):
            return (result,)
    return ()
