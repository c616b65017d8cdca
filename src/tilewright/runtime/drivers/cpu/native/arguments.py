"""Turns the arguments of a call into a key, entries of two words each, and finds the specialisation of a key.

    argument                          words                                        value
    NumPy array                       dtype object, flags (+1: multiple of 16)     address
    torch tensor on the CPU           number of dtype, 65536 (+1: mult. of 16)     address
    torch tensor on GPU n             the same, + (n+1) times 2**20                address
    our array on GPU n                dtype object, 2**18 + (n+1) times 2**20 (+1) address
    int                               i32 / i64 / u64, 1: multiple of 16, 2: is 1  number
    float, bool, None                 kind, 0                                      bits, 0 or 1, 0
    number of NumPy or ctypes         as the int, float or bool that it is         as of that
    constant or option: int, float    kind, the number                             –
    constant or option: others        object, its address                          –
    tuple of such, or of a class      class, 131072 + length                       –
      its elements follow             as above                                     as above
    tensor descriptor                 class, 131072 + 6                            –
      array, shape, strides, block shape, padding and rounding follow, as a tuple's elements would

Anything else has no key. All of this runs with the GIL held; in builds of Python without a GIL, an object that another
thread could free is used only with a reference of its own (`looked_up`, `numbers`).
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, I64, Function, Ptr, native
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    DESCRIPTOR_PARTS,
    FREED,
    INDEX,
    IS_FREE_THREADED,
    KNOWN,
    LAYOUT,
    LAYOUTS,
    NDARRAY_DATA,
    NDARRAY_DTYPE,
    NDARRAY_FLAGS,
    NDARRAY_KEY_FLAGS,
    OBJECT_TYPE,
    RECORD,
    SOURCE,
    SPARE,
    STATE,
    TABLE,
    TUPLE_SUBCLASS,
    UNKNOWN,
    Role,
    Tag,
    Word,
)

_HASH_FACTOR = -7046029254386353131  # 2**64 divided by the golden ratio


def type_of(f: Function, value: Lanes) -> Lanes:
    """The type of a Python object."""
    return f.load("ptr", value, OBJECT_TYPE)


def release(f: Function, value: Lanes) -> None:
    """Drops a reference."""
    f.call(system(f, "Py_DecRef"), "void", value)


def call_python(f: Function, function: Lanes, *arguments: Lanes) -> Lanes:
    """Calls a Python function with positional arguments."""
    place = f.stack(f"[{len(arguments)} x ptr]")
    for index, argument in enumerate(arguments):
        f.store(argument, place, 8 * index)
    count = f.constant("i64", len(arguments))
    return f.call(system(f, "PyObject_Vectorcall"), "ptr", function, place, count, f.constant("ptr", 0))


def looked_up(f: Function, table: Lanes, key: Lanes) -> Lanes:
    """The value of a key in a dict, or null; to be dropped with `drop_found`, since another thread may replace it."""
    if not IS_FREE_THREADED:
        return f.call(system(f, "PyDict_GetItemWithError"), "ptr", table, key)
    place = f.stack("ptr")
    f.call(system(f, "PyDict_GetItemRef"), "i32", table, key, place)
    return f.load("ptr", place)


def drop_found(f: Function, found: Lanes) -> None:
    """Ends the use of what `looked_up` gave."""
    if IS_FREE_THREADED:
        with f.when(found.differs(0)):
            release(f, found)


@native("ptr")
def _source(f: Function, source: Ptr, values: Ptr) -> None:
    """The argument for a SOURCE; borrowed."""
    index = f.get(SOURCE, source, "index").to("i64")
    with f.when(index < 0):
        f.give(f.get(SOURCE, source, "default"))
    f.give(f.load("ptr", values, index * 8))


def _give_key(
    f: Function, tag: Lanes | int, word: Lanes | int, value: Lanes | int, entries: Lanes | int = KNOWN
) -> None:
    f.store(f.constant("i64", tag), f["key"])
    f.store(f.constant("i64", word), f["key"], 8)
    f.store(f.constant("i64", value), f["value"])
    f.give(entries)


def _multiple(f: Function, number: Lanes, role: Lanes) -> Lanes:
    """Word.MULTIPLE if the number is one of 16 and the parameter cares."""
    is_multiple = (number & 15).equals(0) & (role & Role.ANY_ALIGNMENT).equals(0)
    return f.choose(is_multiple, Word.MULTIPLE, 0)


@native("i32")
def _number(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr) -> None:
    overflow = f.stack("i32")
    found = f.call(system(f, "PyLong_AsLongLongAndOverflow"), "i64", argument, overflow)
    sign = f.load("i32", overflow)
    is_constant = (role & Role.CONSTANT).differs(0)
    with f.when(sign.differs(0)):
        with f.when(is_constant):
            _give_key(f, Tag.OBJECT, argument.to("i64"), 0)
        f.give_when(sign < 0, UNKNOWN)
        large = f.call(system(f, "PyLong_AsUnsignedLongLong"), "i64", argument)
        with f.when(f.call(system(f, "PyErr_Occurred"), "ptr").differs(0)):
            f.call(system(f, "PyErr_Clear"), "void")
            f.give(UNKNOWN)
        is_u64 = (role >= 63 * Role.BITS) & (role & Role.SIGNED).equals(0)
        f.give_when((role & Role.LIMITED).differs(0) & is_u64.equals(0), UNKNOWN)
        _give_key(f, Tag.UINT64, _multiple(f, large, role), large)
    with f.when((role & (Role.CONSTANT | Role.LIMITED)).differs(0)):
        with f.when(is_constant):
            _give_key(f, Tag.INT32, found, 0)
        _leave_misfits(f, found, role)
    tag = f.choose(found.to("i32").to("i64").equals(found), Tag.INT32, Tag.INT64)
    is_one = found.equals(1) & (role & Role.ANY_VALUE).equals(0)
    _give_key(f, tag, f.choose(is_one, Word.ONE, _multiple(f, found, role)), found)


def _leave_misfits(f: Function, number: Lanes, role: Lanes) -> None:
    """A number that the type in the parameter's annotation cannot hold is left to Python, which refuses it."""
    rest = number.shift_signed(role // Role.BITS)
    fits = rest.equals(0) | (rest.equals(-1) & (role & Role.SIGNED).differs(0))
    f.give_when(fits.equals(0), UNKNOWN)


@native("i32")
def _tensor(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr) -> None:
    """A torch tensor, read by torch's functions for C programs; what they refuse is left to Python.

    So are tensors whose memory is not what they show (negated, without storage, of a transformation).
    """
    table = runtime(f)
    tensor = f.at(argument, f.get(TABLE, table, "tensor_offset"))
    held = f.load("ptr", tensor)
    keys = f.load("i64", held, f.get(TABLE, table, "tensor_keys"))
    f.give_when((keys & f.get(TABLE, table, "tensor_odd_keys")).differs(0), UNKNOWN)
    address = f.stack("i64")
    f.give_when(f.call(f.get(TABLE, table, "get_data_ptr"), "i32", tensor, address).differs(0), UNKNOWN)
    found = f.load("i64", address)
    with f.when(found < FREED):
        _leave_freed(f, tensor)
    tag = f.load("i8", held, f.get(TABLE, table, "tensor_dtype")).widened("i64") + Tag.TENSOR
    word = _multiple(f, found, role) | Word.TENSOR
    with f.when((keys & f.get(TABLE, table, "tensor_cpu_key")).differs(0)):
        _give_key(f, tag, word, found)
    index = f.stack("i32")
    get_index = f.get(TABLE, table, "get_device_index")
    with f.when(f.call(get_index, "i32", tensor, index).equals(0)):
        _give_key(f, tag, word | ((f.load("i32", index).to("i64") + 1) * Word.GPU), found)
    f.give(UNKNOWN)


def _leave_freed(f: Function, tensor: Lanes) -> None:
    """A tensor that has elements and no memory for them is left to Python, which refuses it."""
    table, elements, size = runtime(f), f.stack("i64"), f.stack("i64")
    for name, place in (("get_numel", elements), ("get_storage_size", size)):
        f.give_when(f.call(f.get(TABLE, table, name), "i32", tensor, place).differs(0), UNKNOWN)
    f.give_when(f.load("i64", elements).differs(0) & f.load("i64", size).equals(0), UNKNOWN)


@native("i32")
def _device_array(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr) -> None:
    """Key and value of our own array on a GPU."""
    table = runtime(f)
    fields = ("array_address", "array_dtype", "array_place")
    number, dtype, place = (f.load("ptr", argument, f.get(TABLE, table, name)) for name in fields)
    f.give_when(number.equals(0) | place.equals(0), UNKNOWN)
    address = f.call(system(f, "PyLong_AsVoidPtr"), "ptr", number).to("i64")
    where = f.call(system(f, "PyLong_AsLongLong"), "i64", place)
    _give_key(f, dtype.to("i64"), _multiple(f, address, role) | where, address)


@native("i32", inlining=ALWAYS)
def _argument(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr) -> None:
    """Key and value of one argument that is no tuple."""
    table = runtime(f)
    kind = type_of(f, argument)
    is_constant = (role & Role.CONSTANT).differs(0)
    with f.when(kind.equals(f.get(TABLE, table, "type_int"))):
        f.give(f.call("number", "i32", argument, role, key, value))
    with f.when(kind.equals(f.get(TABLE, table, "type_float"))):
        number = f.call(system(f, "PyFloat_AsDouble"), "double", argument).to("i64")
        _give_key(f, Tag.FLOAT, f.choose(is_constant, number, 0), number)
    with f.when(is_constant):
        f.give_when(kind.equals(f.get(TABLE, table, "type_tuple")), UNKNOWN)
        _give_key(f, Tag.OBJECT, argument.to("i64"), 0)
    with f.when(kind.equals(f.get(TABLE, table, "type_ndarray"))):
        address = f.load("i64", argument, NDARRAY_DATA)
        flags = f.load("i32", argument, NDARRAY_FLAGS).to("i64") & NDARRAY_KEY_FLAGS
        _give_key(f, f.load("i64", argument, NDARRAY_DTYPE), _multiple(f, address, role) | flags, address)
    is_parameter = kind.equals(f.get(TABLE, table, "type_parameter"))
    with f.when(kind.equals(f.get(TABLE, table, "type_tensor")) | is_parameter):
        f.give(f.call("tensor", "i32", argument, role, key, value))
    with f.when(argument.equals(f.get(TABLE, table, "none"))):
        _give_key(f, Tag.NONE, 0, 0)
    with f.when(kind.equals(f.get(TABLE, table, "type_bool"))):
        _give_key(f, Tag.BOOL, 0, argument.equals(f.get(TABLE, table, "true")).widened("i64"))
    with f.when(kind.equals(f.get(TABLE, table, "type_device_array"))):
        f.give(f.call("device_array", "i32", argument, role, key, value))
    f.give(UNKNOWN)


@native("i32")
def _foreign_number(f: Function, argument: Ptr, form: Ptr, role: I64, key: Ptr, value: Ptr) -> None:
    """Key and value of what `form` makes of the argument, a number of Python; what it refuses is left to Python."""
    number = call_python(f, form, argument)
    with f.when(number.equals(0)):
        f.call(system(f, "PyErr_Clear"), "void")
        f.give(UNKNOWN)
    found = f.call("argument", "i32", number, role, key, value)
    release(f, number)
    f.give(found)


@native("i32")
def _tuple(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr, room: I64) -> None:
    """A tuple: its own entry, then those of its elements, at most `room` in all; gives how many, or UNKNOWN."""
    kind = type_of(f, argument)
    with f.when(kind.equals(f.get(TABLE, runtime(f), "type_descriptor"))):
        f.give(f.call("descriptor", "i32", argument, role, key, value, room))
    form = looked_up(f, f.get(TABLE, runtime(f), "number_forms"), kind)
    with f.when(form.differs(0)):
        known = f.call("foreign_number", "i32", argument, form, role, key, value)
        drop_found(f, form)
        f.give(known)
    f.give_when((f.call(system(f, "PyType_GetFlags"), "i64", kind) & TUPLE_SUBCLASS).equals(0), UNKNOWN)
    size = f.call(system(f, "PyTuple_Size"), "i64", argument)
    entries = f.variable("i64", 1)
    with f.counted(size) as index:
        place = entries.value
        with f.when(place >= room):
            _give_object_or_nothing(f)
        item = f.call(system(f, "PyTuple_GetItem"), "ptr", argument, index)
        places = (f.at(key, place * 16), f.at(value, place * 8))
        found = f.call("entries", "i32", item, role, *places, room - place)
        with f.when(found.equals(UNKNOWN)):
            _give_object_or_nothing(f)
        entries.set(place + found.to("i64"))
    _give_key(f, kind.to("i64"), size | Word.TUPLE, 0, entries.value.to("i32"))


@native("i32")
def _numbers(f: Function, sequence: Ptr, role: I64, key: Ptr, value: Ptr, room: I64) -> None:
    """A tuple or list of ints, which another thread may change; gives how many entries it took, or UNKNOWN."""
    rest = (role, key, value, room)
    if IS_FREE_THREADED:
        with f.when(type_of(f, sequence).equals(f.get(TABLE, runtime(f), "type_list"))):
            fixed = f.call(system(f, "PyList_AsTuple"), "ptr", sequence)
            with f.when(fixed.equals(0)):
                f.call(system(f, "PyErr_Clear"), "void")
                f.give(UNKNOWN)
            found = f.call("numbers_in", "i32", fixed, *rest)
            release(f, fixed)
            f.give(found)
    f.give(f.call("numbers_in", "i32", sequence, *rest))


@native("i32")
def _numbers_in(f: Function, sequence: Ptr, role: I64, key: Ptr, value: Ptr, room: I64) -> None:
    """A tuple or list of ints that does not change."""
    table = runtime(f)
    kind = type_of(f, sequence)
    is_list = kind.equals(f.get(TABLE, table, "type_list"))
    is_tuple = (f.call(system(f, "PyType_GetFlags"), "i64", kind) & TUPLE_SUBCLASS).differs(0)
    f.give_when((is_list | is_tuple).equals(0), UNKNOWN)
    sizes = f.choose(is_list, system(f, "PyList_Size"), system(f, "PyTuple_Size"), kind="ptr")
    items = f.choose(is_list, system(f, "PyList_GetItem"), system(f, "PyTuple_GetItem"), kind="ptr")
    size = f.call(sizes, "i64", sequence)
    f.give_when(size >= room, UNKNOWN)
    with f.counted(size) as index:
        item = f.call(items, "ptr", sequence, index)
        f.give_when(type_of(f, item).differs(f.get(TABLE, table, "type_int")), UNKNOWN)
        places = (f.at(key, (index + 1) * 16), f.at(value, (index + 1) * 8))
        f.give_when(f.call("number", "i32", item, role, *places).equals(UNKNOWN), UNKNOWN)
    _give_key(f, f.get(TABLE, table, "type_tuple").to("i64"), size | Word.TUPLE, 0, (size + 1).to("i32"))


@native("i32")
def _descriptor(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr, room: I64) -> None:
    """A tensor descriptor: its own entry, then those of its parts; gives how many, or UNKNOWN."""
    names = f.get(TABLE, runtime(f), "descriptor_names")
    constant = role | Role.CONSTANT
    roles = {"base": role, "shape": role, "strides": role}
    entries = f.variable("i64", 1)
    for number, name in enumerate(DESCRIPTOR_PARTS):
        part = f.call(system(f, "PyObject_GetAttr"), "ptr", argument, f.load("ptr", names, 8 * number))
        with f.when(part.equals(0)):
            f.call(system(f, "PyErr_Clear"), "void")
            f.give(UNKNOWN)
        place = entries.value
        with f.when(place >= room):
            release(f, part)
            f.give(UNKNOWN)
        places = (f.at(key, place * 16), f.at(value, place * 8))
        role = roles.get(name, constant)
        if name in ("shape", "strides", "block_shape"):
            found = f.call("numbers", "i32", part, role, *places, room - place)
        else:
            found = f.call("argument", "i32", part, role, *places)
        release(f, part)
        f.give_when(found.equals(UNKNOWN), UNKNOWN)
        entries.set(place + found.to("i64"))
    _give_key(f, type_of(f, argument).to("i64"), Word.TUPLE + len(DESCRIPTOR_PARTS), 0, entries.value.to("i32"))


def _give_object_or_nothing(f: Function) -> None:
    """A constant that has too much in it is known by its address."""
    with f.when((f["role"] & Role.CONSTANT).differs(0)):
        _give_key(f, Tag.OBJECT, f["argument"].to("i64"), 0)
    f.give(UNKNOWN)


@native("i32")
def _entries(f: Function, argument: Ptr, role: I64, key: Ptr, value: Ptr, room: I64) -> None:
    """Key and value of any argument; gives the number of entries that it took, or UNKNOWN."""
    found = f.call("argument", "i32", argument, role, key, value)
    f.give_when(found.differs(UNKNOWN), found)
    f.give(f.call("tuple", "i32", argument, role, key, value, room))


@native("i32", exported=True, inlining=ALWAYS)
def _classify(f: Function, layout: Ptr, objects: Ptr, words: Ptr, values: Ptr) -> None:
    """Keys and values of all arguments of a call; `objects` are positional ones first.

    Gives how many entries there are, at most the layout's count and SPARE, or UNKNOWN.
    """
    sources = f.at(layout, LAYOUT.size)
    spare = f.variable("i64", 0)  # entries used for elements of tuples
    with f.counted(f.get(LAYOUT, layout, "count")) as index:
        source = f.at(sources, index * SOURCE.size)
        argument = f.call("source", "ptr", source, objects)
        role = f.get(SOURCE, source, "role").to("i64")
        used = spare.value
        place = index + used
        key, value = f.at(words, place * 16), f.at(values, place * 8)
        found = f.call("argument", "i32", argument, role, key, value)
        with f.when(found.differs(KNOWN)):
            room = f.constant("i64", SPARE + 1) - used
            taken = f.call("tuple", "i32", argument, role, key, value, room)
            f.give_when(taken.equals(UNKNOWN), UNKNOWN)
            spare.set(used + taken.to("i64") - 1)
    f.give((f.get(LAYOUT, layout, "count") + spare.value).to("i32"))


@native("i1")
def _same_words(f: Function, left: Ptr, right: Ptr, count: I64) -> None:
    difference = f.variable("i64", 0)
    with f.counted(count) as index:
        left, right = (f.load("i64", f[side], index * 8) for side in ("left", "right"))
        difference.set(difference.value | (left ^ right))
    f.give(difference.value.equals(0))


@native("i64", exported=True)
def _key_hash(f: Function, layout: Ptr, words: Ptr, count: I64) -> None:
    mixed = f.variable("i64", layout.to("i64"))
    with f.counted(count) as index:
        combined = (mixed.value ^ f.load("i64", words, index * 8)) * _HASH_FACTOR
        mixed.set(combined ^ combined.shift_signed(29))
    f.give(mixed.value)


@native("ptr", inlining=ALWAYS)
def _find_record(f: Function, state: Ptr, layout: Ptr, words: Ptr, count: I64) -> None:
    """The RECORD with this layout and key, or null: the last hit first, then the hash table."""
    records = f.get(STATE, state, "records")
    last = f.get(INDEX, records, "last")
    with f.when(last.differs(0)):
        _give_if_equal(f, records, last)
    code = f.call("key_hash", "i64", layout, words, count)
    mask, table = f.get(INDEX, records, "mask"), f.at(records, INDEX.size)
    index = f.variable("i64", code & mask)
    with f.repeat() as loop:
        record = f.load("ptr", table, index.value * 8)
        loop.leave_when(record.equals(0))
        with f.when(f.get(RECORD, record, "hash").equals(code)):
            _give_if_equal(f, records, record)
        index.set((index.value + 1) & mask)
    f.give(0)


def _give_if_equal(f: Function, records: Lanes, record: Lanes) -> None:
    same_structure = f.get(RECORD, record, "layout").equals(f["layout"])
    same_count = f.get(RECORD, record, "word_count").equals(f["count"])
    words = f.get(RECORD, record, "words")
    with f.when(same_structure & same_count), f.when(f.call("same_words", "i1", words, f["words"], f["count"])):
        with f.when(f.get(INDEX, records, "last").differs(record)):  # others read the same line of the cache
            f.put(INDEX, records, "last", record)
        f.give(record)


@native("i1")
def _names_match(f: Function, layout: Ptr, positional: I64, names: Ptr) -> None:
    """Whether this is the layout of a call with this number of positional arguments and these keywords (or null)."""
    f.give_when(f.get(LAYOUT, layout, "positional").differs(positional), 0)
    known = f.get(LAYOUT, layout, "names")
    f.give_when(known.equals(names), 1)
    f.give_when(known.equals(0) | names.equals(0), 0)
    count = f.get(LAYOUT, layout, "name_count")
    f.give_when(f.call(system(f, "PyTuple_Size"), "i64", names).differs(count), 0)
    with f.counted(count) as index:
        left, right = (f.call(system(f, "PyTuple_GetItem"), "ptr", side, index) for side in (known, names))
        f.give_when(left.differs(right), 0)
    f.give(1)


@native("ptr", exported=True)
def _find_layout(f: Function, state: Ptr, positional: I64, names: Ptr) -> None:
    """The LAYOUT of a call, or null: the last one first, then all of them."""
    layouts = f.get(STATE, state, "layouts")
    last = f.get(LAYOUTS, layouts, "last")
    with f.when(last.differs(0)), f.when(f.call("names_match", "i1", last, positional, names)):
        f.give(last)
    with f.counted(f.get(LAYOUTS, layouts, "count")) as index:
        layout = f.load("ptr", layouts, index * 8 + LAYOUTS.size)
        with f.when(f.call("names_match", "i1", layout, positional, names)):
            f.put(LAYOUTS, layouts, "last", layout)
            f.give(layout)
    f.give(0)
