"""Memory shared by Python and the native side of vectorized functions; see `runtime.drivers.cpu.native.structs`."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.runtime.drivers.cpu.native.structs import HEADER, struct_of

C_FUNCTIONS = (
    "PyFloat_FromDouble",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLongLong",
    "PyObject_Vectorcall",
    "PyTuple_GetItem",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
)
"""Functions of the Python library that native code calls."""

SYSTEM_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "linux": ("free", "madvise", "memcpy", "memset", "posix_memalign", "sched_yield"),
    "macos": ("free", "memcpy", "memset", "posix_memalign", "sched_yield"),
    "windows": ("SwitchToThread", "_aligned_free", "_aligned_malloc", "memcpy", "memset"),
}
"""Functions of the system's libraries that native code calls, by the name of the system."""
_EVERY_FUNCTION = sorted({name for names in SYSTEM_FUNCTIONS.values() for name in names})

OWN_MEMORY, LARGE = 1 << 17, 1 << 24
"""Bytes of a result from which on its memory is our own, and from which on it is written past the caches."""

BLOCK = struct_of(address="ptr", size="i64")
"""Memory that was freed and is kept; the first word before the elements of an array has the size of its block."""

MAX_BLOCKS, MAX_KEPT = 16, 1 << 28

TABLE = struct_of(
    dict.fromkeys((*C_FUNCTIONS, *_EVERY_FUNCTION), "ptr"),
    kept="ptr",  # BLOCKs
    kept_lock="i32",  # 1 while a thread looks for a place, where threads are free
    kept_bytes="i64",
    next_kept="i64",
    set_handler="ptr",  # NumPy: sets the allocator of new arrays
    handler="ptr",  # the capsule of our allocator
    execute="ptr",  # the launcher: runs programs on one thread or many
    empty="ptr",  # NumPy: a new array of these extents and this dtype
    missed="ptr",  # Python: (function, *arguments, **keywords) → result
    array_type="ptr",
    out="ptr",  # the interned name of a keyword
    true="ptr",
    false="ptr",
    state="i64",  # the offset of STATE in a function object
)

STATE = struct_of(vectorcall="ptr", records="ptr")
"""The end of a function object: its vectorcall and its RECORDS."""

RECORDS = struct_of(count="i64")
"""RECORDs, whose addresses follow; replaced as a whole, and never freed while there is the function."""

MAX_ARGUMENTS = 16
BUFFER = 512
"""Bytes for the last elements of one operand: the lanes of a span at 8 bytes each."""

RECORD = struct_of(
    count="i64",
    is_array="i64",
    entry="ptr",  # the code of `scalar` or `span`
    stream="ptr",  # the code of a `span` for large results; null: not compiled yet; the same as `entry`: there is none
    result="ptr",  # a dtype; for numbers RESULT_…
    size="i64",  # bytes of an element of the result
    lanes="i64",
    chunk="i64",
    cost="i64",
    backwards="i64",  # the direction of the next call
    checks="i64",  # not 0: something can go wrong, so nothing may be computed twice into an argument
)
"""A specialisation. KEYs follow."""

KEY = struct_of(expected="ptr", role="i64", size="i64")
"""The key that an argument has to match: a number of the type `expected`, or an array of the dtype `expected`."""

ROLE_INT, ROLE_FLOAT, ROLE_BOOL, ROLE_ARRAY = 0, 1, 2, 3
RESULT_INT, RESULT_FLOAT, RESULT_BOOL = 0, 1, 2

CALL = struct_of(
    span="ptr",
    rest="ptr",  # the span for less than a vector, which may lie anywhere
    control="ptr",  # LAUNCH_CONTROL of `runtime.drivers.cpu.native.structs`: set by the launcher
    lanes="i64",
    length="i64",  # elements of the innermost axis
    chunk="i64",  # elements of it per program
    per_row="i64",  # programs per row
    count="i64",  # operands, the result included
    flags="i64",
    may_repeat="i64",  # computing an element twice does no harm: the result overlaps no input
    backwards="i64",  # chunks from the last to the first; only without outer axes
    rank="i64",  # outer axes
    shape="ptr",
    sizes="ptr",  # bytes of an element, per operand
    strides="ptr",  # bytes of a step along the outer axes, operand after operand
    operands="ptr",  # OPERANDs
)
"""Spans over a whole broadcast: rows of the innermost axis, in chunks."""

OPERAND = struct_of(address="ptr", stride="i64")

FLOAT_VALUE = HEADER
ARRAY_RANK, ARRAY_EXTENTS = HEADER + 8, HEADER + 16
ARRAY_C_ORDER, ARRAY_F_ORDER, ARRAY_WRITEABLE = 1, 2, 0x400
OUTPUT_UNFIT, OUTPUT_IN_PLACE, OUTPUT_APART = 0, 1, 2
NUMPY_VERSION, NUMPY_ARRAY_TYPE, NUMPY_EMPTY, NUMPY_FEATURES = 0, 2, 184, 211
NUMPY_SET_HANDLER, NUMPY_GET_HANDLER = 304, 305
"""Places in the table of NumPy's C interface, in its versions NUMPY_MAJORS from NUMPY_MIN_FEATURES on."""
NUMPY_MAJORS, NUMPY_MIN_FEATURES = (1, 2), 0x0F  # NumPy 1.22 has the first functions for handlers

HANDLER = struct_of(context="ptr", malloc="ptr", calloc="ptr", realloc="ptr", free="ptr")
"""The end of NumPy's PyDataMem_Handler; a name and a version come first."""
HANDLER_NAME, HANDLER_HEAD, HANDLER_VERSION = b"tilewright", 128, 1
HANDLER_CAPSULE = b"mem_handler"
