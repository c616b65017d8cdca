"""Layouts that Gluon's programs leave to the compiler: `#gluon.auto_encoding` and `#gluon.coalesced_encoding`.

    %r = tt.make_range … : tensor<64xi32, #gluon.auto_encoding>          %r = … : tensor<64xi32, #ttg.slice<{…}>>
    %e = tt.expand_dims %r : … -> tensor<1x64xi32, #gluon.auto_encoding>    %e = … -> tensor<1x64xi32, #blocked>
    %s = gluon.set_auto_layout %e : … -> tensor<1x64xi32, #blocked>

`set_auto_layout` gives the layout of its operand; an access by coalesced pointers gives a layout that suits memory.
From there layouts propagate along operands, results, and values carried by loops and branches. If an op may give its
result in several layouts (as reshapes may), a fixed layout has priority over one that propagated through such an op.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.analysis.axis_info import analyze_axis_info
from tilewright.analysis.value_flow import flow_edges
from tilewright.dialects.arith import Constant
from tilewright.dialects.gluon import SetAutoLayout
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_reduce import Scan
from tilewright.dialects.tt_shape import Cat, Join, Reshape, Split, Trans
from tilewright.ir.attributes import Number, span_of
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_dead
from tilewright.ir.types import TensorType
from tilewright.layouts.encodings import Auto, Coalesced, Distributed
from tilewright.semantics.errors import LayoutsInConflict, LayoutUnknown
from tilewright.support.diagnostics import located
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.coalesce import Accesses, is_tile_access
from tilewright.transforms.gpu.layout_transfer import layout_of_operands, layout_of_results
from tilewright.transforms.gpu.tile_ops import distributed_of, with_layout

MAY_VARY = (Cat, Join, Reshape, Split, Trans)
"""Ops that could work in other layouts, too."""


class Found(NamedTuple):
    """The layout of a value, and whether it might be another one."""

    layout: Distributed
    may_vary: bool = False


def resolve_auto_layouts(module: Op) -> bool:
    """Give every tile with an automatic layout the layout that follows from its uses.

    Raises:
        CompilationError: two uses want different layouts, or nothing says which.
    """
    _erase_dead(module)
    seeds = {op: distributed_of(op.result) for op in module.walk() if isinstance(op, SetAutoLayout)}
    for function in functions_of(module):
        inference = _Inference(function, Auto())
        for op, layout in seeds.items():
            if isinstance(op, SetAutoLayout) and inference.is_in(op):
                inference.know(op.source, Found(layout))
        inference.finish()
    for op in seeds:
        op.replace(op.operands)
    _check(module, Auto(), "gl.set_auto_layout(x, layout) says which")
    return True


def infer_coalesced_layouts(module: Op) -> bool:
    """Give every tile with a coalesced layout the one that suits its memory access.

    Raises:
        CompilationError: two accesses want different layouts, or there is none.
    """
    _erase_dead(module)
    if not any(_is_open(value, Coalesced()) for op in module.walk() for value in op.results):
        return False
    accesses = Accesses(analyze_axis_info(module), module)
    for function in functions_of(module):
        inference = _Inference(function, Coalesced())
        for op in function.walk():
            if is_tile_access(op) and _is_open(op.pointer, Coalesced()):
                layout = accesses.layout(op)
                for operand in op.operands:
                    inference.know(operand, Found(layout))
        inference.finish()
    _check(module, Coalesced(), "it is for pointers that are loaded or stored, and for what goes with them")
    return True


def _erase_dead(module: Op) -> None:
    """Erase what computes unused values: nothing says what layouts they have."""
    for op in reversed(list(module.walk())):
        if is_dead(op):
            op.erase()


def _is_open(value: Value, kind: Distributed) -> bool:
    """Whether a value is a tile whose layout is of this kind: to be found."""
    return isinstance(value.type, TensorType) and value.type.encoding == kind.text


def _check(module: Op, kind: Distributed, advice: str) -> None:
    for op in module.walk():
        inner = [argument for region in op.regions for block in region.blocks for argument in block.args]
        for value in (*op.results, *inner):
            if _is_open(value, kind):
                raise located(LayoutUnknown(str(value.type.scalar), kind.text, advice), span_of(op.location))


class _Inference:
    """Layouts of one function that spread."""

    def __init__(self, function: Func, kind: Distributed) -> None:
        self._function, self._kind = function, kind
        self._known: dict[Value, Found] = {}
        self._work: list[Value] = []
        self._tied: defaultdict[Value, list[Value]] = defaultdict(list)
        self._ops = dict.fromkeys(function.walk())
        for op in self._ops:
            if op.regions or op.definition.terminator:
                for left, right in flow_edges(op):
                    self._tied[left].append(right)
                    self._tied[right].append(left)

    def is_in(self, op: Op) -> bool:
        """Whether the op belongs to the function."""
        return op in self._ops

    def know(self, value: Value, found: Found) -> None:
        """Remember the layout of a value, if it is one to be found."""
        if not _is_open(value, self._kind):
            return
        before = self._known.get(value)
        if before is not None:
            if before.layout is found.layout and before.may_vary <= found.may_vary:
                return
            if not before.may_vary:
                if found.may_vary:
                    return
                place = self._function.location if value.op is None else value.op.location
                raise located(LayoutsInConflict(before.layout.text, found.layout.text), span_of(place))
            if found.may_vary:
                found = min(before, found, key=lambda info: info.layout.text)  # whatever came first
                if found == before:
                    return
        self._known[value] = found
        self._work.append(value)

    def finish(self) -> None:
        """Let all layouts spread, and write them into the types."""
        while self._work:
            value = self._work.pop()
            for other, found in self._neighbours(value, self._known[value]):
                self.know(other, found)
        for value, found in self._known.items():
            value.type = with_layout(value.type, found.layout)
            op = value.op
            if isinstance(op, Constant) and isinstance(op.value, Number):
                op.attributes["value"] = Number(op.value.value, value.type)

    def _neighbours(self, value: Value, found: Found) -> Iterator[tuple[Value, Found]]:
        for other in self._tied[value]:
            yield other, found
        for user in list(value.uses):
            if not user.regions or isinstance(user, Scan) or user.definition.name == "tt.reduce":
                yield from self._through(user, user.results, found, forward=True)
        op = value.op
        if op is not None and (not op.regions or isinstance(op, Scan) or op.definition.name == "tt.reduce"):
            yield from self._through(op, op.operands, found, forward=False)

    def _through(self, op: Op, values: list[Value], found: Found, *, forward: bool) -> Iterator[tuple[Value, Found]]:
        """The layouts of results, or of operands, of an op one side of which has the layout `found`."""
        if op.definition.terminator or isinstance(op, SetAutoLayout):
            return
        if isinstance(op, Scan):
            layout: Distributed | None = found.layout
        else:
            layout = (layout_of_results if forward else layout_of_operands)(op, found.layout)
        if layout is not None:
            may_vary = found.may_vary or isinstance(op, MAY_VARY)
            for value in values:
                yield value, Found(layout, may_vary)
