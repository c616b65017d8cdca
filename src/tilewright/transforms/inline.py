"""Inline: a call is replaced by the body of the function, and functions nobody calls any more leave.

    tt.func public @kernel(%n: i32) {                      tt.func public @kernel(%n: i32) {
      %b = tt.call @cdiv(%n) : (i32) -> i32          ->      %c = arith.addi %n, %c63 : i32
                                                             %b = arith.divsi %c, %c64 : i32

Functions marked `noinline` stay, unless a caller asks for them too. Copied ops remember both where they
were written and who called.
"""

from __future__ import annotations

from tilewright.ir.attributes import CallLocation, Location, Symbol
from tilewright.ir.core import Op
from tilewright.transforms.functions import functions_of, symbol_name
from tilewright.transforms.symbol_dce import symbol_dce


def inline(module: Op, *, every_call: bool = False) -> bool:
    """Inline every call in `module` of a function that has one block, is not `noinline` and does not call itself.

    Args:
        module: what to change.
        every_call: `noinline` functions are inlined too.

    Returns:
        whether there were several functions.
    """
    functions = {symbol_name(function): function for function in functions_of(module)}
    if len(functions) < 2:
        return False
    inlined = {name: function for name, function in functions.items() if every_call or not _stays(function)}
    finished: set[Op] = set()
    for function in functions.values():
        _inline_calls(function, inlined, finished, ())
    symbol_dce(module)
    return True


def _inline_calls(caller: Op, functions: dict[str, Op], finished: set[Op], callers: tuple[Op, ...]) -> None:
    """Inline into `caller`, callees first."""
    if caller in finished:
        return
    for op in list(caller.walk()):
        if op.name != "tt.call":
            continue
        callee = _callee(op, functions)
        if callee is None or callee is caller or callee in callers:
            continue
        _inline_calls(callee, functions, finished, (*callers, caller))
        if len(callee.regions[0].blocks) == 1:
            _inline_call(op, callee)
    finished.add(caller)


def _stays(function: Op) -> bool:
    return function.attributes.get("noinline") is True


def _callee(call: Op, functions: dict[str, Op]) -> Op | None:
    symbol = call.attributes["callee"]
    assert isinstance(symbol, Symbol), "a call names its callee"
    return functions.get(symbol.name)


def _inline_call(call: Op, callee: Op) -> None:
    """Copy the body of `callee` in front of `call`, whose results become what it returns."""
    body, target = callee.regions[0].block, call.block
    assert target is not None, "a call is in a block"
    mapping = dict(zip(body.args, call.operands, strict=True))
    locations: dict[int, Location] = {}  # by identity: hashing chains of calls would take longer than the copy
    for op in body:
        if op is body.last:
            call.replace([mapping.get(value, value) for value in op.operands])
            return
        copy = target.insert(op.clone(mapping), call)
        for inner in copy.walk():
            inner.location = _called_from(inner.location, call.location, locations)


def _called_from(callee: Location, caller: Location, known: dict[int, Location]) -> Location:
    """The place `callee`, reached from `caller`; shared by the ops that share `callee`."""
    found = known.get(id(callee))
    if found is None:
        found = known[id(callee)] = CallLocation(callee, caller)
    return found
