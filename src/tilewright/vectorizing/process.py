"""The native side of vectorized functions in this process: its code, its table of addresses, the type of the functions.

    native = native_side(Vectorized, missed)         None if calls go through Python only
    native.type(function)                            an instance of a subclass of Vectorized whose calls are native

It is made on first use; the code comes from the cache folder if it was compiled on this machine before.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.compiler.cache_key import source_identity
from tilewright.runtime.drivers.cpu import python_memory
from tilewright.runtime.drivers.cpu.loader import NativeCodeError, host_machine
from tilewright.runtime.drivers.cpu.native.structs import RUNTIME, Memory, poke
from tilewright.runtime.drivers.cpu.process import (
    RUNTIME_IDENTITY,
    THREADING,
    NativeRuntime,
    cached_blob,
    native_runtime,
    system_functions,
)
from tilewright.support import knobs
from tilewright.support.executable_memory import allocate, map_code
from tilewright.support.hashing import hash_of
from tilewright.support.system import SYSTEM
from tilewright.vectorizing.build import calls_blob
from tilewright.vectorizing.native.structs import (
    ARRAY_EXTENTS,
    ARRAY_RANK,
    BLOCK,
    C_FUNCTIONS,
    FLOAT_VALUE,
    HANDLER,
    HANDLER_CAPSULE,
    HANDLER_HEAD,
    HANDLER_NAME,
    HANDLER_VERSION,
    MAX_BLOCKS,
    NUMPY_ARRAY_TYPE,
    NUMPY_EMPTY,
    NUMPY_FEATURES,
    NUMPY_GET_HANDLER,
    NUMPY_MAJORS,
    NUMPY_MIN_FEATURES,
    NUMPY_SET_HANDLER,
    NUMPY_VERSION,
    RECORDS,
    STATE,
    SYSTEM_FUNCTIONS,
    TABLE,
)


class NativeSide:
    """Everything native that vectorized functions share.

    Attributes:
        type: the class of function objects.
        rows: the address of what the launcher runs.
        execute: runs programs: (entry, call, programs, scratch bytes, threads, cost) → 0 when there is no memory.
        publish: writes an address for other threads, as of something that is complete.
    """

    def __init__(self, runtime: NativeRuntime, base: type, missed: Callable[..., Any]) -> None:
        name = hash_of(f"{RUNTIME_IDENTITY}{_IDENTITY}".encode()).hexdigest()[:16]
        machine = host_machine()
        folder = os.path.expanduser(knobs.cache.dir)
        blob = cached_blob(
            f"vectorize-{machine}{THREADING}-{name}.blob", machine, folder, lambda: calls_blob(machine)
        )
        self._table = allocate(TABLE.size)
        self.table = self._table
        code = map_code(blob.image, pointers={blob.symbols[RUNTIME]: self._table})
        self._code, self._symbols = code.address, blob.symbols
        self.rows = code.address + blob.symbols["rows"]
        self._call = code.address + blob.symbols["call_vectorized"]
        self.execute, self.publish = runtime.execute, runtime.publish
        self._kept: list[object] = [base, missed]
        self._state = _round_up(base.__basicsize__)
        self._fill_table(runtime, missed)
        self.type = self._made_type(base)
        SYSTEM.when_forked(child=self._unlock)

    def _unlock(self) -> None:
        """The thread that held the lock may not be in the child of a fork."""
        TABLE.write(self.table, "kept_lock", 0)

    def adopt(self, function: object) -> int:
        """Let a new object of the type be called; the address of its STATE."""
        state = id(function) + self._state
        STATE.write(state, "records", _NO_RECORDS.address)
        STATE.write(state, "vectorcall", self._call)
        return state

    def _fill_table(self, runtime: NativeRuntime, missed: Callable[..., Any]) -> None:
        functions = numpy_functions()
        addresses = {name: python_memory.function_address(ctypes.pythonapi, name) for name in C_FUNCTIONS}
        addresses |= system_functions(SYSTEM_FUNCTIONS[SYSTEM.name])
        out = sys.intern("out")
        objects = {"missed": missed, "array_type": np.ndarray, "out": out, "true": True, "false": False}
        for value in objects.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
        words = {name: id(value) for name, value in objects.items()}
        fields = {
            "kept": allocate(BLOCK.size * MAX_BLOCKS),
            "set_handler": functions[NUMPY_SET_HANDLER],
            "handler": self._handler(),
            "execute": runtime.symbols["execute"],
            "empty": functions[NUMPY_EMPTY],
            "state": self._state,
        }
        poke(self._table, TABLE.pack(**addresses, **words, **fields))

    def _handler(self) -> int:
        """NumPy's capsule for our memory of large arrays."""
        names = {"malloc": "allocate", "calloc": "allocate_cleared", "realloc": "resize", "free": "release"}
        functions = {field: self._code + self._symbols[name] for field, name in names.items()}
        head = HANDLER_NAME.ljust(HANDLER_HEAD - 1, b"\0") + bytes([HANDLER_VERSION])
        image = head + HANDLER.pack(**functions)
        memory = allocate(len(image))
        poke(memory, image)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        name = ctypes.c_char_p(HANDLER_CAPSULE)
        self._kept.append(name)
        return int(make(memory, name, None))

    def _made_type(self, base: type) -> type:
        """A subclass of `base` with room for a STATE at the end of its objects."""
        size = self._state + STATE.size
        return python_memory.callable_type(b"tilewright.vectorized", size, self._state, base=base)


def native_side(base: type, missed: Callable[..., Any]) -> NativeSide | None:
    """The native side, or None if it cannot work: other systems, another Python, no compiler and no cache.

    Errors although the launcher works are reported by a RuntimeWarning.
    """
    runtime = native_runtime()
    if runtime is None or not _objects_are_as_expected():
        return None
    try:
        return NativeSide(runtime, base, missed)
    except (AttributeError, KeyError, NativeCodeError, OSError, ValueError) as error:  # an unknown NumPy, no memory
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(f"vectorized functions are called through Python: {reason}", RuntimeWarning, stacklevel=2)
        return None


_NO_RECORDS = Memory(RECORDS.pack(count=0))
_IDENTITY = source_identity(f"{os.path.dirname(__file__)}/native")


def _round_up(size: int) -> int:
    return -(-size // 8) * 8


def _objects_are_as_expected() -> bool:
    """Whether arrays and floats keep what native code reads where it reads it."""
    probe = np.empty((3, 5), np.float32)
    extents = ctypes.c_uint64.from_address(id(probe) + ARRAY_EXTENTS).value
    rank = ctypes.c_int32.from_address(id(probe) + ARRAY_RANK).value
    number = 1.5
    return (
        python_memory.ndarray_is_as_expected()
        and rank == 2
        and list((ctypes.c_int64 * 2).from_address(extents)) == [3, 5]
        and ctypes.c_double.from_address(id(number) + FLOAT_VALUE).value == number
    )


def numpy_functions() -> dict[int, int]:
    """The addresses of the functions of NumPy's C interface that native code calls, by their places in its table.

    A place stands for the same function in all versions of one major number. What the table says of itself is compared
    first, so that nothing is called that may be something else; then each function has to do what it is called for.

    Raises:
        ValueError: this NumPy has another table.
    """
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]  # NumPy 1
    table = get(core._ARRAY_API, None)
    addresses = {place: ctypes.c_uint64.from_address(table + 8 * place).value for place in _NUMPY_PLACES}
    if addresses[NUMPY_ARRAY_TYPE] != id(np.ndarray):
        raise ValueError("the table of NumPy's C interface does not begin as is known")
    number = ctypes.PYFUNCTYPE(ctypes.c_uint)
    version, features = (number(addresses[place])() for place in (NUMPY_VERSION, NUMPY_FEATURES))
    if version >> 24 not in NUMPY_MAJORS or features < NUMPY_MIN_FEATURES:
        raise ValueError(f"the version of NumPy's C interface, {version:#x} with {features:#x}, is unknown")
    if not (_makes_arrays(addresses[NUMPY_EMPTY]) and _sets_handlers(addresses)):
        raise ValueError("functions of NumPy's C interface do not do what is known of them")
    return addresses


_NUMPY_PLACES = (
    NUMPY_VERSION,
    NUMPY_ARRAY_TYPE,
    NUMPY_EMPTY,
    NUMPY_FEATURES,
    NUMPY_SET_HANDLER,
    NUMPY_GET_HANDLER,
)


def _makes_arrays(address: int) -> bool:
    """Whether this is `PyArray_Empty`."""
    pointer = ctypes.c_void_p
    empty = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int, pointer, pointer, ctypes.c_int)(address)
    dtype, extents = np.dtype(np.int16), (ctypes.c_int64 * 2)(3, 5)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the new array takes the reference
    made = empty(2, ctypes.addressof(extents), id(dtype), 1)
    return type(made) is np.ndarray and (made.shape, made.dtype, made.strides) == ((3, 5), dtype, (2, 6))


def _sets_handlers(addresses: dict[int, int]) -> bool:
    """Whether setting the handler that is set gives the same one."""
    current = ctypes.PYFUNCTYPE(ctypes.py_object)(addresses[NUMPY_GET_HANDLER])()
    is_capsule = ctypes.pythonapi.PyCapsule_IsValid
    is_capsule.restype, is_capsule.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if not is_capsule(current, HANDLER_CAPSULE):
        return False
    before = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(addresses[NUMPY_SET_HANDLER])(current)
    return before is current
