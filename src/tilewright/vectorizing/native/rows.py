"""Spans over rows of arrays: `rows(call, begin, end, scratch)` is the job of the launcher's threads.

program p     row p / per_row, elements from (p % per_row) · chunk on
a chunk       whole vectors; then the last vector again from its end backwards, where that does no harm,
              else the rest through buffers of one vector per operand

Calls with the same kinds alternate between forwards and backwards: a call begins with the elements that the previous
one has left in the caches, if the arrays do not fit there.
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import Function, Module
from tilewright.vectorizing.native.structs import BUFFER, CALL, MAX_ARGUMENTS, OPERAND

_OPERANDS = f"[{(MAX_ARGUMENTS + 3) * OPERAND.size // 8} x i64]"
_BUFFERS = f"[{(MAX_ARGUMENTS + 3) * BUFFER} x i8]"


def add_rows(module: Module) -> None:
    """Adds `rows` and its parts to the module."""
    _copy_element(module)
    _through_buffers(module)
    _run_chunk(module)
    _place_operands(module)
    _rows(module)


def _copy_element(module: Module) -> None:
    f = module.function("copy_element", "void", {"target": "ptr", "source": "ptr", "size": "i64"})
    for size, kind in ((8, "i64"), (4, "i32"), (2, "i16"), (1, "i8")):
        with f.when(f["size"].equals(size)):
            value = f.emit(kind, f"load {kind}, ptr {f['source'].name}, align 1")
            f.statement(f"store {kind} {value.name}, ptr {f['target'].name}, align 1")
            f.give()
    f.give()


def _through_buffers(module: Module) -> None:
    """Run fewer elements than a vector has: inputs are copied and the last one repeated, results copied back."""
    arguments = {"call": "ptr", "operands": "ptr", "begin": "i64", "rest": "i64"}
    f = module.function("through_buffers", "i32", arguments)
    call, lanes, count = f["call"], f.get(CALL, f["call"], "lanes"), f.get(CALL, f["call"], "count")
    local, buffers = f.stack(_OPERANDS), f.stack(_BUFFERS)
    sizes = f.get(CALL, call, "sizes")
    with f.counted(count) as index:
        operand, own = f.at(f["operands"], index * OPERAND.size), f.at(local, index * OPERAND.size)
        address, stride = f.get(OPERAND, operand, "address"), f.get(OPERAND, operand, "stride")
        size = f.load("i64", sizes, index * 8)
        with f.when(stride.equals(0) & (index < count - 1)) as shared:
            f.put(OPERAND, own, "address", address)
            f.put(OPERAND, own, "stride", 0)
        with shared.otherwise():
            buffer = f.at(buffers, index * BUFFER)
            f.put(OPERAND, own, "address", buffer)
            f.put(OPERAND, own, "stride", size)
            with f.when(index < count - 1), f.counted(lanes) as lane:
                last = f["rest"] - 1
                source = f.at(address, (f["begin"] + f.choose(lane < last, lane, last)) * stride)
                f.call("copy_element", "void", f.at(buffer, lane * size), source, size)
    flags = f.call(f.get(CALL, call, "rest"), "i32", local, f.constant("i64", 0), lanes)
    result = f.at(f["operands"], (count - 1) * OPERAND.size)
    size = f.load("i64", sizes, (count - 1) * 8)
    buffer = f.at(buffers, (count - 1) * BUFFER)
    with f.counted(f["rest"]) as lane:
        place = (f["begin"] + lane) * f.get(OPERAND, result, "stride")
        f.call("copy_element", "void", f.at(f.get(OPERAND, result, "address"), place), f.at(buffer, lane * size), size)
    f.give(flags)


def _run_chunk(module: Module) -> None:
    """Run elements begin … end-1 of one row."""
    f = module.function("run_chunk", "void", {"call": "ptr", "operands": "ptr", "begin": "i64", "end": "i64"})
    call, begin, end = f["call"], f["begin"], f["end"]
    span, lanes = f.get(CALL, call, "span"), f.get(CALL, call, "lanes")
    whole = (end - begin) & (f.constant("i64", 0) - lanes)
    flags = f.variable("i32", 0)
    with f.when(whole > 0):
        flags.set(f.call(span, "i32", f["operands"], begin, begin + whole))
    with f.when(begin + whole < end):
        again = (whole > 0) & f.get(CALL, call, "may_repeat").differs(0)
        with f.when(again) as repeat:
            flags.set(flags.value | f.call(f.get(CALL, call, "rest"), "i32", f["operands"], end - lanes, end))
        with repeat.otherwise():
            rest = end - begin - whole
            flags.set(flags.value | f.call("through_buffers", "i32", call, f["operands"], begin + whole, rest))
    with f.when(flags.value.differs(0)):
        f.update("or", f.address(CALL, call, "flags"), flags.value.widened("i64"))
    f.give()


def _place_operands(module: Module) -> None:
    """The operands at the start of a row."""
    f = module.function("place_operands", "void", {"call": "ptr", "row": "i64", "local": "ptr"})
    call = f["call"]
    rank, count = f.get(CALL, call, "rank"), f.get(CALL, call, "count")
    shape, strides, operands = (f.get(CALL, call, name) for name in ("shape", "strides", "operands"))
    with f.counted(count) as index:
        own, operand = f.at(f["local"], index * OPERAND.size), f.at(operands, index * OPERAND.size)
        for field in ("address", "stride"):
            f.put(OPERAND, own, field, f.get(OPERAND, operand, field))
    left = f.variable("i64", f["row"])
    with f.counted(rank) as number:
        axis = rank - number - 1
        extent = f.load("i64", shape, axis * 8)
        rows = left.value // extent
        place = left.value - rows * extent
        left.set(rows)
        with f.counted(count) as index:
            own = f.at(f["local"], index * OPERAND.size)
            stride = f.load("i64", strides, (index * rank + axis) * 8)
            f.put(OPERAND, own, "address", f.at(f.get(OPERAND, own, "address"), place * stride))
    f.give()


def _rows(module: Module) -> None:
    """Run programs begin … end-1, those of one row together; gives `end`, for all have run."""
    f = module.function("rows", "i64", {"call": "ptr", "begin": "i64", "end": "i64", "scratch": "ptr"}, exported=True)
    call, end = f["call"], f["end"]
    local = f.stack(_OPERANDS)
    length, chunk, per_row = (f.get(CALL, call, name) for name in ("length", "chunk", "per_row"))
    operands = f.variable("ptr", f.get(CALL, call, "operands"))
    has_rows = f.get(CALL, call, "rank").differs(0)
    with f.when(f.get(CALL, call, "backwards").differs(0)):
        with f.counted(end - f["begin"]) as number:
            first = (end - number - 1) * chunk
            last = f.choose(first + chunk < length, first + chunk, length)
            f.call("run_chunk", "void", call, operands.value, first, last)
        f.give(end)
    program = f.variable("i64", f["begin"])
    with f.repeat() as loop:
        first = program.value
        loop.leave_when(first >= end)
        row = f.variable("i64", 0)
        with f.when(has_rows):
            row.set(first // per_row)
            f.call("place_operands", "void", call, row.value, local)
            operands.set(local)
        start = row.value * per_row
        following = f.choose(start + per_row < end, start + per_row, end)
        last = (following - start) * chunk
        last = f.choose(last < length, last, length)
        f.call("run_chunk", "void", call, operands.value, (first - start) * chunk, last)
        program.set(following)
    f.give(end)


def call_on_stack(f: Function) -> tuple[Lanes, Lanes, Lanes]:
    """Room for a CALL, its operands and their sizes."""
    return f.stack(f"[{CALL.size // 8} x i64]"), f.stack(_OPERANDS), f.stack(f"[{MAX_ARGUMENTS + 3} x i64]")
