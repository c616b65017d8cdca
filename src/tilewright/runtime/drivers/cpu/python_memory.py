"""The offsets at which CPython, NumPy and torch keep data that the native launcher reads, verified before use.

Every function here finds its offset from descriptors or from a known object. If anything is not as expected, it returns
None, and the launcher leaves such arguments to Python. This is the only file that depends on the layouts of foreign
objects.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable
from functools import cache, reduce
from types import CellType, MappingProxyType, MemberDescriptorType, WrapperDescriptorType
from typing import Any

import numpy as np

from tilewright.runtime.drivers.cpu.native.structs import (
    HEADER,
    IS_FREE_THREADED,
    NDARRAY_DATA,
    NDARRAY_DTYPE,
    NDARRAY_FLAGS,
    OBJECT_TYPE,
)
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM

_DESCRIPTOR_OFFSET = HEADER + 24  # of d_member and d_base in descriptor objects
_DEFINITION_BYTES, _MEMBER_OFFSET = 24, 16  # of a PyMemberDef up to `offset`; a wrapperbase is longer
_HANDLES = (HEADER, HEADER + 8)  # where tensors may have their handle
_NO_INDEX = -1  # torch's number of the CPU among CPUs
_DTYPES = ("float32", "int64", "uint8", "float64", "bfloat16", "bool")
_TENSOR_BYTES = 192  # of what a handle points to
_PLAIN_KEYS = ("ADInplaceOrView", "CPU", "AutogradCPU", "AutocastCPU", "CUDA", "AutogradCUDA", "AutocastCUDA")
_LOCAL_COUNT, _IMMORTAL = 12, 2**32 - 1  # of ob_ref_local, in free-threaded CPython
_CELL_CONTENT = HEADER  # of ob_ref
_T_PYSSIZET, _READONLY = 19, 1
_PY_TP_CALL, _PY_TP_DEALLOC, _PY_TP_REPR, _PY_TP_TRAVERSE, _PY_TP_MEMBERS, _PY_TP_GETSET = 50, 52, 66, 71, 72, 73
_DEFAULT, _HAVE_VECTORCALL, _HAVE_GC = 1 << 18, 1 << 11, 1 << 14
IMMUTABLE, NOT_INSTANTIATED = 1 << 8, 1 << 7  # from Python
_kept: list[object] = []  # what types refer to for as long as the process lives


def is_supported_python() -> bool:
    """CPython without debug fields in every object."""
    return not why_unsupported()


def why_unsupported() -> str:
    """The reason why objects of this Python cannot be read; "" when they can.

    This must be called before any object is read: other builds of Python have other fields, and an address from a wrong
    offset ends the process.
    """
    if sys.implementation.name != "cpython":
        return f"this Python is {sys.implementation.name}, and objects are read as CPython lays them out"
    if hasattr(sys, "gettotalrefcount"):
        return "this is a debug build of CPython, whose objects have further fields"
    if HEADER not in (16, 32) or _word(id(_word) + OBJECT_TYPE) != id(type(_word)):
        return "the objects of this CPython do not begin as is known"
    return ""


def function_address(library: ctypes.CDLL, name: str) -> int:
    """The address of a C function.

    Errors: ValueError when the library has none of that name.
    """
    return ctypes.addressof(ctypes.c_char.in_dll(library, name))


def slot_offset(owner: type, name: str) -> int | None:
    """The offset in bytes of the `__slots__` entry `name` in instances of a class; None if unknown."""
    definition = _definition(owner, name, MemberDescriptorType)
    if definition is None:
        return None
    offset = _word(definition + _MEMBER_OFFSET)
    return offset if offset % 8 == 0 and HEADER <= offset <= owner.__basicsize__ - 8 else None


def cell_offset() -> int | None:
    """The offset of the content of a cell (a variable that functions share), in bytes; None if unknown."""
    if not is_supported_python():
        return None
    content = object()
    cell = CellType(content)
    return _CELL_CONTENT if _word(id(cell) + _CELL_CONTENT) == id(content) else None


def subscript_definition() -> int | None:
    """CPython's own record of the method `__getitem__` that stands for the mapping slot."""
    return _definition(MappingProxyType, "__getitem__", WrapperDescriptorType)


def ndarray_is_as_expected() -> bool:
    """Whether NumPy arrays keep data, dtype and flags where native code reads them."""
    if not is_supported_python():
        return False
    probe = np.arange(4, dtype=np.float32)[1:]
    address = id(probe)
    flags = ctypes.c_int32.from_address(address + NDARRAY_FLAGS).value
    data, dtype = _word(address + NDARRAY_DATA), _word(address + NDARRAY_DTYPE)
    expected: int = probe.__array_interface__["data"][0]
    return (data, dtype, flags) == (expected, id(probe.dtype), probe.flags.num)


def array_address(array: np.ndarray[Any, Any]) -> int:
    """The address of an array's first element; calling NumPy takes three times as long as reading it."""
    if type(array) is np.ndarray and _is_ndarray_known():
        return _word(id(array) + NDARRAY_DATA)
    return array.ctypes.data


_is_ndarray_known = cache(ndarray_is_as_expected)


def live_for_ever(value: object) -> None:
    """Makes an object live until the process ends, as None does, where threads are free; elsewhere nothing happens.

    Its references are no longer counted, so threads that use it do not contend for the count.
    """
    if _are_counts_known():
        ctypes.c_uint32.from_address(id(value) + _LOCAL_COUNT).value = _IMMORTAL


@cache
def _are_counts_known() -> bool:
    """Whether objects of free threads have their owner's count where it is expected."""
    if not IS_FREE_THREADED or not is_supported_python():
        return False
    fresh = object()
    counts = [ctypes.c_uint32.from_address(id(value) + _LOCAL_COUNT).value for value in (None, True, fresh)]
    return counts[:2] == [_IMMORTAL] * 2 and 0 < counts[2] < 8


class TensorAccess(NamedTuple):
    """The access to torch tensors: where they have the handle that torch's C interface takes, and functions of that.

    Each function gives 0, or else not what was asked for: `int32_t get_numel(handle, int64_t *)`. What the handle
    points to has, at `tensor_dtype`, the number of its dtype and, at `tensor_keys`, a set of dispatch keys:
    `tensor_odd_keys` are those of tensors that are not just numbers in memory (negated, sparse, of a transformation),
    `tensor_cpu_key` is the one of tensors on the CPU.
    """

    tensor_offset: int
    tensor_dtype: int
    tensor_keys: int
    tensor_odd_keys: int
    tensor_cpu_key: int
    get_data_ptr: int
    get_device_index: int
    get_numel: int
    get_storage_size: int


def tensor_access(torch: Any) -> TensorAccess | None:
    """The access that the module `torch` offers; its C interface is meant for compiled models and does not change."""
    if not is_supported_python():
        return None
    real, whole = (torch.empty(8, dtype=dtype, device="cpu") for dtype in (torch.float32, torch.int64))
    probes = [real, whole[3:], torch.nn.Parameter(real)]
    fits = (place for place in _HANDLES if all(_word(id(probe) + place) == probe._cdata for probe in probes))
    offset = next(fits, None)
    try:
        library = ctypes.CDLL(torch._C.__file__)
        names = (field for field in TensorAccess._fields if field.startswith("get_"))
        functions = [function_address(library, f"aoti_torch_{name}") for name in names]
        dtype, keys = _dtype_place(torch, library), _keys_place(torch, [*probes, torch._neg_view(real)])
        plain = {name: _key_set(torch, name) for name in _PLAIN_KEYS}
    except (OSError, ValueError, AttributeError, RuntimeError):
        return None
    if offset is None or dtype is None or keys is None:
        return None
    odd, cpu = ~reduce(operator.or_, plain.values()), plain["CPU"] & ~plain["CUDA"]
    access = TensorAccess(offset, dtype, keys, odd, cpu, *functions)
    return access if all(_is_read_right(access, probe) for probe in probes) else None


def _dtype_place(torch: Any, library: ctypes.CDLL) -> int | None:
    """The offset of the number of the dtype in what a tensor's handle points to, in bytes; None if unknown."""
    probes = [torch.empty(1, dtype=getattr(torch, name)) for name in _DTYPES]
    numbers = []
    for probe in probes:
        number = ctypes.c_int32(-1)
        library.aoti_torch_get_dtype(ctypes.byref(ctypes.c_void_p(probe._cdata)), ctypes.byref(number))
        numbers.append(number.value)
    fits = (
        place
        for place in range(0, _TENSOR_BYTES, 2)
        if [ctypes.c_uint16.from_address(probe._cdata + place).value for probe in probes] == numbers
    )
    return next(fits, None)


def _keys_place(torch: Any, probes: list[Any]) -> int | None:
    """The offset of the dispatch keys in what a tensor's handle points to, in bytes; None if unknown."""
    sets = [(probe._cdata, torch._C._dispatch_keys(probe).raw_repr()) for probe in probes]
    fits = (place for place in range(0, _TENSOR_BYTES, 8) if all(_word(held + place) == keys for held, keys in sets))
    return next(fits, None)


def _key_set(torch: Any, name: str) -> int:
    """The bits of a dispatch key."""
    bits: int = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(name)).raw_repr()
    return bits


def _is_read_right(access: TensorAccess, tensor: Any) -> bool:
    """Whether the functions say of a tensor on the CPU what its attributes say."""
    address, index = ctypes.c_uint64(), ctypes.c_int32(9)
    elements, size = ctypes.c_int64(-1), ctypes.c_int64(-1)
    places = (address, index, elements, size)
    functions = (access.get_data_ptr, access.get_device_index, access.get_numel, access.get_storage_size)
    for function, place in zip(functions, places, strict=True):
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(function)
        if call(id(tensor) + access.tensor_offset, ctypes.addressof(place)):
            return False
    expected = (tensor.data_ptr(), _NO_INDEX, tensor.numel(), tensor.untyped_storage().nbytes())
    return tuple(place.value for place in places) == expected


def _definition(owner: type, name: str, kind: type) -> int | None:
    """The C record behind a descriptor, which starts with a pointer to the name.

    A descriptor begins with its class and its name. Nothing after these is used as an address before both were found.
    Addresses in the first descriptor of a kind are read through the operating system only, which refuses invalid ones.
    """
    descriptor = owner.__dict__.get(name)
    label = getattr(descriptor, "__name__", None)
    if type(descriptor) is not kind or not (kind in _known_kinds or is_supported_python()):
        return None
    begin = id(descriptor) + _DESCRIPTOR_OFFSET - 24
    if (_word(begin), _word(begin + 8)) != (id(owner), id(label)):
        return None
    definition = _word(begin + 24)
    read = ctypes.string_at if kind in _known_kinds else SYSTEM.read_memory
    head = read(definition, _DEFINITION_BYTES)
    expected = name.encode() + b"\0"
    found = None if head is None else read(int.from_bytes(head[:8], sys.byteorder), len(expected))
    if found != expected:
        return None
    _known_kinds.add(kind)
    return definition


_known_kinds: set[type] = set()
"""Kinds of descriptors of which one was found to be as expected, so all are: a read through a pipe takes 10 µs."""


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_GETTER = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
_TEXT = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", _GETTER),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def callable_type(
    name: bytes,
    size: int,
    vectorcall: int,
    *,
    base: type = object,
    destroy: int | None = None,
    traverse: int | None = None,
    text: Callable[[Any], str] | None = None,
    signature: Callable[[Any], Any] | None = None,
    flags: int = 0,
) -> type:
    """A new type of objects that machine code calls.

    Args:
        name: the name of the type.
        size: bytes of an object.
        vectorcall: the offset in an object where the address of the function is that calls it.
        base: the base class.
        destroy: the address of the function that frees an object; None: that of the base class does.
        traverse: the address of the function that shows the garbage collector what an object refers to; None: it does
            not know of these objects.
        text, signature: give the `repr` and the `__signature__` of an object; they must not raise.
        flags: further flags of the type.

    Source: https://docs.python.org/3/c-api/type.html#c.PyType_FromSpecWithBases and "The Vectorcall Protocol" there.
    """
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, vectorcall, _READONLY, None))
    functions = {
        _PY_TP_CALL: function_address(ctypes.pythonapi, "PyVectorcall_Call"),
        _PY_TP_MEMBERS: ctypes.addressof(members),
    }
    if destroy is not None:
        functions[_PY_TP_DEALLOC] = destroy
    if traverse is not None:
        functions[_PY_TP_TRAVERSE] = traverse
        flags |= _HAVE_GC
    attributes = (_Attribute * 2)()
    if text is not None and signature is not None:
        attributes[0] = _Attribute(b"__signature__", _GETTER(lambda of, _: signature(of)))
        functions[_PY_TP_GETSET] = ctypes.addressof(attributes)
        _kept.append(shown := _TEXT(text))
        functions[_PY_TP_REPR] = ctypes.cast(shown, ctypes.c_void_p).value or 0
    slots = (_Slot * (len(functions) + 1))(*(_Slot(slot, address) for slot, address in functions.items()))
    spec = _Spec(name, size, 0, _DEFAULT | _HAVE_VECTORCALL | flags, slots)
    _kept.append((members, attributes, slots, spec))
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
    made: type = make(ctypes.addressof(spec), (base,))
    return made
