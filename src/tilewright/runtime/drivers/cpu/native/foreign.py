"""Arrays of other libraries in a native launch, read from DLPack's capsules and from `__array_interface__`.

make_plain         replaces such arguments of a call by stand-ins
  → read_dlpack      asks for a capsule, reads and takes it
  → read_interface   reads the dict
  → converted        by a Python function: numbers, and objects that are not as expected here
end_plain          releases the references held for them

A stand-in is memory on the stack with the fields of a NumPy array from which keys are made, at the same offsets (type,
address, dtype and flags), so the argument has the key of the array that NumPy would make of it. Arrays that NumPy would
refuse are left to it.
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.arguments import call_python, drop_found, looked_up, release, type_of
from tilewright.runtime.drivers.cpu.native.code import I32, I64, Function, Ptr, Variable, native
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    CAPSULE_KINDS,
    DL_TENSOR,
    ELEMENT,
    FOREIGN,
    FREED,
    KNOWN,
    LAYOUT,
    NDARRAY_ALIGNED,
    NDARRAY_WRITABLE,
    SOURCE,
    STAND_IN,
    TABLE,
    UNKNOWN,
    Role,
)

_FAILED = -1
_MAX_AXES, _CPU, _KNOWN_VERSION = 64, 1, 1
_READ_ONLY = 1  # in the flags of a capsule


@native("i64")
def _make_plain(f: Function, layout: Ptr, values: Ptr, stand_ins: Ptr) -> None:
    """Replaces foreign arguments by stand-ins, or by what a form makes; gives how many; -1: an exception is set.

    One that cannot be converted stays, for Python to say why; a KeyboardInterrupt is no such reason.
    """
    made = f.variable("i64", 0)
    with f.counted(f.get(LAYOUT, layout, "count")) as number:
        source = f.at(layout, number * SOURCE.size + LAYOUT.size)
        index = f.get(SOURCE, source, "index").to("i64")
        is_constant = (f.get(SOURCE, source, "role").to("i64") & Role.CONSTANT).differs(0)
        with f.when((index < 0).equals(0) & is_constant.equals(0)):
            place = f.at(values, index * 8)
            found = f.call("make_one_plain", "i32", place, f.at(stand_ins, index * STAND_IN.size))
            f.give_when(found.equals(_FAILED), -1)
            made.set(made.value + found.to("i64"))
    f.give(made.value)


@native("i32")
def _make_one_plain(f: Function, place: Ptr, stand_in: Ptr) -> None:
    """Replaces one argument, whose address is at `place`, if it is foreign; gives KNOWN if it did."""
    table, value = runtime(f), f.load("ptr", place)
    form = looked_up(f, f.get(TABLE, table, "forms"), type_of(f, value))
    f.give_when(form.equals(0), UNKNOWN)
    found = f.variable("i32", UNKNOWN)
    facts = f.get(TABLE, table, "foreign")
    with f.when(facts.differs(0)):
        for reader in ("dlpack", "interface"):
            with f.when(form.equals(f.get(FOREIGN, facts, f"{reader}_form"))):
                found.set(f.call(f"read_{reader}", "i32", value, facts, stand_in))
    with f.when(found.value.equals(KNOWN)):
        f.store(stand_in, place)
    with f.when(found.value.equals(UNKNOWN)):
        made = call_python(f, form, value)
        with f.when(made.differs(0)) as succeeded:
            f.put(STAND_IN, stand_in, "held", made)
            f.store(made, place)
            found.set(KNOWN)
        with succeeded.otherwise():
            found.set(f.call("failure", "i32"))
    drop_found(f, form)
    f.give(found.value)


@native("i32")
def _failure(f: Function) -> None:
    """UNKNOWN, with the exception cleared; _FAILED for a KeyboardInterrupt and the like, which stay set."""
    is_usual = f.call(system(f, "PyErr_ExceptionMatches"), "i32", f.get(TABLE, runtime(f), "exception"))
    f.give_when(is_usual.equals(0), _FAILED)
    f.call(system(f, "PyErr_Clear"), "void")
    f.give(UNKNOWN)


@native("void")
def _end_plain(f: Function, stand_ins: Ptr, count: I64) -> None:
    """Releases the references held for `count` arguments: each capsule by its deleter, once.

    A launch that failed has an exception set, which a deleter written in Python must not see.
    """
    kept = [f.stack("ptr") for _ in range(3)]
    with f.counted(count) as index:
        stand_in = f.at(stand_ins, index * STAND_IN.size)
        held, managed = f.get(STAND_IN, stand_in, "held"), f.get(STAND_IN, stand_in, "managed")
        with f.when(held.differs(0)):
            deleter = f.get(STAND_IN, stand_in, "deleter")
            f.call(system(f, "PyErr_Fetch"), "void", *kept)
            with f.when(deleter.differs(0)):
                f.call(deleter, "void", managed)
            release(f, held)
            f.call(system(f, "PyErr_Restore"), "void", *(f.load("ptr", place) for place in kept))
    f.give()


# DLPack


@native("i32")
def _read_dlpack(f: Function, value: Ptr, facts: Ptr, stand_in: Ptr) -> None:
    """Reads an array through DLPack; one that may be on a GPU is left to Python."""
    is_elsewhere = f.call(system(f, "PyObject_HasAttr"), "i32", value, f.get(FOREIGN, facts, "cuda_interface"))
    f.give_when(is_elsewhere.differs(0), UNKNOWN)
    capsule = f.call("dlpack_capsule", "ptr", value, facts)
    with f.when(capsule.equals(0)):
        f.give(f.call("failure", "i32"))
    found = f.call("take_capsule", "i32", capsule, facts, stand_in)
    with f.when(found.equals(UNKNOWN)):
        release(f, capsule)  # which nobody has taken, so its own destructor calls the deleter
    f.give(found)


@native("ptr")
def _dlpack_capsule(f: Function, value: Ptr, facts: Ptr) -> None:
    """The capsule of an array, asked for as NumPy does: with options, and without them if they raise a TypeError."""
    call, name = system(f, "PyObject_VectorcallMethod"), f.get(FOREIGN, facts, "dlpack")
    one, options = f.constant("i64", 1), f.get(FOREIGN, facts, "options")
    arguments = f.address(FOREIGN, facts, "arguments")
    with f.when(options.differs(0)):
        own = [f.load("ptr", arguments, 8 * index) for index in range(3)]
        place = f.stack("[4 x ptr]")
        for index, argument in enumerate((value, *own)):
            f.store(argument, place, 8 * index)
        capsule = f.call(call, "ptr", name, place, one, options)
        f.give_when(capsule.differs(0), capsule)
        type_error = f.get(FOREIGN, facts, "type_error")
        f.give_when(f.call(system(f, "PyErr_ExceptionMatches"), "i32", type_error).equals(0), 0)
        f.call(system(f, "PyErr_Clear"), "void")
    alone = f.stack("ptr")
    f.store(value, alone)
    f.give(f.call(call, "ptr", name, alone, one, f.constant("ptr", 0)))


@native("i32")
def _take_capsule(f: Function, capsule: Ptr, facts: Ptr, stand_in: Ptr) -> None:
    """Reads the tensor in a capsule and consumes it; UNKNOWN leaves the capsule as it was."""
    is_versioned = _is_called(f, capsule, f.get(FOREIGN, facts, "versioned"))
    for kind, fits in (("versioned", is_versioned), ("unversioned", is_versioned.equals(0))):
        with f.when(fits):
            name, fields = f.get(FOREIGN, facts, kind), CAPSULE_KINDS[kind]
            f.give_when(_is_called(f, capsule, name).equals(0), UNKNOWN)
            managed = f.call(system(f, "PyCapsule_GetPointer"), "ptr", capsule, name)
            flags = f.get(FOREIGN, facts, "unversioned_flags")
            if kind == "versioned":
                f.give_when(f.get(fields, managed, "version").to("i64") > _KNOWN_VERSION, UNKNOWN)
                is_fixed = (f.get(fields, managed, "flags") & _READ_ONLY).differs(0)
                flags = f.choose(is_fixed, 0, NDARRAY_WRITABLE)
            tensor = f.address(fields, managed, "tensor")
            f.give_when(f.call("read_tensor", "i32", tensor, facts, flags, stand_in).equals(UNKNOWN), UNKNOWN)
            f.call(system(f, "PyCapsule_SetName"), "i32", capsule, f.get(FOREIGN, facts, f"used_{kind}"))
            f.put(STAND_IN, stand_in, "managed", managed)
            f.put(STAND_IN, stand_in, "deleter", f.get(fields, managed, "deleter"))
    f.put(STAND_IN, stand_in, "held", capsule)
    f.give(KNOWN)


def _is_called(f: Function, capsule: Lanes, name: Lanes) -> Lanes:
    """Whether this is a capsule of that name."""
    return f.call(system(f, "PyCapsule_IsValid"), "i32", capsule, name).differs(0)


@native("i32")
def _read_tensor(f: Function, tensor: Ptr, facts: Ptr, flags: I64, stand_in: Ptr) -> None:
    """Reads a tensor on the CPU into a stand-in."""
    f.give_when(f.get(DL_TENSOR, tensor, "device").differs(_CPU), UNKNOWN)
    axes = f.get(DL_TENSOR, tensor, "axes").to("i64")
    f.give_when((axes < 0) | (axes > _MAX_AXES), UNKNOWN)
    shape = f.get(DL_TENSOR, tensor, "shape")
    with f.counted(axes) as axis:
        f.give_when(f.load("i64", shape, axis * 8) < 0, UNKNOWN)
    address = f.get(DL_TENSOR, tensor, "data") + f.get(DL_TENSOR, tensor, "offset")
    element = f.call("dlpack_element", "ptr", f.get(DL_TENSOR, tensor, "dtype"), facts)
    f.give_when(element.equals(0), UNKNOWN)
    f.give(f.call("fill_stand_in", "i32", stand_in, address, element, flags))


@native("ptr")
def _dlpack_element(f: Function, dtype: I32, facts: Ptr) -> None:
    """The ELEMENT of a type of DLPack, or null."""
    element = f.variable("ptr", f.get(FOREIGN, facts, "elements"))
    with f.repeat() as loop:
        loop.leave_when(f.get(ELEMENT, element.value, "dtype").equals(0))
        with f.when(f.get(ELEMENT, element.value, "code").equals(dtype)):
            f.give(element.value)
        element.set(f.at(element.value, ELEMENT.size))
    f.give(0)


@native("i32")
def _fill_stand_in(f: Function, stand_in: Ptr, address: I64, element: Ptr, flags: I64) -> None:
    """Makes a stand-in of what was read; what has no memory, or elements astride of words, is left to NumPy."""
    f.give_when((address < FREED) | (address & (f.get(ELEMENT, element, "size") - 1)).differs(0), UNKNOWN)
    f.put(STAND_IN, stand_in, "type", f.get(TABLE, runtime(f), "type_ndarray"))
    f.put(STAND_IN, stand_in, "data", address)
    f.put(STAND_IN, stand_in, "dtype", f.get(ELEMENT, element, "dtype"))
    f.put(STAND_IN, stand_in, "flags", (flags | NDARRAY_ALIGNED).to("i32"))
    f.give(KNOWN)


# The array interface


@native("i32")
def _read_interface(f: Function, value: Ptr, facts: Ptr, stand_in: Ptr) -> None:
    """Reads the dict of an array; what stands in it otherwise than NumPy writes it is left to NumPy."""
    stated = f.call(system(f, "PyObject_GetAttr"), "ptr", value, f.get(FOREIGN, facts, "interface"))
    with f.when(stated.equals(0)):
        f.give(f.call("failure", "i32"))
    found = f.variable("i32", UNKNOWN)
    with f.when(type_of(f, stated).equals(f.get(TABLE, runtime(f), "type_dict"))):
        found.set(f.call("read_dict", "i32", stated, facts, stand_in))
    release(f, stated)
    f.give(found.value)


@native("i32")
def _read_dict(f: Function, stated: Ptr, facts: Ptr, stand_in: Ptr) -> None:
    element = f.call("stated_element", "ptr", stated, facts)
    f.give_when(element.equals(0), UNKNOWN)
    size = f.get(ELEMENT, element, "size")
    f.give_when(f.call("has_plain_axes", "i32", stated, facts, size).equals(0), UNKNOWN)
    flags = f.stack("i64")
    address = f.call("stated_address", "i64", stated, facts, flags)
    f.give(f.call("fill_stand_in", "i32", stand_in, address, element, f.load("i64", flags)))


@native("ptr")
def _stated_element(f: Function, stated: Ptr, facts: Ptr) -> None:
    """The ELEMENT of an interface, or null."""
    text = looked_up(f, stated, f.get(FOREIGN, facts, "typestr"))
    f.give_when(text.equals(0), 0)
    address = f.variable("ptr", 0)
    with f.when(type_of(f, text).equals(f.get(FOREIGN, facts, "type_text"))):
        found = looked_up(f, f.get(FOREIGN, facts, "typestrs"), text)
        with f.when(found.differs(0)):
            address.set(f.call(system(f, "PyLong_AsVoidPtr"), "ptr", found))
            drop_found(f, found)
    drop_found(f, text)
    f.give(address.value)


@native("i64")
def _stated_address(f: Function, stated: Ptr, facts: Ptr, flags: Ptr) -> None:
    """The address in an interface, and the flag of arrays that may be written; 0 where there is something else."""
    address = f.variable("i64", 0)
    data = looked_up(f, stated, f.get(FOREIGN, facts, "data"))
    f.give_when(data.equals(0), 0)
    table = runtime(f)
    with f.when(_is_tuple(f, data)), f.when(f.call(system(f, "PyTuple_Size"), "i64", data).equals(2)):
        number, is_fixed = (f.call(system(f, "PyTuple_GetItem"), "ptr", data, f.constant("i64", at)) for at in (0, 1))
        is_true, is_int = (f.get(TABLE, table, name) for name in ("true", "type_int"))
        is_bool = type_of(f, is_fixed).equals(f.get(TABLE, table, "type_bool"))
        with f.when(is_bool & type_of(f, number).equals(is_int)):
            f.store(f.choose(is_fixed.equals(is_true), 0, NDARRAY_WRITABLE), flags)
            _set_number(f, address, number)
    drop_found(f, data)
    f.give(address.value)


def _set_number(f: Function, variable: Variable, number: Lanes) -> None:
    """The value of an int; -1 where it is too large."""
    variable.set(f.call(system(f, "PyLong_AsLongLong"), "i64", number))
    with f.when(variable.value.equals(-1)):
        f.call(system(f, "PyErr_Clear"), "void")


@native("i32")
def _has_plain_axes(f: Function, stated: Ptr, facts: Ptr, size: I64) -> None:
    """Whether the shape is a tuple of ints, and the strides are None, missing, or as many multiples of `size`."""
    shape = looked_up(f, stated, f.get(FOREIGN, facts, "shape"))
    f.give_when(shape.equals(0), 0)
    strides = looked_up(f, stated, f.get(FOREIGN, facts, "strides"))
    result = f.variable("i32", 0)
    with f.when(_is_tuple(f, shape)):
        result.set(f.call("are_multiples", "i32", shape, f.constant("i64", 1), f.constant("i64", 0)))
    with f.when(strides.differs(0) & strides.differs(f.get(TABLE, runtime(f), "none"))):
        with f.when(_is_tuple(f, strides) & result.value.differs(0)) as listed:
            lengths = (f.call(system(f, "PyTuple_Size"), "i64", axes) for axes in (shape, strides))
            is_like = next(lengths).equals(next(lengths)).widened("i32")
            least = f.constant("i64", -(2**63))
            result.set(f.call("are_multiples", "i32", strides, size, least) & is_like)
        with listed.otherwise():
            result.set(0)
    with f.when(strides.differs(0)):
        drop_found(f, strides)
    drop_found(f, shape)
    f.give(result.value)


@native("i32")
def _are_multiples(f: Function, axes: Ptr, step: I64, least: I64) -> None:
    """Whether all elements of a tuple are ints, multiples of `step`, a power of two, and at least `least`."""
    count = f.call(system(f, "PyTuple_Size"), "i64", axes)
    f.give_when(count > _MAX_AXES, 0)
    number = f.variable("i64", 0)
    with f.counted(count) as index:
        item = f.call(system(f, "PyTuple_GetItem"), "ptr", axes, index)
        f.give_when(type_of(f, item).differs(f.get(TABLE, runtime(f), "type_int")), 0)
        _set_number(f, number, item)
        f.give_when((number.value & (step - 1)).differs(0) | (number.value < least), 0)
    f.give(1)


def _is_tuple(f: Function, value: Lanes) -> Lanes:
    return type_of(f, value).equals(f.get(TABLE, runtime(f), "type_tuple"))
