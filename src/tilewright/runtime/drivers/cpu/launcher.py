"""Launching kernels: `kernel[grid](*args, **keywords)` without Python on the way once a specialisation is known.

What `runtime/jit.py` needs, in the order of use:

    native = NativeKernel(                                                          # once per kernel, on its first call
        [Parameter("x"), Parameter("n"), Parameter("BLOCK", is_constant=True)], slow_path)

    native[grid](x, 1000, BLOCK=1024)                       # finds nothing: calls
    slow_path(grid, args, kwargs, miss)                     # compiles, then
        native.install(miss, Specialization(entry, result=compiled, slots=(Slot(0, "*fp32"), Slot(1, "i32"))))
        run_grid(entry, launch_record((1,), [x_address, 1000], ["*fp32", "i32"]), programs=1, scratch_bytes=0)
        return compiled

    native[grid](y, 2000, BLOCK=1024)                       # 0.1 µs; returns `compiled`

    accelerate(JITFunction, "_native")                      # at import: has JITFunction.__getitem__ made native

`miss` represents the arguments as the native side saw them: their *key*, which has everything that a signature may
depend on (`native/arguments.py` has the table). A later call with an equal key runs the installed specialisation.
`miss` is None when some argument is of a kind that the native side leaves to Python (subclasses, lists and mutable
objects as constants, more than 64 elements of tuples): such calls always go to the slow path. NumPy's numbers and
foreign arrays become Python's numbers and NumPy's arrays, and are tried again (`in_plain_forms`).

If there is no native runtime (other systems; no LLVM and no cached blob), everything goes through the slow path, and a
RuntimeWarning gives the reason.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from tilewright.runtime.drivers.cpu import python_memory
from tilewright.runtime.drivers.cpu.guards import NO_GUARDS, Guards
from tilewright.runtime.drivers.cpu.loader import run_alone
from tilewright.runtime.drivers.cpu.native.structs import (
    LAYOUTS,
    NO_MEMORY,
    RECORD,
    SPARE,
    SPINS,
    STATE,
    STUCK,
    Memory,
    write_word,
)
from tilewright.runtime.drivers.cpu.process import NativeRuntime, native_runtime, warn_of_slow_launches
from tilewright.runtime.drivers.cpu.records import (
    PROGRAM,
    MapSlot,
    Parameter,
    RecordIndex,
    RecordLayout,
    Slot,
    StuckPrograms,
    fills,
    forms,
    in_plain_forms,
    layout_for,
    map_records,
    number_forms,
)
from tilewright.runtime.tracebacks import shortened
from tilewright.support.diagnostics import CompilationError
from tilewright.support.locks import fork_safe_lock
from tilewright.support.named_tuple import NamedTuple


class Specialization(NamedTuple):
    """Machine code for one key.

    `entry`: address of `i64 entry(ptr launch, i64 begin, i64 end, ptr scratch)`; `result`: what the launch returns;
    `slots`: in the order of the machine code's arguments; `num_threads`: max threads of a launch, 0: all; `waits`:
    programs wait for one another.
    `device`: the address of a DEVICE, for a launch on a GPU, where `entry` does not matter; `maps`: its
    arguments that are tensor maps; `keeps`: what must live on; `listener`: the address of a CONTROL for what the code
    reports, 0 where it reports nothing.
    """

    entry: int
    result: object
    slots: tuple[Slot, ...]
    scratch_bytes: int = 0
    num_threads: int = 0
    waits: bool = False
    device: int = 0
    maps: tuple[MapSlot, ...] = ()
    keeps: tuple[object, ...] = ()
    listener: int = 0


class Miss(NamedTuple):
    """The key of a call that found no specialisation, and the objects whose addresses are part of it."""

    key: bytes
    keeps: tuple[object, ...]
    layout: int


SlowPath = Callable[[Any, tuple[Any, ...], dict[str, Any], Miss | None], object]
"""The launch by Python: (grid, args, kwargs, miss) → what the launch returns."""

_MAX_LAYOUTS, _MAX_RECORDS, _MAX_PROGRAMS = 64, 4096, 2**62


class _Shared:
    """One lock for all changes that kernels make to what native code reads, which are rare; and what all know."""

    lock = fork_safe_lock()
    watched = False
    runtime: NativeRuntime | None = None


class NativeKernel:
    """One kernel as the native side knows it. `native[grid](…)` launches; nothing is loaded before that happens.

    Args:
        parameters: in order.
        slow_path: called with (grid, args, kwargs, miss) for every call that has no specialisation; what it returns or
            raises is what the caller of the kernel gets. A grid function that was already called comes as its result.
        hooks: while this list has entries, all calls go to the slow path, which has to call them.
        lives_on: it and what its launches return may live as long as the process, if that lets free threads scale.
    """

    __slots__ = (
        "__weakref__",
        "_guards",
        "_hooks",
        "_index",
        "_installed",
        "_keeps",
        "_layouts",
        "_lives_on",
        "_parameters",
        "_records",
        "_retired",
        "_slow_path",
        "_state",
        "_state_memory",
    )

    def __init__(
        self,
        parameters: Sequence[Parameter],
        slow_path: SlowPath,
        hooks: list[Any] | None = None,
        *,
        lives_on: bool = False,
    ) -> None:
        self._lives_on = lives_on
        self._hooks = hooks
        self._guards = NO_GUARDS
        self._parameters = tuple(parameters)
        self._slow_path = slow_path
        self._state_memory = Memory(b"", STATE.size)
        self._state = self._state_memory.address
        if hooks is not None:
            STATE.write(self._state, "hooks", id(hooks))
        self._layouts: list[RecordLayout] = []
        self._records: dict[tuple[int, bytes], Memory] = {}
        self._installed: dict[tuple[int, bytes], object] = {}
        self._index, layouts = RecordIndex(), Memory(LAYOUTS.pack(count=0))
        self._retired: list[object] = [layouts]
        STATE.write(self._state, "records", self._index.address)
        STATE.write(self._state, "layouts", layouts.address)
        STATE.write(self._state, "guards", NO_GUARDS.memory.address)
        self._keeps: list[object] = []

    @property
    def name(self) -> str:
        """The name of the kernel, where its slow path is a method of one."""
        return str(getattr(self._owner(), "__name__", "kernel"))

    @property
    def signature(self) -> Any:
        """The signature of the kernel, or None."""
        return getattr(self._owner(), "__signature__", None)

    def _owner(self) -> object:
        return getattr(self._slow_path, "__self__", None)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """None: another process has to make its own."""
        return type(None), ()

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        """The launch over `grid`: a tuple or list of one to three extents, or a function of the arguments by name."""
        if _ready() is not None:  # from now on the subscript is native
            return self[grid]
        return partial(self._launch_slowly, grid)

    def install(self, miss: Miss | None, specialization: Specialization) -> None:
        """Lets later calls with the same key run the specialisation without Python.

        Args: miss: as the slow path got it; None is ignored. specialization: what to run.
        """
        runtime = _ready()
        if runtime is None or miss is None or len(self._records) >= _MAX_RECORDS:
            return
        if all(layout.address != miss.layout for layout in self._layouts):
            return  # of another kernel
        if self._installed.get((miss.layout, miss.key), miss) is specialization.result:
            return
        slots, maps = fills(specialization.slots, miss.key), map_records(specialization.maps, miss.key)
        if slots is not None and maps is not None:
            words = Memory(miss.key)
            record = _record(runtime, miss, specialization, words, slots, maps)
            with _Shared.lock:
                self._keeps += [miss.keeps, words, (slots, maps), specialization.result]
                self._keeps += specialization.keeps
                if self._lives_on:
                    python_memory.live_for_ever(self)
                    python_memory.live_for_ever(specialization.result)
                self._enter((miss.layout, miss.key), record)
                self._installed[miss.layout, miss.key] = specialization.result

    def guard(self, guards: Guards | None) -> bool:
        """Makes launches take the slow path once an outer value is another object; returns whether they may be native.

        Args: guards: from `guards_for`; with None nothing may be installed, and what is, is forgotten.
        """
        if guards is None:
            if self._records:
                self.clear()
            return False
        if not guards.is_same(self._guards):
            with _Shared.lock:
                self._retired.append(self._guards)
                self._guards = guards
                self._publish("guards", guards.memory.address)
        return True

    def clear(self) -> None:
        """Forgets all specialisations: the next calls go to the slow path. Launches under way are not disturbed."""
        with _Shared.lock:
            self._retired += self._records.values()
            self._records, self._installed = {}, {}
            self._index_anew()

    def _enter(self, key: tuple[int, bytes], record: Memory) -> None:
        is_new = key not in self._records
        self._retired.append(self._records.get(key))
        self._records[key] = record
        if is_new and 2 * len(self._records) <= self._index.size:
            publish(self._index.place_for(record), record.address)
        else:
            self._index_anew()

    def _index_anew(self) -> None:
        """Makes an index of all records and lets native code see it, in one step."""
        index = RecordIndex(max(8, 1 << (4 * len(self._records) - 1).bit_length()))
        for memory in self._records.values():
            index.enter(memory)
        self._retired.append(self._index)
        self._index = index
        self._publish("records", index.address)

    def _publish(self, field: str, address: int) -> None:
        publish(self._state + STATE.fields[field].offset, address)

    def _launch_slowly(self, grid: Any, /, *args: Any, **kwargs: Any) -> object:
        try:
            return self._slow_path(grid, args, kwargs, None)
        except CompilationError as error:
            raise shortened(error) from error.__cause__

    def _missed(self, grid: Any, values: tuple[Any, ...], names: tuple[str, ...] | None) -> object:
        """A call that native code could not finish, with all arguments in one tuple and the names of the last ones."""
        positional = len(values) - len(names or ())
        layout = self._layout(positional, names)
        if layout is not None and not _Shared.watched and not self._hooks:
            plain = in_plain_forms(grid, values, layout, len(self._parameters))
            if plain is not None:
                grid, values = plain
                return self[grid](*values[:positional], **dict(zip(names or (), values[positional:], strict=True)))
        kwargs = dict(zip(names or (), values[positional:], strict=True))
        try:
            return self._slow_path(grid, values[:positional], kwargs, self._miss(values, layout))
        except CompilationError as error:
            raise shortened(error) from error.__cause__

    def _miss(self, values: tuple[Any, ...], layout: RecordLayout | None) -> Miss | None:
        runtime = _ready()
        if runtime is None or layout is None:
            return None
        runtime.know_torch()
        objects = Memory(struct.pack(f"<{len(values)}Q", *map(id, values)))
        room = len(layout.indices) + SPARE
        words, numbers = Memory(b"", 16 * room), Memory(b"", 8 * room)
        entries = runtime.classify(layout.address, objects.address, words.address, numbers.address)
        kept = layout.kept(values) if entries else None
        return None if kept is None else Miss(bytes(words.bytes[: 16 * entries]), kept, layout.address)

    def _layout(self, positional: int, names: tuple[str, ...] | None) -> RecordLayout | None:
        found = self._known_layout(positional, names)
        if found is not None or len(self._layouts) >= _MAX_LAYOUTS:
            return found
        made = layout_for(self._parameters, positional, names)
        with _Shared.lock:  # another thread may have been here
            found = self._known_layout(positional, names) or made
            if made is not None and found is made:
                self._add_layout(made)
        return found

    def _known_layout(self, positional: int, names: tuple[str, ...] | None) -> RecordLayout | None:
        known = (layout for layout in self._layouts if layout.positional == positional and layout.names == names)
        return next(known, None)

    def _add_layout(self, layout: RecordLayout) -> None:
        self._layouts = [*self._layouts, layout]
        addresses = struct.pack(f"<{len(self._layouts)}Q", *(known.address for known in self._layouts))
        memory = Memory(LAYOUTS.pack(count=len(self._layouts)) + addresses)
        self._retired.append(memory)
        self._publish("layouts", memory.address)


def publish(place: int, address: int) -> None:
    """Writes the address of something new where native code looks for it: who sees it sees all that it refers to."""
    write = write_word if _Shared.runtime is None else _Shared.runtime.publish  # without one, no native code runs
    write(place, address)


def _record(
    runtime: NativeRuntime, miss: Miss, specialization: Specialization, words: Memory, slots: Memory, maps: Memory
) -> Memory:
    """A RECORD in memory."""
    count = len(miss.key) // 8
    record = RECORD.pack(
        hash=runtime.key_hash(miss.layout, words.address, count),
        layout=miss.layout,
        words=words.address,
        word_count=count,
        entry=specialization.entry,
        result=id(specialization.result),
        scratch=specialization.scratch_bytes,
        threads=specialization.num_threads | SPINS * specialization.waits,
        cost=-1,
        slots=slots.address,
        slot_count=len(specialization.slots),
        device=specialization.device,
        maps=maps.address,
        map_count=len(specialization.maps),
        listener=specialization.listener,
    )
    return Memory(record)


_news: dict[str, Callable[[NativeRuntime], None]] = {}
"""Facts, by name, that the native runtime gets now or, with the others, once it is set up."""


def _tell(name: str, tell: Callable[[NativeRuntime], None]) -> None:
    _news[name] = tell
    if _Shared.runtime is not None:
        tell(_Shared.runtime)


def watch(watched: bool) -> None:
    """Makes all launches of all kernels, also of those bound long ago, take their slow path; or ends that."""
    _Shared.watched = watched
    _tell("watched", lambda runtime: runtime.set("watched", int(_Shared.watched)))


def accelerate(owner: type, slot: str) -> None:
    """Replaces `owner.__getitem__` by native code as soon as the native runtime is there.

    Args:
        owner: the one class, with subclasses, of what keeps a NativeKernel in `slot`; else its own `__getitem__` acts.
        slot: an entry of the `__slots__` of `owner` itself; for another attribute nothing changes.
    """
    _tell("owner", partial(_accelerate, owner=owner, slot=slot))


def _accelerate(runtime: NativeRuntime, owner: type, slot: str) -> None:
    offset = python_memory.slot_offset(owner, slot)
    replacement = runtime.native_getitem(owner, "subscript_owner")
    if offset is not None and replacement is not None:
        runtime.set("owner_slot", offset)
        runtime.set_object("owner_fallback", vars(owner)["__getitem__"])
        type.__setattr__(owner, "__getitem__", replacement)


def know_arrays(kind: type, address: str, dtype: str, place: str) -> None:
    """Makes native code read arrays on GPUs of this class: names of the `__slots__` with address, dtype and place.

    The place is an int, Word.ARRAY and Word.GPU times the number of the GPU and 1.
    """
    _tell("arrays", partial(_know_arrays, kind=kind, slots=(address, dtype, place)))


def _know_arrays(runtime: NativeRuntime, kind: type, slots: Sequence[str]) -> None:
    offsets = [python_memory.slot_offset(kind, slot) for slot in slots]
    if None in offsets:
        return
    for field, offset in zip(("array_address", "array_dtype", "array_place"), offsets, strict=True):
        runtime.set(field, offset or 0)
    runtime.set_object("type_device_array", kind)


def know_descriptors(kind: type) -> None:
    """Makes native code read tensor descriptors of this class, which has the attributes DESCRIPTOR_PARTS."""
    _tell("descriptors", lambda runtime: runtime.know_descriptors(kind))


def own_stream_function() -> int | None:
    """The address of the native function that gives the stream that `set_thread_stream` set."""
    runtime = _ready()
    return None if runtime is None else runtime.symbols["own_stream"]


def set_thread_stream(stream: int) -> None:
    """Makes the STREAM at an address this thread's; it must live until the next call."""
    runtime = _ready()
    if runtime is not None:
        runtime.set_thread_stream(stream)


def is_native() -> bool:
    """Whether launches run without Python here."""
    return _ready() is not None


def run_grid(
    entry: int, record: bytes, programs: int, *, scratch_bytes: int = 0, num_threads: int = 0, waits: bool = False
) -> None:
    """Runs a kernel from Python, on the pool if there is more than one program.

    Args:
        entry: address of the machine code; record: from `launch_record`; programs: how many to run.
        scratch_bytes: memory that each thread needs; num_threads: max threads of the launch, 0: all; waits: programs
            wait for one another.
    Errors: MemoryError for the scratch memory, OverflowError for more than 2**62 programs, StuckPrograms; what a signal
        handler raises meanwhile.
    """
    if programs > _MAX_PROGRAMS:
        raise OverflowError(f"a grid of {programs} programs")
    launch = Memory(record)
    runtime = _ready()
    if runtime is None:
        run_alone(entry, launch, programs, scratch_bytes)
        return
    cost, threads = ctypes.c_int64(-1), num_threads | SPINS * waits
    status = runtime.execute(entry, launch.address, programs, scratch_bytes, threads, ctypes.byref(cost))
    if status == NO_MEMORY:
        raise MemoryError(f"no memory for {scratch_bytes} bytes of scratch per thread")
    if status == STUCK:
        raise StuckPrograms(bytes(launch.bytes))


def set_num_threads(count: int) -> None:
    """The most threads that a launch may use, its own included; 1 turns the pool off."""
    runtime = _ready()
    if runtime is not None:
        runtime.set_threads(count)


def _ready() -> NativeRuntime | None:
    """The native runtime, with `NativeKernel` made native."""
    with _Shared.lock:
        return _set_up()


@cache
def _set_up() -> NativeRuntime | None:
    runtime = native_runtime()
    if runtime is None:
        return None
    slot = python_memory.slot_offset(NativeKernel, "_state")
    subscript = runtime.native_getitem(NativeKernel, "subscript_kernel")
    if slot is None or subscript is None:
        warn_of_slow_launches("this CPython keeps slots or subscripts of classes elsewhere than is known")
        return None
    runtime.set("state_slot", slot)
    runtime.set_object("type_kernel", NativeKernel)
    runtime.set_object("missed", NativeKernel._missed)
    runtime.set_object("forms", forms)
    runtime.set_object("number_forms", number_forms)
    runtime.set_object("failed", _failed)
    runtime.set_object("stuck", _stuck)
    type.__setattr__(NativeKernel, "__getitem__", subscript)
    _Shared.runtime = runtime
    for tell in tuple(_news.values()):
        tell(runtime)
    return runtime


def _failed(result: Any, code: int) -> None:
    """A driver refused a native launch whose result would have been `result`."""
    result.launch_failed(code)


def _stuck(result: Any, record: int) -> None:
    """A native launch whose result would have been `result` ended because its programs wait for others."""
    result.launch_is_stuck(StuckPrograms(ctypes.string_at(record, PROGRAM.size)))
