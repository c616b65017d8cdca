"""The writer of modules with debug information, where every instruction has a source location."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.backends.llvm.debug_info import DebugInfo
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.writer import LlvmWriter, Typed
from tilewright.ir.core import Op


class DebugWriter(LlvmWriter):
    """A writer whose instructions say where they come from."""

    def __init__(self, target: Target, *, fuse: bool = False, variables: bool = False) -> None:
        super().__init__(target, fuse=fuse)
        self.debug: DebugInfo = DebugInfo(variables=variables)

    def emit(self, instruction: str) -> str:
        return super().emit(instruction + self.debug.suffix)

    def do(self, instruction: str) -> None:
        super().do(instruction + self.debug.suffix)

    def store(self, type: str, value: str, pointer: str, *, align: int) -> None:
        self.do(f"store {type} {value}, ptr {pointer}, align {align}")

    @contextmanager
    def function(
        self,
        name: str,
        parameters: Sequence[Typed],
        *,
        result: str = "void",
        internal: bool = False,
        attributes: str = "",
    ) -> Iterator[None]:
        outer, self.debug.suffix = self.debug.suffix, ""
        with super().function(name, parameters, result=result, internal=internal, attributes=attributes):
            yield
        self.debug.suffix = outer

    def describe(self, function: Op, name: str) -> None:
        header, body = self._functions[-1]
        self._functions[-1] = header.replace(" #0 {", f" #0 !dbg {self.debug.subprogram(function, name)} {{"), body

    def render(self) -> str:
        return super().render() + "\n".join(self.debug.lines()) + "\n"
