"""Turns the arguments of a call into a key, entries of two words each, and finds the specialisation of a key.

    argument                          words                                        value
    NumPy array                       dtype object, flags (+1: multiple of 16)     address
    torch tensor on the CPU           number of dtype, 65536 (+1: mult. of 16)     address
    torch tensor on GPU n             the same, + (n+1) times 2**20                address
    our array on GPU n                dtype object, 2**18 + (n+1) times 2**20 (+1) address
    int                               i32 / i64 / u64, 1: multiple of 16, 2: is 1  number
    float, bool, None                 kind, 0                                      bits, 0 or 1, 0
    constant or option: int, float    kind, the number                             –
    constant or option: others        object, its address                          –
    tuple of such, or of a class      class, 131072 + length                       –
      its elements follow             as above                                     as above
    tensor descriptor                 class, 131072 + 6                            –
      array, shape, strides, block shape, padding and rounding follow, as a tuple's elements would

Anything else has no key. All of this runs with the GIL held.
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, Function, Module
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    DESCRIPTOR_PARTS,
    FREED,
    KNOWN,
    LAYOUT,
    NDARRAY_DATA,
    NDARRAY_DTYPE,
    NDARRAY_FLAGS,
    NDARRAY_KEY_FLAGS,
    RECORD,
    ROLE_ANY_ALIGNMENT,
    ROLE_ANY_VALUE,
    ROLE_BITS,
    ROLE_CONSTANT,
    ROLE_LIMITED,
    ROLE_SIGNED,
    SOURCE,
    SPARE,
    STATE,
    TABLE,
    TAG_BOOL,
    TAG_FLOAT,
    TAG_INT32,
    TAG_INT64,
    TAG_NONE,
    TAG_OBJECT,
    TAG_TENSOR,
    TAG_UINT64,
    TUPLE_SUBCLASS,
    UNKNOWN,
    WORD_GPU,
    WORD_MULTIPLE,
    WORD_ONE,
    WORD_TENSOR,
    WORD_TUPLE,
)

_HASH_FACTOR = -7046029254386353131  # 2**64 divided by the golden ratio


def add_arguments(module: Module) -> None:
    """Adds `classify`, `key_hash`, `find_layout`, `find_record` and their helpers to the module."""
    _source(module)
    _number(module)
    _tensor(module)
    _device_array(module)
    _argument(module)
    _numbers(module)
    _descriptor(module)
    _tuple(module)
    _classify(module)
    _same_words(module)
    _key_hash(module)
    _find_record(module)
    _names_match(module)
    _find_layout(module)


def type_of(f: Function, value: Lanes) -> Lanes:
    """The type of a Python object."""
    return f.load("ptr", value, 8)


def release(f: Function, value: Lanes) -> None:
    """Drops a reference."""
    f.call(system(f, "Py_DecRef"), "void", value)


def _source(module: Module) -> None:
    """The argument for a SOURCE; borrowed."""
    f = module.function("source", "ptr", {"source": "ptr", "values": "ptr"})
    index = f.get(SOURCE, f["source"], "index").to("i64")
    with f.when(index < 0):
        f.give(f.get(SOURCE, f["source"], "default"))
    f.give(f.load("ptr", f["values"], index * 8))


def _give_key(f: Function, tag: Lanes | int, word: Lanes | int, value: Lanes | int) -> None:
    f.store(f.constant("i64", tag), f["key"])
    f.store(f.constant("i64", word), f["key"], 8)
    f.store(f.constant("i64", value), f["value"])
    f.give(KNOWN)


def _multiple(f: Function, number: Lanes, role: Lanes) -> Lanes:
    """WORD_MULTIPLE if the number is one of 16 and the parameter cares."""
    is_multiple = (number & 15).equals(0) & (role & ROLE_ANY_ALIGNMENT).equals(0)
    return f.choose(is_multiple, WORD_MULTIPLE, 0)


def _number(module: Module) -> None:
    f = module.function("number", "i32", {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr"})
    argument, role = f["argument"], f["role"]
    overflow = f.stack("i32")
    found = f.call(system(f, "PyLong_AsLongLongAndOverflow"), "i64", argument, overflow)
    sign = f.load("i32", overflow)
    is_constant = (role & ROLE_CONSTANT).differs(0)
    with f.when(sign.differs(0)):
        with f.when(is_constant):
            _give_key(f, TAG_OBJECT, argument.to("i64"), 0)
        with f.when(sign < 0):
            f.give(UNKNOWN)
        large = f.call(system(f, "PyLong_AsUnsignedLongLong"), "i64", argument)
        with f.when(f.call(system(f, "PyErr_Occurred"), "ptr").differs(0)):
            f.call(system(f, "PyErr_Clear"), "void")
            f.give(UNKNOWN)
        is_u64 = (role >= 63 * ROLE_BITS) & (role & ROLE_SIGNED).equals(0)
        with f.when((role & ROLE_LIMITED).differs(0) & is_u64.equals(0)):
            f.give(UNKNOWN)
        _give_key(f, TAG_UINT64, _multiple(f, large, role), large)
    with f.when((role & (ROLE_CONSTANT | ROLE_LIMITED)).differs(0)):
        with f.when(is_constant):
            _give_key(f, TAG_INT32, found, 0)
        _leave_misfits(f, found, role)
    tag = f.choose(found.to("i32").to("i64").equals(found), TAG_INT32, TAG_INT64)
    is_one = found.equals(1) & (role & ROLE_ANY_VALUE).equals(0)
    _give_key(f, tag, f.choose(is_one, WORD_ONE, _multiple(f, found, role)), found)


def _leave_misfits(f: Function, number: Lanes, role: Lanes) -> None:
    """A number that the type in the parameter's annotation cannot hold is left to Python, which refuses it."""
    rest = number.shift_signed(role // ROLE_BITS)
    fits = rest.equals(0) | (rest.equals(-1) & (role & ROLE_SIGNED).differs(0))
    with f.when(fits.equals(0)):
        f.give(UNKNOWN)


def _tensor(module: Module) -> None:
    """A torch tensor, read by torch's functions for C programs; what they refuse is left to Python.

    So are tensors whose memory is not what they show (negated, without storage, of a transformation).
    """
    f = module.function("tensor", "i32", {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr"})
    table = runtime(f)
    tensor = f.at(f["argument"], f.get(TABLE, table, "tensor_offset"))
    held = f.load("ptr", tensor)
    keys = f.load("i64", held, f.get(TABLE, table, "tensor_keys"))
    with f.when((keys & f.get(TABLE, table, "tensor_odd_keys")).differs(0)):
        f.give(UNKNOWN)
    address = f.stack("i64")
    with f.when(f.call(f.get(TABLE, table, "get_data_ptr"), "i32", tensor, address).differs(0)):
        f.give(UNKNOWN)
    found = f.load("i64", address)
    with f.when(found < FREED):
        _leave_freed(f, tensor)
    tag = f.load("i8", held, f.get(TABLE, table, "tensor_dtype")).widened("i64") + TAG_TENSOR
    word = _multiple(f, found, f["role"]) | WORD_TENSOR
    with f.when((keys & f.get(TABLE, table, "tensor_cpu_key")).differs(0)):
        _give_key(f, tag, word, found)
    index = f.stack("i32")
    get_index = f.get(TABLE, table, "get_device_index")
    with f.when(f.call(get_index, "i32", tensor, index).equals(0)):
        _give_key(f, tag, word | ((f.load("i32", index).to("i64") + 1) * WORD_GPU), found)
    f.give(UNKNOWN)


def _leave_freed(f: Function, tensor: Lanes) -> None:
    """A tensor that has elements and no memory for them is left to Python, which refuses it."""
    table, elements, size = runtime(f), f.stack("i64"), f.stack("i64")
    for name, place in (("get_numel", elements), ("get_storage_size", size)):
        with f.when(f.call(f.get(TABLE, table, name), "i32", tensor, place).differs(0)):
            f.give(UNKNOWN)
    with f.when(f.load("i64", elements).differs(0) & f.load("i64", size).equals(0)):
        f.give(UNKNOWN)


def _device_array(module: Module) -> None:
    """Key and value of our own array on a GPU."""
    f = module.function("device_array", "i32", {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr"})
    table, argument = runtime(f), f["argument"]
    fields = ("array_address", "array_dtype", "array_place")
    number, dtype, place = (f.load("ptr", argument, f.get(TABLE, table, name)) for name in fields)
    with f.when(number.equals(0) | place.equals(0)):
        f.give(UNKNOWN)
    address = f.call(system(f, "PyLong_AsVoidPtr"), "ptr", number).to("i64")
    where = f.call(system(f, "PyLong_AsLong"), "i64", place)
    _give_key(f, dtype.to("i64"), _multiple(f, address, f["role"]) | where, address)


def _argument(module: Module) -> None:
    """Key and value of one argument that is no tuple."""
    parameters = {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr"}
    f = module.function("argument", "i32", parameters, inlining=ALWAYS)
    table, argument, role = runtime(f), f["argument"], f["role"]
    kind = type_of(f, argument)
    is_constant = (role & ROLE_CONSTANT).differs(0)
    with f.when(kind.equals(f.get(TABLE, table, "type_int"))):
        f.give(f.call("number", "i32", *(f[name] for name in parameters)))
    with f.when(kind.equals(f.get(TABLE, table, "type_float"))):
        number = f.call(system(f, "PyFloat_AsDouble"), "double", argument).to("i64")
        _give_key(f, TAG_FLOAT, f.choose(is_constant, number, 0), number)
    with f.when(is_constant):
        with f.when(kind.equals(f.get(TABLE, table, "type_tuple"))):
            f.give(UNKNOWN)
        _give_key(f, TAG_OBJECT, argument.to("i64"), 0)
    with f.when(kind.equals(f.get(TABLE, table, "type_ndarray"))):
        address = f.load("i64", argument, NDARRAY_DATA)
        flags = f.load("i32", argument, NDARRAY_FLAGS).to("i64") & NDARRAY_KEY_FLAGS
        _give_key(f, f.load("i64", argument, NDARRAY_DTYPE), _multiple(f, address, role) | flags, address)
    is_parameter = kind.equals(f.get(TABLE, table, "type_parameter"))
    with f.when(kind.equals(f.get(TABLE, table, "type_tensor")) | is_parameter):
        f.give(f.call("tensor", "i32", *(f[name] for name in parameters)))
    with f.when(argument.equals(f.get(TABLE, table, "none"))):
        _give_key(f, TAG_NONE, 0, 0)
    with f.when(kind.equals(f.get(TABLE, table, "type_bool"))):
        _give_key(f, TAG_BOOL, 0, argument.equals(f.get(TABLE, table, "true")).widened("i64"))
    with f.when(kind.equals(f.get(TABLE, table, "type_device_array"))):
        f.give(f.call("device_array", "i32", *(f[name] for name in parameters)))
    f.give(UNKNOWN)


def _tuple(module: Module) -> None:
    """A tuple: its own entry, then those of its elements, at most `room` in all; gives how many, or UNKNOWN."""
    parameters = {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr", "room": "i64"}
    f = module.function("tuple", "i32", parameters)
    argument, role, room = f["argument"], f["role"], f["room"]
    kind = type_of(f, argument)
    with f.when(kind.equals(f.get(TABLE, runtime(f), "type_descriptor"))):
        f.give(f.call("descriptor", "i32", *(f[name] for name in parameters)))
    with f.when((f.call(system(f, "PyType_GetFlags"), "i64", kind) & TUPLE_SUBCLASS).equals(0)):
        f.give(UNKNOWN)
    size = f.call(system(f, "PyTuple_Size"), "i64", argument)
    entries = f.variable("i64", 1)
    with f.counted(size) as index:
        place = entries.value
        with f.when(place >= room):
            _give_object_or_nothing(f)
        item = f.call(system(f, "PyTuple_GetItem"), "ptr", argument, index)
        places = (f.at(f["key"], place * 16), f.at(f["value"], place * 8))
        found = f.call("entries", "i32", item, role, *places, room - place)
        with f.when(found.equals(UNKNOWN)):
            _give_object_or_nothing(f)
        entries.set(place + found.to("i64"))
    f.store(kind.to("i64"), f["key"])
    f.store(size | WORD_TUPLE, f["key"], 8)
    f.store(f.constant("i64", 0), f["value"])
    f.give(entries.value.to("i32"))
    _entries(module)


def _numbers(module: Module) -> None:
    """A tuple or list of ints; gives how many entries it took, or UNKNOWN."""
    parameters = {"sequence": "ptr", "role": "i64", "key": "ptr", "value": "ptr", "room": "i64"}
    f = module.function("numbers", "i32", parameters)
    table, sequence = runtime(f), f["sequence"]
    kind = type_of(f, sequence)
    is_list = kind.equals(f.get(TABLE, table, "type_list"))
    is_tuple = (f.call(system(f, "PyType_GetFlags"), "i64", kind) & TUPLE_SUBCLASS).differs(0)
    with f.when((is_list | is_tuple).equals(0)):
        f.give(UNKNOWN)
    sizes = f.choose(is_list, system(f, "PyList_Size"), system(f, "PyTuple_Size"), kind="ptr")
    items = f.choose(is_list, system(f, "PyList_GetItem"), system(f, "PyTuple_GetItem"), kind="ptr")
    size = f.call(sizes, "i64", sequence)
    with f.when(size >= f["room"]):
        f.give(UNKNOWN)
    with f.counted(size) as index:
        item = f.call(items, "ptr", sequence, index)
        with f.when(type_of(f, item).differs(f.get(TABLE, table, "type_int"))):
            f.give(UNKNOWN)
        places = (f.at(f["key"], (index + 1) * 16), f.at(f["value"], (index + 1) * 8))
        with f.when(f.call("number", "i32", item, f["role"], *places).equals(UNKNOWN)):
            f.give(UNKNOWN)
    f.store(f.get(TABLE, table, "type_tuple").to("i64"), f["key"])
    f.store(size | WORD_TUPLE, f["key"], 8)
    f.store(f.constant("i64", 0), f["value"])
    f.give((size + 1).to("i32"))


def _descriptor(module: Module) -> None:
    """A tensor descriptor: its own entry, then those of its parts; gives how many, or UNKNOWN."""
    parameters = {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr", "room": "i64"}
    f = module.function("descriptor", "i32", parameters)
    names = f.get(TABLE, runtime(f), "descriptor_names")
    constant = f["role"] | ROLE_CONSTANT
    roles = {"base": f["role"], "shape": f["role"], "strides": f["role"]}
    entries = f.variable("i64", 1)
    for number, name in enumerate(DESCRIPTOR_PARTS):
        part = f.call(system(f, "PyObject_GetAttr"), "ptr", f["argument"], f.load("ptr", names, 8 * number))
        with f.when(part.equals(0)):
            f.call(system(f, "PyErr_Clear"), "void")
            f.give(UNKNOWN)
        release(f, part)  # the descriptor has it
        place = entries.value
        with f.when(place >= f["room"]):
            f.give(UNKNOWN)
        places = (f.at(f["key"], place * 16), f.at(f["value"], place * 8))
        role = roles.get(name, constant)
        if name in ("shape", "strides", "block_shape"):
            found = f.call("numbers", "i32", part, role, *places, f["room"] - place)
        else:
            found = f.call("argument", "i32", part, role, *places)
        with f.when(found.equals(UNKNOWN)):
            f.give(UNKNOWN)
        entries.set(place + found.to("i64"))
    f.store(type_of(f, f["argument"]).to("i64"), f["key"])
    f.store(f.constant("i64", WORD_TUPLE + len(DESCRIPTOR_PARTS)), f["key"], 8)
    f.store(f.constant("i64", 0), f["value"])
    f.give(entries.value.to("i32"))


def _give_object_or_nothing(f: Function) -> None:
    """A constant that has too much in it is known by its address."""
    with f.when((f["role"] & ROLE_CONSTANT).differs(0)):
        _give_key(f, TAG_OBJECT, f["argument"].to("i64"), 0)
    f.give(UNKNOWN)


def _entries(module: Module) -> None:
    """Key and value of any argument; gives the number of entries that it took, or UNKNOWN."""
    parameters = {"argument": "ptr", "role": "i64", "key": "ptr", "value": "ptr"}
    f = module.function("entries", "i32", {**parameters, "room": "i64"})
    arguments = [f[name] for name in parameters]
    found = f.call("argument", "i32", *arguments)
    with f.when(found.differs(UNKNOWN)):
        f.give(found)
    f.give(f.call("tuple", "i32", *arguments, f["room"]))


def _classify(module: Module) -> None:
    """Keys and values of all arguments of a call; `objects` are positional ones first.

    Gives how many entries there are, at most the layout's count and SPARE, or UNKNOWN.
    """
    f = module.function(
        "classify", "i32", {"layout": "ptr", "objects": "ptr", "words": "ptr", "values": "ptr"}, exported=True
    )
    layout = f["layout"]
    sources = f.at(layout, LAYOUT.size)
    spare = f.variable("i64", 0)  # entries used for elements of tuples
    with f.counted(f.get(LAYOUT, layout, "count")) as index:
        source = f.at(sources, index * SOURCE.size)
        argument = f.call("source", "ptr", source, f["objects"])
        role = f.get(SOURCE, source, "role").to("i64")
        used = spare.value
        place = index + used
        key, value = f.at(f["words"], place * 16), f.at(f["values"], place * 8)
        found = f.call("argument", "i32", argument, role, key, value)
        with f.when(found.differs(KNOWN)):
            room = f.constant("i64", SPARE + 1) - used
            taken = f.call("tuple", "i32", argument, role, key, value, room)
            with f.when(taken.equals(UNKNOWN)):
                f.give(UNKNOWN)
            spare.set(used + taken.to("i64") - 1)
    f.give((f.get(LAYOUT, layout, "count") + spare.value).to("i32"))


def _same_words(module: Module) -> None:
    f = module.function("same_words", "i1", {"left": "ptr", "right": "ptr", "count": "i64"})
    difference = f.variable("i64", 0)
    with f.counted(f["count"]) as index:
        left, right = (f.load("i64", f[side], index * 8) for side in ("left", "right"))
        difference.set(difference.value | (left ^ right))
    f.give(difference.value.equals(0))


def _key_hash(module: Module) -> None:
    f = module.function("key_hash", "i64", {"layout": "ptr", "words": "ptr", "count": "i64"}, exported=True)
    mixed = f.variable("i64", f["layout"].to("i64"))
    with f.counted(f["count"]) as index:
        combined = (mixed.value ^ f.load("i64", f["words"], index * 8)) * _HASH_FACTOR
        mixed.set(combined ^ combined.shift_signed(29))
    f.give(mixed.value)


def _find_record(module: Module) -> None:
    """The RECORD with this layout and key, or null: the last hit first, then the hash table."""
    f = module.function("find_record", "ptr", {"state": "ptr", "layout": "ptr", "words": "ptr", "count": "i64"})
    state, layout, words, count = f["state"], f["layout"], f["words"], f["count"]
    last = f.get(STATE, state, "last")
    with f.when(last.differs(0)):
        _give_if_equal(f, last)
    code = f.call("key_hash", "i64", layout, words, count)
    mask, table = f.get(STATE, state, "mask"), f.get(STATE, state, "table")
    with f.when(table.equals(0)):
        f.give(0)
    index = f.variable("i64", code & mask)
    with f.repeat() as loop:
        record = f.load("ptr", table, index.value * 8)
        loop.leave_when(record.equals(0))
        with f.when(f.get(RECORD, record, "hash").equals(code)):
            _give_if_equal(f, record)
        index.set((index.value + 1) & mask)
    f.give(0)


def _give_if_equal(f: Function, record: Lanes) -> None:
    same_structure = f.get(RECORD, record, "layout").equals(f["layout"])
    same_count = f.get(RECORD, record, "word_count").equals(f["count"])
    words = f.get(RECORD, record, "words")
    with f.when(same_structure & same_count), f.when(f.call("same_words", "i1", words, f["words"], f["count"])):
        f.put(STATE, f["state"], "last", record)
        f.give(record)


def _names_match(module: Module) -> None:
    """Whether this is the layout of a call with this number of positional arguments and these keywords (or null)."""
    f = module.function("names_match", "i1", {"layout": "ptr", "positional": "i64", "names": "ptr"})
    layout, names = f["layout"], f["names"]
    with f.when(f.get(LAYOUT, layout, "positional").differs(f["positional"])):
        f.give(0)
    known = f.get(LAYOUT, layout, "names")
    with f.when(known.equals(names)):
        f.give(1)
    with f.when(known.equals(0) | names.equals(0)):
        f.give(0)
    count = f.get(LAYOUT, layout, "name_count")
    with f.when(f.call(system(f, "PyTuple_Size"), "i64", names).differs(count)):
        f.give(0)
    with f.counted(count) as index:
        left, right = (f.call(system(f, "PyTuple_GetItem"), "ptr", side, index) for side in (known, names))
        with f.when(left.differs(right)):
            f.give(0)
    f.give(1)


def _find_layout(module: Module) -> None:
    """The LAYOUT of a call, or null: the last one first, then all of them."""
    f = module.function("find_layout", "ptr", {"state": "ptr", "positional": "i64", "names": "ptr"}, exported=True)
    state = f["state"]
    last = f.get(STATE, state, "layout")
    with f.when(last.differs(0)), f.when(f.call("names_match", "i1", last, f["positional"], f["names"])):
        f.give(last)
    layouts = f.get(STATE, state, "layouts")
    with f.counted(f.get(STATE, state, "layout_count")) as index:
        layout = f.load("ptr", layouts, index * 8)
        with f.when(f.call("names_match", "i1", layout, f["positional"], f["names"])):
            f.put(STATE, state, "layout", layout)
            f.give(layout)
    f.give(0)
