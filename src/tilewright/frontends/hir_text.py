"""HIR as text for reading, a step per line.

kernel(x, n)
  r0 = load x
  r1 = mul(r0, 2)
  if r2:
    store x = r1
  else:
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
        self._shown: set[hir.Block] = set()

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
        if isinstance(step, hir.Continue):
            if step.block in self._shown:
                yield Line(f"{indent}go on with what is shown of line {line} above", line)
                return
            self._shown.add(step.block)
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
            case hir.Store(name, value, constant):
                text = f"store {name}{': constexpr' if constant else ''} = {r(value)}"
            case hir.Unpack(results, star, value):
                names = [f"*r{n}" if i == star else f"r{n}" for i, n in enumerate(results)]
                text = f"{', '.join(names)} = unpack {r(value)}"
            case hir.ShortCircuit(result, conjunction, left):
                text = f"r{result} = {r(left)} {'and' if conjunction else 'or'}"
            case hir.If(test, _, _, tail):
                text = f"if {r(test)}:{'  # the last statement' if tail else ''}"
            case _:
                fields = {k: r(v) if k in _REGISTERS and isinstance(v, int) else v for k, v in step._asdict().items()}
                text = _HEADS[step.__class__].format_map(fields)
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


_REGISTERS = frozenset(("item", "iterable", "result", "test", "value"))
"""Fields of steps that hold a register, if they are no blocks."""
_HEADS: dict[type, str] = {
    hir.Assert: "assert {test}, message:",
    hir.Bind: "bind {name} = {value}",
    hir.Choose: "{result} = choose {test}",
    hir.Collect: "{result} = collect {item} in {iterable}",
    hir.Continue: "go on with",
    hir.Delete: "delete {name}",
    hir.For: "for {target} in {iterable}:",
    hir.Leave: "leave {what}",
    hir.Load: "{result} = load {name}",
    hir.Refuse: "refuse {what}",
    hir.Return: "return {value}",
    hir.While: "while",
}
"""First lines of steps."""
