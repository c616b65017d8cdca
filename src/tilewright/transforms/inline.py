"""Inline: a call is replaced by the body of the function, and functions without calls are removed.

    tt.func public @kernel(%n: i32) {                      tt.func public @kernel(%n: i32) {
      %b = tt.call @cdiv(%n) : (i32) -> i32          ->      %c = arith.addi %n, %c63 : i32
                                                             %b = arith.divsi %c, %c64 : i32

Functions marked `noinline` stay, unless a caller requests their inlining too, or a reduction, scan or map calls them
for its elements, which are lanes of vectors. Assumptions (`llvm.intr.assume`) are dropped there, as they would have to
hold for lanes after the last element, too. Copied ops keep both their own location and that of the call.

Symbol DCE alone erases private functions that no public function reaches:

    tt.func public @kernel() {…}              ->    tt.func public @kernel() {…}
    tt.func private @cdiv__i32_i32() {…}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from tilewright.analysis.value_flow import reachable
from tilewright.dialects.builtin import Assume
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.tt_reduce import Fold, MapElementwise
from tilewright.ir.attributes import CallLocation, Location, Symbol
from tilewright.ir.core import Op, Value
from tilewright.transforms.functions import functions_of
from tilewright.transforms.structure_control_flow import structure_functions

BY_ELEMENT = (Fold, MapElementwise)
"""Ops whose function is of elements."""


def inline(module: Op, *, every_call: bool = False) -> bool:
    """Inline every call in `module` of a function that is not `noinline` and does not call itself.

    With `every_call` also those that are `noinline`. Functions with early returns are structured first; one whose
    blocks form a cycle stays.
    """
    functions = {function.symbol: function for function in functions_of(module)}
    if len(functions) < 2:
        return False
    structure_functions([function for function in functions.values() if not function.is_public])
    of_elements = _called_for_elements(module, functions)
    inlined = {
        name: function
        for name, function in functions.items()
        if every_call or not function.noinline or name in of_elements
    }
    inliner = _Inliner(inlined, Counter(op.callee for op in module.ops_of(Call)))
    for function in functions.values():
        inliner.inline_calls(function, ())
    if of_elements:
        for promise in [inner for op in module.ops_of(BY_ELEMENT) for inner in op.ops_of(Assume)]:
            promise.erase()
    symbol_dce(module)
    return True


def _called_for_elements(module: Op, functions: Mapping[str, Func]) -> Collection[str]:
    """The functions that reductions, scans and maps call, directly or indirectly."""
    called = (call.callee for op in module.ops_of(BY_ELEMENT) for call in op.ops_of(Call))
    return reachable(called, lambda name: _called_by(functions[name]) if name in functions else ())


class _Inliner:
    """The inlining of one module: of `functions` by name, each of which is called as often as `calls` says."""

    def __init__(self, functions: dict[str, Func], calls: Counter[str]) -> None:
        self._functions, self._calls = functions, calls
        self._finished: set[Func] = set()

    def inline_calls(self, caller: Func, callers: tuple[Func, ...]) -> None:
        """Inline into `caller`, callees first."""
        if caller in self._finished:
            return
        for op in list(caller.walk()):
            if not isinstance(op, Call):
                continue
            name = op.callee
            callee = self._functions.get(name)
            if callee is None or callee is caller or callee in callers:
                continue
            self.inline_calls(callee, (*callers, caller))
            if len(callee.region.blocks) == 1:
                self._calls[name] -= 1
                _inline_call(op, callee, for_good=not self._calls[name] and not callee.is_public)
        self._finished.add(caller)


def _inline_call(call: Call, callee: Func, *, for_good: bool) -> None:
    """Put a copy of the body of `callee` before `call`, whose results become what it returns.

    For good: this is the last call, and the body itself moves.
    """
    body, target = callee.body, call.block
    assert target is not None, "a call is in a block"
    mapping: dict[Value, Value] = {}
    if for_good:
        for argument, operand in zip(body.args, call.arguments, strict=True):
            argument.replace_by(operand)
    else:
        mapping = dict(zip(body.args, call.arguments, strict=True))
    locations: dict[int, Location] = {}  # by identity: hashing chains of calls would take longer than the copy
    for op in body:
        if op is body.last:
            call.replace([mapping.get(value, value) for value in op.operands])
            return
        if for_good:
            op.unlink()
        placed = target.insert(op if for_good else op.clone(mapping), call)
        for inner in placed.walk():
            inner.location = _called_from(inner.location, call.location, locations)


def _called_from(callee: Location, caller: Location, known: dict[int, Location]) -> Location:
    """The place `callee`, reached from `caller`; shared by the ops that share `callee`."""
    found = known.get(id(callee))
    if found is None:
        found = known[id(callee)] = CallLocation(callee, caller)
    return found


def symbol_dce(module: Op) -> bool:
    """Erase the functions of `module` that are private and not called, directly or indirectly, by a public one."""
    functions = {op.symbol: op for op in module.regions[0].block if isinstance(op, Func)}
    roots = [name for name, op in functions.items() if op.visibility != "private"]
    if len(roots) == len(functions):
        return False
    reached = reachable(roots, lambda name: (callee for callee in _called_by(functions[name]) if callee in functions))
    for name, op in functions.items():
        if name not in reached:
            op.erase()
    return len(reached) < len(functions)


def _called_by(function: Op) -> list[str]:
    """Names of the functions that `function` mentions."""
    found = []
    for op in function.walk():
        for attribute in op.attributes.values():
            if isinstance(attribute, Symbol):
                found.append(attribute.name)
    return found
