"""The call `kernel[grid](*args, **keywords)`: a bound object, the grid, the launch record, the run.

subscript          kernel, grid → bound object (reused when the last one is free)
call               find layout, key, specialisation; grid; fill slots; run; return the result
  → missed         a call without a known specialisation goes to Python
execute            scratch, GIL, one thread or the pool; measures the cost for later launches
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.arguments import call_python, drop_found, looked_up, release, type_of
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, I32, I64, RARE, Function, Ptr, Variable, native
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    BOUND,
    DONE,
    FILL,
    GUARD,
    GUARDS,
    HEAP_TYPE,
    IS_FREE_THREADED,
    LAUNCH_SLOTS,
    LAYOUT,
    NO_MEMORY,
    RECORD,
    SOURCE,
    SPARE,
    STAND_IN,
    STATE,
    STUCK,
    TABLE,
    UNKNOWN,
    Convert,
)

_MAX_EXTENT, _MAX_SIDE = 2**31 - 1, 65_535  # along x; along y and z
_NO_OFFSET_FLAG = 2**63 - 1  # clears PY_VECTORCALL_ARGUMENTS_OFFSET
_NOT_KNOWN = 1  # in place of a result, whose address it never is


@native("ptr")
def _retain(f: Function, value: Ptr) -> None:
    f.call(system(f, "Py_IncRef"), "void", value)
    f.give(value)


def _retained(f: Function, value: Lanes) -> Lanes:
    return f.call("retain", "ptr", value)


@native("ptr")
def _bind(f: Function, kernel: Ptr, grid: Ptr) -> None:
    """A new bound object, which the collector knows; the one that is kept stays known to it, too.

    A program that gets all objects from the collector may hold the kept one; then it is not reused.
    """
    table = runtime(f)
    if not IS_FREE_THREADED:
        _give_kept(f, f.get(TABLE, table, "free_bound"))
    bound = f.call(system(f, "_PyObject_GC_New"), "ptr", f.get(TABLE, table, "bound_type"))
    f.give_when(bound.equals(0), 0)
    f.put(BOUND, bound, "vectorcall", f.emit("ptr", "getelementptr i8, ptr @call_bound, i64 0"))
    for field in ("kernel", "grid"):
        f.put(BOUND, bound, field, _retained(f, f[field]))
    f.call(system(f, "PyObject_GC_Track"), "void", bound)
    f.give(bound)


def _give_kept(f: Function, bound: Lanes) -> None:
    """Returns the kept bound object, if there is one without other references."""
    with f.when(bound.differs(0)):
        f.put(TABLE, runtime(f), "free_bound", 0)
        with f.when(f.get(BOUND, bound, "refcount").equals(1)):
            for field in ("kernel", "grid"):
                f.put(BOUND, bound, field, _retained(f, f[field]))
            f.give(bound)
        release(f, bound)


@native("ptr", exported=True)
def _subscript_kernel(f: Function, kernel: Ptr, grid: Ptr) -> None:
    f.give(f.call("bind", "ptr", kernel, grid))


@native("ptr", exported=True)
def _subscript_owner(f: Function, owner: Ptr, grid: Ptr) -> None:
    """`jit_function[grid]`: through its kernel, once it has one."""
    table = runtime(f)
    kernel = f.load("ptr", owner, f.get(TABLE, table, "owner_slot"))
    with f.when(kernel.differs(0)), f.when(type_of(f, kernel).equals(f.get(TABLE, table, "type_kernel"))):
        f.give(f.call("bind", "ptr", kernel, grid))
    fallback = f.get(TABLE, table, "owner_fallback")
    f.give(call_python(f, fallback, owner, grid))


@native("void", exported=True)
def _destroy_bound(f: Function, bound: Ptr) -> None:
    """Frees a bound object, or keeps it for the next launch.

    One that is kept is referred to by the table, so that the collector, which has it in its lists all the time, may
    look at it whenever it likes: putting it there and taking it away again would take longer than all the rest here.
    None is kept where threads are free: each would want one of its own.
    What the object referred to goes last, since that may run any code, another launch included.
    """
    table = runtime(f)
    kernel, grid = f.get(BOUND, bound, "kernel"), f.get(BOUND, bound, "grid")
    if IS_FREE_THREADED:
        _delete_bound(f, bound)
    else:
        with f.when(f.get(TABLE, table, "free_bound").equals(0)) as keeps:
            f.put(BOUND, bound, "kernel", 0)
            f.put(BOUND, bound, "grid", 0)
            f.put(BOUND, bound, "refcount", 1)
            f.put(TABLE, table, "free_bound", bound)
        with keeps.otherwise():
            _delete_bound(f, bound)
    release(f, kernel)
    release(f, grid)


def _delete_bound(f: Function, bound: Lanes) -> None:
    kind = f.get(BOUND, bound, "type")
    f.call(system(f, "PyObject_GC_UnTrack"), "void", bound)
    f.call(system(f, "PyObject_GC_Del"), "void", bound)
    if not IS_FREE_THREADED:  # there each thread counts types by itself, and a type that lives for ever need not know
        release(f, kind)


@native("i32", exported=True)
def _traverse_bound(f: Function, bound: Ptr, visit: Ptr, argument: Ptr) -> None:
    """Shows the collector what a bound object refers to.

    There is nothing that clears one, as for tuples: it refers to what was there before it, so a cycle through it goes
    through something that was changed later, and that can be cleared.
    """
    for field in ("type", "kernel", "grid"):
        value = f.get(BOUND, bound, field)
        with f.when(value.differs(0)):
            status = f.call(visit, "i32", value, argument)
            f.give_when(status.differs(0), status)
    f.give(0)


@native("i64", inlining=ALWAYS)
def _extents(f: Function, grid: Ptr, launch: Ptr) -> None:
    """The grid as three extents in the launch record, and the number of programs (or -1: not a grid we know)."""
    table = runtime(f)
    is_tuple = type_of(f, grid).equals(f.get(TABLE, table, "type_tuple"))
    f.give_when(is_tuple.equals(0) & type_of(f, grid).differs(f.get(TABLE, table, "type_list")), -1)
    sizes = f.choose(is_tuple, system(f, "PyTuple_Size"), system(f, "PyList_Size"), kind="ptr")
    items = f.choose(is_tuple, system(f, "PyTuple_GetItem"), system(f, "PyList_GetItem"), kind="ptr")
    count = f.call(sizes, "i64", grid)
    f.give_when((count < 1) | (count > 3), -1)
    total = f.variable("i64", 1)
    for offset in (0, 4, 8):
        f.store(f.constant("i32", 1), launch, offset)
    with f.counted(count) as axis:
        item = f.call(items, "ptr", grid, axis)
        with f.when(type_of(f, item).differs(f.get(TABLE, table, "type_int"))):
            _leave_programs_own(f, item, is_tuple)
        extent = f.call(system(f, "PyLong_AsLongLong"), "i64", item)
        with f.when(extent.equals(-1)):
            f.call(system(f, "PyErr_Clear"), "void")
        with f.when((extent < 0) | (extent > f.choose(axis.equals(0), _MAX_EXTENT, _MAX_SIDE))):
            f.give(-1)  # Python says what is wrong with it
        f.store(extent.to("i32"), launch, axis * 4)
        f.give_when((total.value > _MAX_EXTENT) & (extent > 1), -1)
        total.set(total.value * extent)
    f.give(total.value)


def _leave_programs_own(f: Function, item: Lanes, is_tuple: Lanes) -> None:
    """Leave to Python what is converted by a program's method: it could change the list, or resize an argument."""
    flags = f.call(system(f, "PyType_GetFlags"), "i64", type_of(f, item))
    f.give_when(is_tuple.equals(0) | (flags & HEAP_TYPE).differs(0), -1)


@native("ptr")
def _called_grid(f: Function, grid: Ptr, layout: Ptr, objects: Ptr) -> None:
    """`grid(meta)` with meta = {parameter name: argument}; a new reference, or null with an exception."""
    meta = f.call(system(f, "PyDict_New"), "ptr")
    f.give_when(meta.equals(0), 0)
    names = f.get(LAYOUT, layout, "parameter_names")
    with f.counted(f.get(LAYOUT, layout, "parameters")) as index:
        source = f.at(layout, index * SOURCE.size + LAYOUT.size)
        argument = f.call("source", "ptr", source, objects)
        name = f.load("ptr", names, index * 8)
        with f.when(f.call(system(f, "PyDict_SetItem"), "i32", meta, name, argument).differs(0)):
            release(f, meta)
            f.give(0)
    result = call_python(f, grid, meta)
    release(f, meta)
    f.give(result)


@native("void")
def _fill_slots(f: Function, record: Ptr, values: Ptr, launch: Ptr) -> None:
    slots = f.get(RECORD, record, "slots")
    with f.counted(f.get(RECORD, record, "slot_count")) as index:
        fill = f.at(slots, index * FILL.size)
        entry = f.get(FILL, fill, "entry").to("i64")
        conversion = f.get(FILL, fill, "conversion")
        value = f.load("i64", values, entry * 8)
        f.store(_converted(f, conversion, value), launch, index * 8 + LAUNCH_SLOTS)


def _converted(f: Function, conversion: Lanes, value: Lanes) -> Lanes:
    result = f.variable("i64", value)
    with f.when(conversion.differs(Convert.BITS)):
        as_double = value.kind.with_element("double").cast("sitofp", value)
        from_float = f.choose(conversion.equals(Convert.FLOAT_TO_FP32), value.to("double"), as_double, kind="double")
        single = from_float.kind.with_element("float").cast("fptrunc", from_float).to("i32").widened("i64")
        is_fp32 = conversion.equals(Convert.FLOAT_TO_FP32) | conversion.equals(Convert.INT_TO_FP32)
        truth = value.differs(0).widened("i64")
        is_fp64 = conversion.equals(Convert.INT_TO_FP64)
        result.set(f.choose(is_fp32, single, f.choose(is_fp64, as_double.to("i64"), truth)))
    return result.value


@native("ptr")
def _missed(f: Function, kernel: Ptr, grid: Ptr, objects: Ptr, positional: I64, names: Ptr) -> None:
    """Hands a call to Python: missed(kernel, grid, values, names)."""
    table = runtime(f)
    count = f.variable("i64", positional)
    names_or_none = f.variable("ptr", f.get(TABLE, table, "none"))
    with f.when(names.differs(0)):
        names_or_none.set(names)
        count.set(count.value + f.call(system(f, "PyTuple_Size"), "i64", names))
    values = f.call(system(f, "PyTuple_New"), "ptr", count.value)
    f.give_when(values.equals(0), 0)
    with f.counted(count.value) as index:
        item = _retained(f, f.load("ptr", objects, index * 8))
        f.call(system(f, "PyTuple_SetItem"), "i32", values, index, item)
    result = call_python(f, f.get(TABLE, table, "missed"), kernel, grid, values, names_or_none.value)
    release(f, values)
    f.give(result)


@native("ptr", inlining=ALWAYS)
def _launch_known(f: Function, record: Ptr, values: Ptr, launch: Ptr, total: I64) -> None:
    """Runs a specialisation over a grid that was understood; null with an exception when that does not work."""
    f.call("fill_slots", "void", record, values, launch)
    device = f.get(RECORD, record, "device")
    with f.when(device.differs(0)):
        f.give(f.call("launch_on_device", "ptr", record, values, launch, total))
    entry, scratch, threads = (f.get(RECORD, record, name) for name in ("entry", "scratch", "threads"))
    cost = f.address(RECORD, record, "cost")
    listener = f.get(RECORD, record, "listener")
    done = f.call("execute_for", "i32", entry, launch, total, scratch, threads, cost, listener)
    with f.when(done.differs(DONE)):
        f.give(f.call("failed_launch", "ptr", f.get(RECORD, record, "result"), launch, done))
    f.give(_retained(f, f.get(RECORD, record, "result")))


@native("ptr", inlining=RARE)
def _failed_launch(f: Function, result: Ptr, launch: Ptr, status: I32) -> None:
    """Sees to it that an exception is set for what `execute` gave; gives null."""
    with f.when(status.equals(NO_MEMORY)):
        f.give(f.call(system(f, "PyErr_NoMemory"), "ptr"))
    with f.when(status.equals(STUCK)):
        address = f.call(system(f, "PyLong_FromLongLong"), "ptr", launch.to("i64"))
        with f.when(address.differs(0)):
            call_python(f, f.get(TABLE, runtime(f), "stuck"), result, address)
            release(f, address)
    f.give(0)


@native("i1")
def _may_launch(f: Function, state: Ptr) -> None:
    """Whether no hook watches the launch, and the outer values are still those that the kernel was compiled with."""
    f.give_when(f.get(TABLE, runtime(f), "watched").differs(0), 0)
    hooks = f.get(STATE, state, "hooks")
    with f.when(hooks.differs(0)), f.when(f.call(system(f, "PyList_Size"), "i64", hooks).differs(0)):
        f.give(0)
    guards = f.get(STATE, state, "guards")
    with f.counted(f.get(GUARDS, guards, "count")) as index:
        guard = f.at(guards, index * GUARD.size + GUARDS.size)
        word = f.get(GUARD, guard, "word")
        found = f.variable("ptr", 0)
        with f.when(word.differs(0)) as in_memory:
            found.set(f.load("ptr", word))
        with in_memory.otherwise():
            namespace, name = f.get(GUARD, guard, "namespace"), f.get(GUARD, guard, "name")
            in_dict = looked_up(f, namespace, name)
            drop_found(f, in_dict)  # only its address counts
            found.set(in_dict)
        f.give_when(found.value.differs(f.get(GUARD, guard, "expected")), 0)
    f.give(1)


@native("ptr")
def _call_bound(f: Function, bound: Ptr, objects: Ptr, flags: I64, names: Ptr) -> None:
    """The vectorcall of a bound object."""
    positional = flags & _NO_OFFSET_FLAG
    kernel, grid = f.get(BOUND, bound, "kernel"), f.get(BOUND, bound, "grid")
    with f.when(kernel.equals(0)):  # it is the one that is kept, and somebody got it from the collector
        f.call(system(f, "PyErr_BadInternalCall"), "void")
        f.give(0)
    slot = f.load("ptr", kernel, f.get(TABLE, runtime(f), "state_slot"))
    with f.when(slot.equals(0)):  # the collector has taken the kernel apart
        f.give(f.call("missed", "ptr", kernel, grid, objects, positional, names))
    state = f.call(system(f, "PyLong_AsVoidPtr"), "ptr", slot)
    with f.when(f.call("may_launch", "i1", state).equals(0)):
        f.give(f.call("missed", "ptr", kernel, grid, objects, positional, names))
    layout = f.call("find_layout", "ptr", state, positional, names)
    with f.when(layout.differs(0)):
        extents = f.variable("ptr", grid)
        with f.when(type_of(f, grid).differs(f.get(TABLE, runtime(f), "type_tuple"))):
            _call_grid(f, extents, state, layout)
            if IS_FREE_THREADED:
                _fix_list(f, extents)
        call = (kernel, state, layout, objects, positional, names)
        result = f.call("launch_over", "ptr", extents.value, *call)
        with f.when(extents.value.differs(grid)):
            release(f, extents.value)
        f.give(result)
    f.give(f.call("missed", "ptr", kernel, grid, objects, positional, names))


def _fix_list(f: Function, extents: Variable) -> None:
    """A list, which other threads may change, as a tuple."""
    found = extents.value
    with f.when(type_of(f, found).equals(f.get(TABLE, runtime(f), "type_list"))):
        extents.set(f.call(system(f, "PyList_AsTuple"), "ptr", found))
        with f.when(found.differs(f.get(BOUND, f["bound"], "grid"))):
            release(f, found)
        f.give_when(extents.value.equals(0), 0)


def _call_grid(f: Function, extents: Variable, state: Lanes, layout: Lanes) -> None:
    """Call a grid function before any address is read: it may resize, or free, what it is given."""
    grid = extents.value
    with f.when(f.call(system(f, "PyCallable_Check"), "i32", grid).differs(0)):
        extents.set(f.call("called_grid", "ptr", grid, layout, f["objects"]))
        f.give_when(extents.value.equals(0), 0)
        with f.when(f.call("may_launch", "i1", state).equals(0)):
            kernel = f.get(BOUND, f["bound"], "kernel")
            rest = (f["objects"], f["flags"] & _NO_OFFSET_FLAG, f["names"])
            result = f.call("missed", "ptr", kernel, extents.value, *rest)
            release(f, extents.value)
            f.give(result)


@native("ptr", inlining=ALWAYS)
def _launch_over(
    f: Function, grid: Ptr, kernel: Ptr, state: Ptr, layout: Ptr, objects: Ptr, positional: I64, names: Ptr
) -> None:
    """A launch over a grid that is no function; calls that are not known go to Python."""
    result = f.call("launch_if_known", "ptr", grid, state, layout, objects)
    f.give_when(result.to("i64").differs(_NOT_KNOWN), result)
    f.give(f.call("launch_in_plain_forms", "ptr", grid, kernel, state, layout, objects, positional, names))


@native("ptr", inlining=ALWAYS)
def _launch_if_known(f: Function, grid: Ptr, state: Ptr, layout: Ptr, objects: Ptr) -> None:
    """The launch, if there is a specialisation for such arguments; else _NOT_KNOWN.

    Its steps are inlined here and in the rare launch in plain forms: where LLVM chose, calls took a tenth more time.
    """
    room = f.get(LAYOUT, layout, "count") + SPARE
    words, values = f.stack_words(room * 2), f.stack_words(room)
    found = f.call("classify", "i32", layout, objects, words, values)
    with f.when(found.differs(UNKNOWN)):
        record = f.call("find_record", "ptr", state, layout, words, found.to("i64") * 2)
        with f.when(record.differs(0)):
            launch = f.stack_words(f.get(RECORD, record, "slot_count") + LAUNCH_SLOTS // 8)
            total = f.call("extents", "i64", grid, launch)
            with f.when(total >= 0), f.when(f.call("suits", "i1", record, total)):
                f.give(f.call("launch_known", "ptr", record, values, launch, total))
    f.give(f.constant("ptr", _NOT_KNOWN))


@native("ptr", inlining=RARE)
def _launch_in_plain_forms(
    f: Function, grid: Ptr, kernel: Ptr, state: Ptr, layout: Ptr, objects: Ptr, positional: I64, names: Ptr
) -> None:
    """A launch with other libraries' arrays as NumPy's, which live until it is over; or by Python, with the originals.

    Conversions may run any code, so whether the launch may be native is tested again.
    """
    count = f.variable("i64", positional)
    with f.when(names.differs(0)):
        count.set(count.value + f.call(system(f, "PyTuple_Size"), "i64", names))
    plain, stand_ins = f.stack_words(count.value), f.stack_words(count.value * (STAND_IN.size // 8))
    with f.counted(count.value) as index:
        f.store(f.load("ptr", objects, index * 8), plain, index * 8)
        for field in ("held", "deleter"):
            f.put(STAND_IN, f.at(stand_ins, index * STAND_IN.size), field, 0)
    made = f.call("make_plain", "i64", layout, plain, stand_ins)
    result = f.variable("ptr", f.constant("ptr", _NOT_KNOWN))
    with f.when(made < 0):
        result.set(f.constant("ptr", 0))
    with f.when(made > 0), f.when(f.call("may_launch", "i1", state)):
        result.set(f.call("launch_if_known", "ptr", grid, state, layout, plain))
    f.call("end_plain", "void", stand_ins, count.value)
    f.give_when(result.value.to("i64").differs(_NOT_KNOWN), result.value)
    f.give(f.call("missed", "ptr", kernel, grid, objects, positional, names))
