"""The call `function(*arguments)`: find the specialisation, run it, return a number or a new array.

    numbers     words → scalar(words, result) → int, float or bool
    arrays      of one shape, all in C order or all in Fortran order, with numbers between them, perhaps `out=` of the
                same shape, order and dtype: a new array, or the output; one span

Anything else (keywords, other shapes, new dtypes, numbers that are too large) goes to Python: `missed`.
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import Function, Module, Variable
from tilewright.runtime.drivers.cpu.native.structs import (
    NDARRAY_DATA,
    NDARRAY_DTYPE,
    NDARRAY_FLAGS,
    OBJECT_TYPE,
    RAISED,
    RUNTIME,
)
from tilewright.runtime.drivers.cpu.native.systems import MACHINES
from tilewright.vectorizing.native.memory import add_memory, outside, table_of
from tilewright.vectorizing.native.rows import add_rows, call_on_stack
from tilewright.vectorizing.native.structs import (
    ARRAY_C_ORDER,
    ARRAY_EXTENTS,
    ARRAY_F_ORDER,
    ARRAY_RANK,
    ARRAY_WRITEABLE,
    CALL,
    FLOAT_VALUE,
    KEY,
    LARGE,
    MAX_ARGUMENTS,
    OPERAND,
    OUTPUT_APART,
    OUTPUT_IN_PLACE,
    OUTPUT_UNFIT,
    OWN_MEMORY,
    RECORD,
    RECORDS,
    RESULT_BOOL,
    RESULT_FLOAT,
    ROLE_ARRAY,
    ROLE_BOOL,
    ROLE_FLOAT,
    ROLE_INT,
    STATE,
    TABLE,
)

_NO_OFFSET_FLAG = 2**63 - 1


def calls_text(machine: str) -> str:
    """LLVM IR of the native side of vectorized functions for one of `MACHINES`; its blob can be cached."""
    module = Module(MACHINES[machine], outside)
    module.declarations.append(f"@{RUNTIME} = externally_initialized constant ptr null")
    add_rows(module)
    _matches(module)
    _fill_words(module)
    _number(module)
    _common_order(module)
    _elements(module)
    _fit(module)
    add_memory(module)
    _array(module)
    _missed(module)
    _output_among(module)
    _call(module)
    return module.text()


def _key(f: Function, record: Lanes, index: Lanes) -> Lanes:
    return f.at(record, index * KEY.size + RECORD.size)


def _matches(module: Module) -> None:
    """Whether the arguments are those of a record."""
    f = module.function("matches", "i1", {"record": "ptr", "objects": "ptr"})
    array_type = f.get(TABLE, table_of(f), "array_type")
    with f.counted(f.get(RECORD, f["record"], "count")) as index:
        key = _key(f, f["record"], index)
        argument = f.load("ptr", f["objects"], index * 8)
        kind = f.variable("ptr", f.load("ptr", argument, OBJECT_TYPE))
        with f.when(f.get(KEY, key, "role").equals(ROLE_ARRAY)):
            f.give_when(kind.value.differs(array_type), 0)
            kind.set(f.load("ptr", argument, NDARRAY_DTYPE))
        f.give_when(kind.value.differs(f.get(KEY, key, "expected")), 0)
    f.give(1)


def _fill_words(module: Module) -> None:
    """The values of numbers, one word each; 0 if an integer is too large."""
    f = module.function("fill_words", "i1", {"record": "ptr", "objects": "ptr", "words": "ptr"})
    overflow = f.stack("i32")
    with f.counted(f.get(RECORD, f["record"], "count")) as index:
        role = f.get(KEY, _key(f, f["record"], index), "role")
        argument = f.load("ptr", f["objects"], index * 8)
        place = f.at(f["words"], index * 8)
        with f.when(role.equals(ROLE_INT)):
            f.store(f.call(outside(f, "PyLong_AsLongLongAndOverflow"), "i64", argument, overflow), place)
            f.give_when(f.load("i32", overflow).differs(0), 0)
        with f.when(role.equals(ROLE_FLOAT)):
            f.store(f.load("i64", argument, FLOAT_VALUE), place)
        with f.when(role.equals(ROLE_BOOL)):
            f.store(argument.equals(f.get(TABLE, table_of(f), "true")).widened("i64"), place)
    f.give(1)


def _number(module: Module) -> None:
    """A call with numbers; null if Python has to decide."""
    f = module.function("number", "ptr", {"record": "ptr", "objects": "ptr"})
    record = f["record"]
    words, result = f.stack(f"[{MAX_ARGUMENTS} x i64]"), f.stack("i64")
    f.give_when(f.call("fill_words", "i1", record, f["objects"], words).equals(0), 0)
    f.give_when(f.call(f.get(RECORD, record, "entry"), "i32", words, result).differs(0), 0)
    kind = f.get(RECORD, record, "result").to("i64")
    with f.when(kind.equals(RESULT_FLOAT)):
        f.give(f.call(outside(f, "PyFloat_FromDouble"), "ptr", f.load("double", result)))
    word = f.load("i64", result)
    with f.when(kind.equals(RESULT_BOOL)):
        table = table_of(f)
        answer = f.choose(word.differs(0), f.get(TABLE, table, "true"), f.get(TABLE, table, "false"), kind="ptr")
        f.call(outside(f, "Py_IncRef"), "void", answer)
        f.give(answer)
    f.give(f.call(outside(f, "PyLong_FromLongLong"), "ptr", word))


def _common_order(module: Module) -> None:
    """The first array, if all have its extents and all lie in one order, which `order` gets; else null."""
    f = module.function("common_order", "ptr", {"record": "ptr", "objects": "ptr", "order": "ptr"})
    first, orders = f.variable("ptr", 0), f.variable("i64", ARRAY_C_ORDER | ARRAY_F_ORDER)
    with f.counted(f.get(RECORD, f["record"], "count")) as index:
        is_array = f.get(KEY, _key(f, f["record"], index), "role").equals(ROLE_ARRAY)
        with f.when(is_array):
            array = f.load("ptr", f["objects"], index * 8)
            orders.set(orders.value & f.load("i32", array, NDARRAY_FLAGS).to("i64"))
            with f.when(first.value.equals(0)) as is_first:
                first.set(array)
            with is_first.otherwise():
                rank = f.load("i32", array, ARRAY_RANK)
                f.give_when(rank.differs(f.load("i32", first.value, ARRAY_RANK)), 0)
                extents, others = f.load("ptr", array, ARRAY_EXTENTS), f.load("ptr", first.value, ARRAY_EXTENTS)
                _give_up_unless_equal(f, extents, others, rank.to("i64"))
    f.store(orders.value, f["order"])
    f.give_when(orders.value.equals(0) | f.load("i32", first.value, ARRAY_RANK).equals(0), 0)
    f.give(first.value)


def _give_up_unless_equal(f: Function, left: Lanes, right: Lanes, count: Lanes) -> None:
    with f.counted(count) as index:
        differ = f.load("i64", left, index * 8).differs(f.load("i64", right, index * 8))
        f.give_when(differ, 0)


def _array(module: Module) -> None:
    """A call with arrays; null if Python has to decide (then `failed` is not set), or with an exception."""
    f = module.function("array", "ptr", {"record": "ptr", "objects": "ptr", "out": "ptr", "failed": "ptr"})
    record, objects = f["record"], f["objects"]
    call, operands, sizes = call_on_stack(f)
    words, order = f.stack(f"[{MAX_ARGUMENTS} x i64]"), f.stack("i64")
    first = f.call("common_order", "ptr", record, objects, order)
    f.give_when(first.equals(0), 0)
    f.give_when(f.call("fill_words", "i1", record, objects, words).equals(0), 0)
    result, entry, apart = f.variable("ptr", f["out"]), f.variable("ptr", 0), f.variable("i64", 1)
    with f.when(f["out"].differs(0)) as has_output:
        fit = f.call("fit", "i64", record, objects, first, f["out"], f.load("i64", order))
        f.give_when(fit.equals(OUTPUT_UNFIT), 0)
        apart.set(f.choose(fit.equals(OUTPUT_APART), 1, 0))
        entry.set(f.get(RECORD, record, "entry"))
        f.call(outside(f, "Py_IncRef"), "void", f["out"])
    with has_output.otherwise():
        _new_array(f, result, entry, first, f.load("i64", order))
    made, span = result.value, entry.value
    count = f.get(RECORD, record, "count")
    with f.counted(count) as index:
        key = _key(f, record, index)
        operand, size = f.at(operands, index * OPERAND.size), f.get(KEY, key, "size")
        f.store(size, sizes, index * 8)
        with f.when(f.get(KEY, key, "role").equals(ROLE_ARRAY)) as is_array:
            f.put(OPERAND, operand, "address", f.load("ptr", f.load("ptr", objects, index * 8), NDARRAY_DATA))
            f.put(OPERAND, operand, "stride", size)
        with is_array.otherwise():
            f.put(OPERAND, operand, "address", f.at(words, index * 8))
            f.put(OPERAND, operand, "stride", 0)
    place, size = f.at(operands, count * OPERAND.size), f.get(RECORD, record, "size")
    f.put(OPERAND, place, "address", f.load("ptr", made, NDARRAY_DATA))
    f.put(OPERAND, place, "stride", size)
    f.store(size, sizes, count * 8)
    f.put(CALL, call, "may_repeat", apart.value)
    _execute(f, call, operands, sizes, made, span)
    with f.when(f.get(CALL, call, "flags").differs(0)):
        f.call(outside(f, "Py_DecRef"), "void", made)
        f.give(0)
    f.give(made)


def _new_array(f: Function, made: Variable, span: Variable, first: Lanes, orders: Lanes) -> None:
    """An array of the result's dtype like the first argument, and the span that fills it."""
    record = f["record"]
    dtype = f.get(RECORD, record, "result")
    rank, extents = f.load("i32", first, ARRAY_RANK), f.load("ptr", first, ARRAY_EXTENTS)
    fortran = (orders & ARRAY_C_ORDER).equals(0).widened("i32")
    span.set(f.get(RECORD, record, "entry"))
    size = f.call("elements", "i64", first) * f.get(RECORD, record, "size")
    with f.when(size >= LARGE):
        span.set(f.get(RECORD, record, "stream"))
        f.give_when(span.value.equals(0), 0)
    f.call(outside(f, "Py_IncRef"), "void", dtype)  # the new array takes the reference
    with f.when(size >= OWN_MEMORY) as large:
        made.set(f.call("large_array", "ptr", rank, extents, dtype, fortran))
    with large.otherwise():
        made.set(f.call(f.get(TABLE, table_of(f), "empty"), "ptr", rank, extents, dtype, fortran))
    with f.when(made.value.equals(0)):
        f.store(f.constant("i32", 1), f["failed"])
        f.give(0)


def _fit(module: Module) -> None:
    """Whether an array can be the output of a call with these arguments, and shares memory with one of them."""
    parameters = {"record": "ptr", "objects": "ptr", "first": "ptr", "out": "ptr", "orders": "i64"}
    f = module.function("fit", "i64", parameters)
    record, first, out = f["record"], f["first"], f["out"]
    is_array = f.load("ptr", out, OBJECT_TYPE).equals(f.get(TABLE, table_of(f), "array_type"))
    f.give_when(is_array.equals(0) | f.get(RECORD, record, "checks").differs(0), OUTPUT_UNFIT)
    flags = f.load("i32", out, NDARRAY_FLAGS).to("i64")
    is_ordered = (flags & f["orders"]).differs(0) & (flags & ARRAY_WRITEABLE).differs(0)
    is_of_type = f.load("ptr", out, NDARRAY_DTYPE).equals(f.get(RECORD, record, "result"))
    rank = f.load("i32", first, ARRAY_RANK)
    is_like = is_ordered & is_of_type & rank.equals(f.load("i32", out, ARRAY_RANK))
    f.give_when(is_like.equals(0), OUTPUT_UNFIT)
    _give_up_unless_equal(f, f.load("ptr", first, ARRAY_EXTENTS), f.load("ptr", out, ARRAY_EXTENTS), rank.to("i64"))
    count = f.call("elements", "i64", first)
    start, size = f.load("i64", out, NDARRAY_DATA), f.get(RECORD, record, "size")
    answer = f.variable("i64", OUTPUT_APART)
    with f.counted(f.get(RECORD, record, "count")) as index:
        key = _key(f, record, index)
        with f.when(f.get(KEY, key, "role").equals(ROLE_ARRAY)):
            other, width = f.load("i64", f.load("ptr", f["objects"], index * 8), NDARRAY_DATA), f.get(KEY, key, "size")
            touches = (start < other + count * width) & (other < start + count * size)
            with f.when(touches):
                answer.set(OUTPUT_IN_PLACE)
                f.give_when(other.differs(start) | width.differs(size), OUTPUT_UNFIT)
    f.give(answer.value)


def _elements(module: Module) -> None:
    """The number of elements of an array."""
    f = module.function("elements", "i64", {"array": "ptr"})
    count = f.variable("i64", 1)
    extents = f.load("ptr", f["array"], ARRAY_EXTENTS)
    with f.counted(f.load("i32", f["array"], ARRAY_RANK).to("i64")) as axis:
        count.set(count.value * f.load("i64", extents, axis * 8))
    f.give(count.value)


def _execute(f: Function, call: Lanes, operands: Lanes, sizes: Lanes, made: Lanes, span: Lanes) -> None:
    record, table = f["record"], table_of(f)
    length = f.call("elements", "i64", made)
    chunk = f.get(RECORD, record, "chunk")
    total = (length + chunk - 1) // chunk
    nothing = f.constant("ptr", 0)
    fields = {
        "span": span,
        "rest": f.get(RECORD, record, "entry"),
        "control": nothing,
        "lanes": f.get(RECORD, record, "lanes"),
        "length": length,
        "chunk": chunk,
        "per_row": total,
        "count": f.get(RECORD, record, "count") + 1,
        "flags": f.constant("i64", 0),
        "backwards": f.get(RECORD, record, "backwards"),
        "rank": f.constant("i64", 0),
        "shape": nothing,
        "sizes": sizes,
        "strides": nothing,
        "operands": operands,
    }
    for name, value in fields.items():
        f.put(CALL, call, name, value)
    f.put(RECORD, record, "backwards", f.get(RECORD, record, "backwards") ^ 1)
    rows = f.emit("ptr", "getelementptr i8, ptr @rows, i64 0")
    no, cost = f.constant("i64", 0), f.address(RECORD, record, "cost")
    status = f.call(f.get(TABLE, table, "execute"), "i32", rows, call, total, no, no, cost)
    with f.when(status.equals(RAISED)):
        f.call(outside(f, "Py_DecRef"), "void", made)
        f.store(f.constant("i32", 1), f["failed"])
        f.give(0)


def _missed(module: Module) -> None:
    """Hands a call to Python: missed(function, *arguments, **keywords)."""
    f = module.function("missed", "ptr", {"self": "ptr", "objects": "ptr", "positional": "i64", "names": "ptr"})
    count = f.variable("i64", f["positional"])
    with f.when(f["names"].differs(0)):
        count.set(count.value + f.call(outside(f, "PyTuple_Size"), "i64", f["names"]))
    everything = f.stack_words(count.value + 1)
    f.store(f["self"], everything)
    with f.counted(count.value) as index:
        f.store(f.load("ptr", f["objects"], index * 8), everything, index * 8 + 8)
    python = f.get(TABLE, table_of(f), "missed")
    f.give(f.call(outside(f, "PyObject_Vectorcall"), "ptr", python, everything, f["positional"] + 1, f["names"]))


def _call(module: Module) -> None:
    """The vectorcall of a function object."""
    parameters = {"self": "ptr", "objects": "ptr", "flags": "i64", "names": "ptr"}
    f = module.function("call_vectorized", "ptr", parameters, exported=True)
    objects, names = f["objects"], f["names"]
    positional = f["flags"] & _NO_OFFSET_FLAG
    state = f.at(f["self"], f.get(TABLE, table_of(f), "state"))
    failed = f.stack("i32")
    f.store(f.constant("i32", 0), failed)
    out = f.call("output_among", "ptr", objects, positional, names)
    with f.when(names.equals(0) | out.differs(0)):
        records = f.get(STATE, state, "records")
        with f.counted(f.get(RECORDS, records, "count")) as index:
            record = f.load("ptr", records, index * 8 + RECORDS.size)
            has_as_many = f.get(RECORD, record, "count").equals(positional)
            with f.when(has_as_many), f.when(f.call("matches", "i1", record, objects)):
                _run(f, record, out, failed, positional)
    f.give(f.call("missed", "ptr", f["self"], objects, positional, names))


def _output_among(module: Module) -> None:
    """The argument of `out=`, if that is the only keyword."""
    f = module.function("output_among", "ptr", {"objects": "ptr", "positional": "i64", "names": "ptr"})
    f.give_when(f["names"].equals(0), 0)
    f.give_when(f.call(outside(f, "PyTuple_Size"), "i64", f["names"]).differs(1), 0)
    name = f.call(outside(f, "PyTuple_GetItem"), "ptr", f["names"], f.constant("i64", 0))
    f.give_when(name.differs(f.get(TABLE, table_of(f), "out")), 0)
    f.give(f.load("ptr", f["objects"], f["positional"] * 8))


def _run(f: Function, record: Lanes, out: Lanes, failed: Lanes, positional: Lanes) -> None:
    objects, found = f["objects"], f.variable("ptr", 0)
    with f.when(f.get(RECORD, record, "is_array").differs(0)) as arrays:
        found.set(f.call("array", "ptr", record, objects, out, failed))
    with arrays.otherwise(), f.when(out.equals(0)):
        found.set(f.call("number", "ptr", record, objects))
    with f.when(found.value.differs(0) | f.load("i32", failed).differs(0)):
        f.give(found.value)
    f.give(f.call("missed", "ptr", f["self"], objects, positional, f["names"]))
