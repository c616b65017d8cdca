"""Step 1: what all three decorators make of a function, a tree of operations; and how the tree becomes machine code.

    (a + d) * 10        Operation("*", Operation("+", Argument(0), Argument(3)), Constant(10.0))

Everything is a double. Tilewright's own tree is HIR (src/tilewright/frontends/hir.py), its LLVM IR comes from
src/tilewright/backends/llvm/writer.py, as text, as here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, update_wrapper
from itertools import count

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Constant:
    value: float


@dataclass(frozen=True)
class Argument:
    index: int


@dataclass(frozen=True)
class Operation:
    symbol: str
    left: Tree
    right: Tree


Tree = Constant | Argument | Operation

INSTRUCTIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
"""Python's operators, and what LLVM calls them."""


def llvm_text(tree: Tree, arguments: int) -> str:
    """The tree as a function `f` in LLVM IR, one line per operation."""
    lines: list[str] = []
    result = _emit(tree, lines, count())
    parameters = ", ".join(f"double %a{i}" for i in range(arguments))
    return "\n".join([f"define double @f({parameters}) {{", *lines, f"  ret double {result}", "}"])


def _emit(tree: Tree, lines: list[str], numbers: Iterator[int]) -> str:
    """Append the lines that compute the tree; how LLVM refers to its value."""
    match tree:
        case Constant(value):
            return "0x" + struct.pack(">d", value).hex()  # LLVM's notation for exactly this double
        case Argument(index):
            return f"%a{index}"
        case Operation(symbol, left, right):
            operands = _emit(left, lines, numbers), _emit(right, lines, numbers)
            name = f"%v{next(numbers)}"
            lines.append(f"  {name} = {INSTRUCTIONS[symbol]} double {', '.join(operands)}")
            return name


def _machine() -> llvm.TargetMachine:
    """A machine for one compilation, which takes it over."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name())


class Compiled:
    """Machine code of a tree; call it with numbers.

    Attributes:
        tree, text: what it was made of.
    """

    def __init__(self, tree: Tree, arguments: int) -> None:
        self.tree, self.text = tree, llvm_text(tree, arguments)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(self.text), _machine())
        double = ctypes.c_double
        self._call = ctypes.CFUNCTYPE(double, *[double] * arguments)(self._engine.get_function_address("f"))

    def __call__(self, *arguments: float) -> float:
        return float(self._call(*arguments))


Reader = Callable[[Callable[..., float]], Tree]


def decorator(read: Reader) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """The decorator that belongs to a way of reading functions: read on the first call, compile, call."""

    def decorate(function: Callable[..., float]) -> Callable[..., float]:
        @cache
        def compiled() -> Compiled:
            return Compiled(read(function), function.__code__.co_argcount)

        def call(*arguments: float) -> float:
            return compiled()(*arguments)

        update_wrapper(call, function)
        call.compiled = compiled
        return call

    return decorate
