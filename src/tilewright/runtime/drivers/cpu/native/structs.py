"""Memory shared by Python and native code: named fields at fixed offsets.

    LAYOUT.fields["count"].offset           for native code
    LAYOUT.pack(count=3, …)                 bytes of a whole struct
    LAYOUT.write(address, "count", 4)       one field, in place

Multi-byte fields are little-endian, as on both processors.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.runtime.drivers.cpu.native.functions import C_FUNCTIONS, EVERY_FUNCTION, FREE_THREADED_FUNCTIONS
from tilewright.support.named_tuple import NamedTuple

APART = 128
"""The bytes by which memory of different threads is apart, at least: two cache lines."""

RUNTIME = "runtime"
"""The constant in the blob that holds the address of the TABLE; written when the blob is loaded."""

HEADER = object.__basicsize__
"""Bytes before the fields of every object of Python: 16, and 32 where threads run without a global lock."""

OBJECT_TYPE = HEADER - 8
"""The place of an object's type, the last field of the header."""

NDARRAY_DATA, NDARRAY_DTYPE, NDARRAY_FLAGS = HEADER, HEADER + 40, HEADER + 48
NDARRAY_ALIGNED, NDARRAY_WRITABLE = 0x100, 0x400
NDARRAY_KEY_FLAGS = NDARRAY_ALIGNED | NDARRAY_WRITABLE

IS_FREE_THREADED = HEADER == 32
"""Whether Python's threads may run at the same time, so that what they share is locked or never changes.

`python_memory.py` looks whether objects are as these numbers say before any native code reads one.
"""

KNOWN, UNKNOWN = 1, 0
"""The number of key entries that an argument takes: one if it is known, none if not. Tuples take several."""

SPARE = 64
"""Max key entries that elements of tuples may take, in one call."""

_SIZES = {"i32": 4, "i64": 8, "ptr": 8}
_CODES = {"i32": "<i", "i64": "<q", "ptr": "<Q"}
_WORDS: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "ptr": ctypes.c_uint64}


class Field(NamedTuple):
    """A field of a struct: its offset in bytes, and its LLVM type."""

    offset: int
    type: str


class Struct(NamedTuple):
    """Fields by name, and the bytes they take together."""

    fields: Mapping[str, Field]
    size: int

    def pack(self, **values: int) -> bytes:
        """The bytes of a struct with these fields; others are zero."""
        image = bytearray(self.size)
        for name, value in values.items():
            field = self.fields[name]
            struct.pack_into(_CODES[field.type], image, field.offset, value)
        return bytes(image)

    def write(self, address: int, name: str, value: int) -> None:
        """Sets one field of the struct at `address`."""
        field = self.fields[name]
        _WORDS[field.type].from_address(address + field.offset).value = value

    def read(self, address: int, name: str) -> int:
        """One field of the struct at `address`."""
        field = self.fields[name]
        return int(_WORDS[field.type].from_address(address + field.offset).value)


class Memory:
    """Bytes that Python owns and native code reads or writes: those of `content`, then zeros up to `size`.

    A bytearray, since an array of ctypes costs 20 µs for each length that is new.

    Attributes:
        bytes: never to be resized.
        address: of the first of them.
    """

    __slots__ = ("address", "bytes")

    def __init__(self, content: bytes, size: int = 0) -> None:
        self.bytes = bytearray(content.ljust(max(size, 1), b"\0"))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))


def write_word(address: int, value: int) -> None:
    """Writes eight bytes at a multiple of eight, which others see as a whole."""
    ctypes.c_uint64.from_address(address).value = value


def poke(address: int, data: bytes) -> None:
    """Writes bytes to memory while holding the GIL throughout, so that native code sees all of them or none."""
    _copy(address, data, len(data))


_copy = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)(
    ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0
)


def struct_of(first: Mapping[str, str] = MappingProxyType({}), /, *, apart: int = 8, **others: str) -> Struct:
    """A struct with these fields (name and type) in order, each at a multiple of `apart` bytes and of its own size."""
    fields = {}
    offset = 0
    for name, kind in (*first.items(), *others.items()):
        step = max(apart, _SIZES[kind])
        offset = -(-offset // step) * step
        fields[name] = Field(offset, kind)
        offset += _SIZES[kind]
    return Struct(fields, -(-offset // 8) * 8)


OBJECTS = (
    "type_bool",
    "type_dict",
    "type_float",
    "type_int",
    "type_kernel",
    "type_list",
    "type_ndarray",
    "type_parameter",
    "type_tensor",
    "type_tuple",
    "exception",
    "none",
    "true",
)
"""Types and singletons that native code compares with, or gives."""

TABLE = struct_of(
    dict.fromkeys((*C_FUNCTIONS, *FREE_THREADED_FUNCTIONS, *EVERY_FUNCTION, *OBJECTS), "ptr"),
    bound_type="ptr",  # the type of `kernel[grid]`
    free_bound="ptr",  # an object of it that nobody else refers to, without kernel and grid, to be used again
    missed="ptr",  # Python: (kernel, grid, values, names) → result, when there is no specialisation
    owner_fallback="ptr",  # Python: JITFunction.__getitem__ before it was replaced
    owner_slot="i64",  # where a JITFunction keeps its kernel
    state_slot="i64",  # where a kernel keeps the address of its STATE, as an int
    tensor_offset="i64",  # where a torch tensor has what torch's C functions take
    get_data_ptr="ptr",
    get_device_index="ptr",
    get_numel="ptr",
    get_storage_size="ptr",
    tensor_dtype="i64",  # where what the handle points to has the number of its dtype
    tensor_keys="i64",  # … and its dispatch keys
    tensor_odd_keys="i64",  # those that a tensor of numbers in the memory of a CPU or a GPU does not have
    tensor_cpu_key="i64",  # the one of those on a CPU
    type_device_array="ptr",  # our arrays on GPUs, and where they keep what their key is made of
    array_address="i64",
    array_dtype="i64",
    array_place="i64",
    forms="ptr",  # {class of arrays or numbers: function that makes a NumPy array, or a number of Python, of one}
    number_forms="ptr",  # {class of numbers: function that makes an int, a float or a bool of one}
    foreign="ptr",  # FOREIGN; null: arrays of other libraries are left to those functions
    type_descriptor="ptr",  # tensor descriptors of the host
    descriptor_names="ptr",  # … and the names of their attributes, in the order of DESCRIPTOR_PARTS
    stream_key="i64",  # the pthread key of a thread's STREAM
    failed="ptr",  # Python: (result, CUresult) → raises
    stuck="ptr",  # Python: (result, address of the launch record) → raises
    watched="i64",  # not 0: all launches go through Python, where hooks are called
    lane_key="i64",  # the pthread key of a thread's own LANE, where threads are free
    lanes_lock="i32",  # 1 while a thread changes one of these lists, where threads are free
    lanes="ptr",  # free LANEs
    all_lanes="ptr",
    watcher="i32",  # WATCHER_…; a thread may sleep on it
    codes="ptr",  # CODES
    actions="ptr",  # two times the system's struct sigaction: what was done with SIGSEGV and SIGBUS before
    main_thread="i32",  # Windows' number of Python's main thread
    has_said="i64",  # what a kernel did wrong: 1: a thread is about to write it; 3: it is written
    spin_ticks="i64",  # how long all programs that run may wait for others; 0: for ever
    pool="ptr",
    team="ptr",  # void (void (*)(void *), void *, i32, i32): GOMP_parallel of a library whose threads the pool uses
    team_number="ptr",  # i32 (): omp_get_thread_num: which of its threads asks; 0 is the one that began the region
    team_size="ptr",  # i32 (): how many there are for the thread that asks; null: the pool knows how many it has
    gil_ticks="i64",  # more work than this releases the GIL
    hot_ticks="i64",  # more work than this is shared with threads that are awake
    cold_ticks="i64",  # … and with threads that must be woken
    alone_ticks="i64",  # work of the latest launches that threads, had they been awake, would have shared
    alone_ended="i64",  # when the last of them should have ended
    lost_ticks="i64",  # by how much sharing short launches made them slower, less by how much faster
    alone_until="i64",  # until then short launches are not shared
)

_CONTROL = {
    "report": "ptr",  # called with what programs print and assert; null: nobody listens
    "stop": "i64",  # not 0: no program needs to go on
    "tick": "i64",  # changes every now and then: go and look whether the launch is still wanted
    "look": "ptr",  # i64 (ptr control): not 0: no
    "wait": "ptr",  # i64 (ptr control, i64 site, i32 x, i32 y, i32 z, i64 since), for a loop that waits
}

CONTROL = struct_of(_CONTROL)
"""The words by which a launch and its programs talk. Its address stands at LAUNCH_CONTROL in what machine code gets."""

LANE = struct_of(
    _CONTROL,
    memory="ptr",  # scratch memory
    size="i64",
    next="ptr",  # free one
    is_taken="i64",  # of a thread's own lane
    link="ptr",  # … of all
    owner="ptr",  # the thread that launched, by its thread pointer; null: no launch is under way
    launch="ptr",  # the launch record
    entry="ptr",  # the machine code
    thread="ptr",  # of Python, while it has given up the GIL
    is_shared="i64",  # with threads of the pool
    raised="i64",  # not 0: a signal handler raised an exception
    waiting="i64",  # the number of a round << 16, and how many threads that wait for too long were counted in it
    stuck="i64",  # not 0: all were, and this is 1 + the site and, in x, y and z, the program of one of them
    x="i32",
    y="i32",
    z="i32",
)
"""The state of a launch under way, of one launch at a time. It begins with its CONTROL, and lives for ever."""

CODE = struct_of(begin="i64", end="i64", text="ptr", size="i64")
"""Mapped code of a kernel: addresses, and `size` bytes of text that name it. One that is gone ends at 0."""

CODES = struct_of(entries="ptr", count="i64")
"""All CODEs, in an array."""

_OBJECT = {"thread": "i64", "flags": "i64", "refcount": "i64"} if IS_FREE_THREADED else {"refcount": "i64"}
BOUND = struct_of(_OBJECT, type="ptr", vectorcall="ptr", kernel="ptr", grid="ptr")
"""`kernel[grid]`."""

STATE = struct_of(
    records="ptr",  # an INDEX
    layouts="ptr",  # LAYOUTS
    guards="ptr",  # GUARDS
    hooks="ptr",  # a Python list: while it is not empty, launches go through Python
)
"""The state of a kernel. What its words point to is replaced as a whole, by one word, and never freed: a thread that
reads it meanwhile goes on with what was there before."""

INDEX = struct_of(last="ptr", mask="i64")
"""RECORDs in an open hash table, whose addresses follow, and the one that was found last."""

LAYOUTS = struct_of(last="ptr", count="i64")
"""LAYOUTs, whose addresses follow, and the one that was found last."""

GUARDS = struct_of(count="i64")
"""GUARDs, which follow."""

GUARD = struct_of(word="ptr", namespace="ptr", name="ptr", expected="ptr")
"""An object that has to be where it was: in the word at an address or, if that is null, in a dict under a name."""

LAYOUT = struct_of(
    positional="i64", names="ptr", name_count="i64", count="i64", parameters="i64", parameter_names="ptr"
)
"""The form of a call: number of positional arguments, and keywords. SOURCEs follow: parameters, then options."""

SOURCE = struct_of(apart=4, index="i32", role="i32", default="ptr")
"""The source of a parameter's argument: the `index`th of the call, or (below 0) the default."""

RECORD = struct_of(
    hash="i64",
    layout="ptr",
    words="ptr",
    word_count="i64",
    entry="ptr",
    result="ptr",
    scratch="i64",
    threads="i64",
    cost="i64",
    slots="ptr",
    slot_count="i64",
    device="ptr",
    maps="ptr",
    map_count="i64",
    listener="ptr",
)
"""A specialisation. `words`: its key; `cost`: ticks per 16 programs, measured, -1 before the first launch; `device`: a
DEVICE, null on the CPU; `maps`: MAPs, one by one; `listener`: a CONTROL, null for code that reports nothing."""

MAP = struct_of(
    apart=4,
    slot="i32",  # of the machine code's arguments
    address="i32",  # entries: the array, its first extent, its first stride
    shape="i32",
    strides="i32",
    rank="i32",
    size="i32",  # bytes of an element
    element="i32",  # CUtensorMapDataType
    swizzle="i32",
    fill="i32",
    doubles="i32",  # 1: the innermost extent counts twice
    **{f"box{axis}": "i32" for axis in range(5)},  # innermost first
)
"""The recipe for the tensor map of an argument."""

DESCRIPTOR_PARTS = ("base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32")
"""Attributes of tensor descriptors. In keys they stand one after the other, as the elements of a tuple do."""

DEVICE = struct_of(
    launch="ptr",  # cuLaunchKernelEx
    get_context="ptr",  # cuCtxGetCurrent
    set_context="ptr",  # cuCtxSetCurrent
    get_stream="ptr",  # int32 (int32 device, void **): gives the current stream; null: it is `stream`
    stream="ptr",
    ordinal="i64",
    context="ptr",
    function="ptr",
    encode="ptr",  # cuTensorMapEncodeTiled
    clusters="i64",  # programs in each
    threads="i64",
    shared="i64",
    attributes="ptr",
    attribute_count="i64",
    scratch="ptr",  # memory that the kernel needs, null for none
    scratch_stream="ptr",  # … for launches on this stream
    scratch_programs="i64",  # … of at most this number of programs
)
"""The facts for launching one kernel on one GPU."""

LAUNCH_CONFIG = struct_of(
    apart=4,
    x="i32",
    y="i32",
    z="i32",
    threads_x="i32",
    threads_y="i32",
    threads_z="i32",
    shared="i32",
    stream="ptr",
    attributes="ptr",
    attribute_count="i32",
)
"""CUlaunchConfig of cuda.h."""

STREAM = struct_of(device="i64", handle="ptr")
"""The current stream of a thread."""

ELEMENT = struct_of(code="i32", size="i64", dtype="ptr")
"""A type of elements: DLPack's number of it, bytes, NumPy's dtype. The last of an array of these has no dtype."""

_NAMES = ("dlpack", "cuda_interface", "interface", "data", "shape", "strides", "typestr")
_CAPSULE_NAMES = ("versioned", "used_versioned", "unversioned", "used_unversioned")
FOREIGN = struct_of(
    dict.fromkeys((*_NAMES, *_CAPSULE_NAMES), "ptr"),  # of attributes and entries, and C's of capsules
    dlpack_form="ptr",  # the functions in `forms` in whose place native code reads arrays
    interface_form="ptr",
    elements="ptr",  # ELEMENTs
    typestrs="ptr",  # {text in an array interface: address of an ELEMENT}
    type_text="ptr",
    type_error="ptr",
    options="ptr",  # a tuple of names: keywords of `__dlpack__`, null for none
    arguments="ptr",  # their values begin here
    argument_1="ptr",
    argument_2="ptr",
    unversioned_flags="i64",  # NumPy's, of the array in a capsule that does not tell whether it may be written
)
"""The facts by which native code reads arrays of other libraries; Python's objects in it live for ever."""

DL_TENSOR = struct_of(
    apart=4, data="i64", device="i32", number="i32", axes="i32", dtype="i32", shape="ptr", strides="ptr", offset="i64"
)
"""DLTensor of dlpack.h; the dtype is code, bits and lanes in one word."""

CAPSULE_KINDS = {
    "versioned": struct_of(
        apart=4, version="i32", minor="i32", context="ptr", deleter="ptr", flags="i64", tensor="ptr"
    ),
    "unversioned": Struct(
        {"tensor": Field(0, "ptr"), "deleter": Field(DL_TENSOR.size + 8, "ptr")}, DL_TENSOR.size + 16
    ),
}
"""DLManagedTensorVersioned and DLManagedTensor. A DLTensor begins at `tensor`."""

STAND_IN = Struct(
    {
        "type": Field(OBJECT_TYPE, "ptr"),
        "data": Field(NDARRAY_DATA, "i64"),
        "dtype": Field(NDARRAY_DTYPE, "ptr"),
        "flags": Field(NDARRAY_FLAGS, "i32"),
        "held": Field(NDARRAY_FLAGS + 8, "ptr"),
        "managed": Field(NDARRAY_FLAGS + 16, "ptr"),
        "deleter": Field(NDARRAY_FLAGS + 24, "ptr"),
    },
    NDARRAY_FLAGS + 32,
)
"""A foreign array in the place of NumPy's, the object that is held for it, and what has to be deleted, and by what."""

FILL = struct_of(apart=4, entry="i32", conversion="i32")
"""The source of an argument slot of the machine code: an entry's value, and its conversion."""

POOL = struct_of(
    apart=128,
    generation="i32",  # counts jobs; threads sleep on it
    sleepers="i32",
    gate="i64",  # OPEN while a job can be joined, plus the number of threads inside
    next="i64",  # first chunk that nobody has claimed
    seats="i64",  # threads that joined
    lock="i32",  # 1 while a launch uses the pool
    user="ptr",  # the thread of that launch, by its thread pointer
    workers="i64",
    threads="i64",  # most threads per launch, the caller included
    spin_ticks="i64",
    job="ptr",  # a JOB begins here
)

JOB = struct_of(
    entry="ptr",
    launch="ptr",
    total="i64",
    first="i64",  # programs in each of the first `limit` chunks
    chunk="i64",  # … and in later ones
    scratch="ptr",
    stride="i64",
    limit="i64",
)
"""The job that the threads of the pool run: one cache line, written while the gate is closed."""


class Role:
    """Bits that say how a parameter takes its argument."""

    CONSTANT, ANY_VALUE, ANY_ALIGNMENT = 1, 2, 4
    LIMITED, SIGNED = 8, 16  # not all ints fit; negative ones do
    BITS = 256  # times by how many bits an int that fits is shifted right to leave nothing but its sign


class Tag:
    """First words of keys: kinds of arguments without an object whose address is that word."""

    OBJECT, INT32, INT64, UINT64, BOOL, FLOAT, NONE = 1, 2, 3, 4, 5, 6, 7
    TENSOR = 64  # and torch's number of the dtype
    LAST = 4095  # no object has so small an address


class Word:
    """Bits of second words of keys."""

    MULTIPLE, ONE, TENSOR, TUPLE, ARRAY = 1, 2, 1 << 16, 1 << 17, 1 << 18
    GPU = 1 << 20  # times the number of the GPU and 1


class Convert:
    """Conversions of values to slots of the machine code."""

    BITS, FLOAT_TO_FP32, INT_TO_FP32, INT_TO_FP64, TRUTH = 0, 1, 2, 3, 4


FREED = 1 << 40  # an address below this may be an offset into memory that is gone
HEAP_TYPE, TUPLE_SUBCLASS = 1 << 9, 1 << 26  # in the flags of a class
LAUNCH_CONTROL, LAUNCH_SLOTS = 16, 24  # behind the grid
OPEN = 1 << 32
WATCHER_ABSENT, WATCHER_AWAKE, WATCHER_ASLEEP = 0, 1, 2
SPINS = 1 << 32
"""Flag in a RECORD's threads: programs wait for one another and are handed out one by one, on all threads at once."""
DONE, NO_MEMORY, RAISED, STUCK = 1, 0, -1, -2
"""Results of `execute`. STUCK: instead of the grid the launch record has a program that waits, and then its site."""
