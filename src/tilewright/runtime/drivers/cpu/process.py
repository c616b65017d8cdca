"""The native runtime of this process: its blob, the table of addresses it works with, the type of `kernel[grid]`.

`native_runtime()` sets it up on first use (about 0.3 ms when the blob is cached; compiling it, once per machine, takes
some 100 ms). If it cannot work, it warns with the reason and returns None. Its memory is never freed: threads of the
pool may outlive Python.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np

from tilewright.compiler.cache_key import source_identity
from tilewright.runtime import lazy_imports
from tilewright.runtime.cache.claims import Claim
from tilewright.runtime.cache.folders import AnyPath, is_trusted, make_private, write_whole
from tilewright.runtime.drivers.cpu import python_memory
from tilewright.runtime.drivers.cpu.foreign_arrays import foreign_facts
from tilewright.runtime.drivers.cpu.loader import BASE_CPUS, Blob, NativeCodeError, host_machine, ranges
from tilewright.runtime.drivers.cpu.native.functions import (
    C_FUNCTIONS,
    FREE_THREADED_FUNCTIONS,
    NEW_FUNCTIONS,
    SYSTEM_FUNCTIONS,
)
from tilewright.runtime.drivers.cpu.native.structs import (
    BOUND,
    DESCRIPTOR_PARTS,
    IS_FREE_THREADED,
    JOB,
    LANE,
    POOL,
    RUNTIME,
    TABLE,
    WATCHER_ABSENT,
    poke,
)
from tilewright.runtime.parameters import launch_text
from tilewright.support import knobs
from tilewright.support.executable_memory import allocate, map_code, why_no_code
from tilewright.support.hashing import hash_of
from tilewright.support.locks import fork_safe_lock
from tilewright.support.system import SYSTEM, is_raised_by_handler

_GIL_MICROSECONDS, _HOT_MICROSECONDS, _COLD_MICROSECONDS, _SPIN_MICROSECONDS = 10, 5, 50, 30
_DIGEST_BYTES = 32

RUNTIME_IDENTITY = source_identity(f"{os.path.dirname(__file__)}/native")
"""The identity of the code that writes the runtime, and so of the layout of what Python shares with it."""


THREADING = "-free-threaded" if IS_FREE_THREADED else ""
"""The part of the names of blobs that names the object layout of Python."""


class NativeRuntime:
    """Everything native, once per process.

    Attributes:
        table, pool: addresses of the TABLE and the POOL.
        symbols: addresses of the exported functions.
    """

    def __init__(self, blob: Blob) -> None:
        self.table, self.pool = map(allocate, (TABLE.size, POOL.size + JOB.size))
        code = map_code(blob.image, pointers={blob.symbols[RUNTIME]: self.table})
        self.symbols = {name: code.address + offset for name, offset in blob.symbols.items()}
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        self.execute = self.function("execute", ctypes.c_int, pointer, pointer, word, word, word, pointer)
        self.classify = self.function("classify", ctypes.c_int, pointer, pointer, pointer, pointer)
        self.key_hash = self.function("key_hash", word, pointer, pointer, word)
        self.publish = self.function("publish", None, pointer, pointer)
        self._kept: list[object] = []
        self._fill_table()
        self._fill_pool()
        SYSTEM.when_forked(child=self._forget_threads)

    def function(self, name: str, result: Any, *parameters: Any) -> Callable[..., Any]:
        """An exported function, callable from Python with the GIL held."""
        return ctypes.PYFUNCTYPE(result, *parameters)(self.symbols[name])

    def set(self, field: str, value: int) -> None:
        """Sets a field of the TABLE."""
        TABLE.write(self.table, field, value)

    def set_object(self, field: str, value: object) -> None:
        """Sets a field of the TABLE to a Python object, which then lives as long as the process."""
        self._kept.append(value)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
        self.set(field, id(value))

    def set_threads(self, count: int) -> None:
        """The most threads that a launch may use, its own included."""
        POOL.write(self.pool, "threads", max(1, count))

    def threads(self) -> int:
        """The most threads that a launch may use, its own included."""
        return POOL.read(self.pool, "threads")

    def use_team(self, parallel: int, number: int, size: int) -> None:
        """Lets the threads of an OpenMP library run launches, instead of threads of the pool.

        Args: addresses of its functions GOMP_parallel, omp_get_thread_num and omp_get_max_threads.
        """
        self.set("team_number", number)
        self.set("team", parallel)
        self.set("team_size", size)

    def know_torch(self) -> None:
        """Lets native code read torch tensors, once the program has imported torch."""
        torch = sys.modules.get("torch")
        if torch is None or TABLE.read(self.table, "type_tensor") or not hasattr(torch, "Tensor"):
            return
        access = python_memory.tensor_access(torch)
        if access is not None:
            for field, value in access._asdict().items():
                self.set(field, value)
            self.set_object("type_parameter", torch.nn.Parameter)
            self.set_object("type_tensor", torch.Tensor)

    def know_descriptors(self, kind: type) -> None:
        """Lets native code read tensor descriptors of a class."""
        names = [sys.intern(name) for name in DESCRIPTOR_PARTS]
        places = (ctypes.c_uint64 * len(names))(*map(id, names))
        self._kept += [names, places]
        self.set("descriptor_names", ctypes.addressof(places))
        self.set_object("type_descriptor", kind)

    def set_thread_stream(self, stream: int) -> None:
        """Makes the STREAM at an address the one that native code finds in this thread."""
        SYSTEM.set_thread_word(TABLE.read(self.table, "stream_key"), stream)

    def _fill_table(self) -> None:
        addresses = {name: python_memory.function_address(ctypes.pythonapi, name) for name in C_FUNCTIONS}
        addresses |= system_functions(SYSTEM_FUNCTIONS[SYSTEM.name], NEW_FUNCTIONS.get(SYSTEM.name, ()))
        if IS_FREE_THREADED:
            python = ctypes.pythonapi
            addresses |= {name: python_memory.function_address(python, name) for name in FREE_THREADED_FUNCTIONS}
        words = {**addresses, **_FOR_EVER, "pool": self.pool, "main_thread": SYSTEM.main_thread()}
        poke(self.table, TABLE.pack(**words, stream_key=SYSTEM.new_thread_key()))
        if IS_FREE_THREADED:
            self.set("lane_key", SYSTEM.new_thread_key(self.symbols["list_lane"]))
        if python_memory.ndarray_is_as_expected():
            self.set_object("type_ndarray", np.ndarray)
            self.set("foreign", foreign_facts())
        self.set_object("bound_type", self._bound_type())

    def explain_faults(self) -> None:
        """Installs handlers that name a kernel that accesses what it must not, on stderr, before the process dies.

        Handlers that such faults already have go on working; see `native/faults.py`.
        """
        self.set("codes", ranges.address)
        SYSTEM.handle_faults(self.symbols["fault"], self._room_for_actions)

    def _room_for_actions(self, size: int) -> int:
        actions = allocate(size)
        self.set("actions", actions)
        return actions

    def _fill_pool(self) -> None:
        ticks = _ticks_per_microsecond(self.function("now", ctypes.c_int64))
        self.set("gil_ticks", int(_GIL_MICROSECONDS * ticks))
        self.set("hot_ticks", int(_HOT_MICROSECONDS * ticks))
        self.set("cold_ticks", int(_COLD_MICROSECONDS * ticks))
        self._ticks_per_second = 1e6 * ticks
        self._heed_knobs()
        knobs.observe(self._heed_knobs)
        POOL.write(self.pool, "spin_ticks", int(_SPIN_MICROSECONDS * ticks))
        self.set_threads(knobs.tilewright.num_threads or SYSTEM.usable_cpus())

    def _heed_knobs(self) -> None:
        """A knob may have changed."""
        self.set("spin_ticks", int(knobs.tilewright.spin_seconds * self._ticks_per_second))

    def _forget_threads(self) -> None:
        """Resets the state in the child of a fork: no threads, no held lock, and no running launch.

        An OpenMP library would wait for threads that are gone.
        """
        self.set("team", 0)
        for field in ("sleepers", "gate", "seats", "lock", "user", "workers"):
            POOL.write(self.pool, field, 0)
        self.set("watcher", WATCHER_ABSENT)
        self.set("lanes_lock", 0)
        lane = TABLE.read(self.table, "all_lanes")
        while lane:
            LANE.write(lane, "owner", 0)
            lane = LANE.read(lane, "link")

    def _bound_type(self) -> type:
        """The type of `kernel[grid]`: not made, subclassed or changed from Python."""
        return python_memory.callable_type(
            b"tilewright.BoundKernel",
            BOUND.size,
            BOUND.fields["vectorcall"].offset,
            destroy=self.symbols["destroy_bound"],
            traverse=self.symbols["traverse_bound"],
            text=_text_of_bound,
            signature=_signature_of_bound,
            flags=python_memory.IMMUTABLE | python_memory.NOT_INSTANTIATED,
        )

    def native_getitem(self, owner: type, function: str) -> object | None:
        """A `__getitem__` for the class `owner` that is the native function itself, or None if CPython changed."""
        definition = python_memory.subscript_definition()
        if definition is None:
            return None
        make = ctypes.pythonapi.PyDescr_NewWrapper
        make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
        return make(owner, definition, self.symbols[function])  # type: ignore[no-any-return]  # made through ctypes


def _bound_part(bound: object, field: str) -> Any:
    """The kernel or the grid of a `kernel[grid]`."""
    return ctypes.cast(BOUND.read(id(bound), field), ctypes.py_object).value


def _text_of_bound(bound: object) -> str:
    return launch_text(_bound_part(bound, "kernel").name, _bound_part(bound, "grid"))


def _signature_of_bound(bound: object) -> Any:
    return _bound_part(bound, "kernel").signature


def system_functions(names: Iterable[str], new_names: Iterable[str] = ()) -> dict[str, int]:
    """The addresses of functions of the system's libraries; 0 for new ones that this system lacks.

    Raises:
        ValueError: it lacks another one.
    """
    found = {name: SYSTEM.function(name) for name in names}
    for name in new_names:
        with suppress(ValueError):
            found[name] = SYSTEM.function(name)
    return found


_FOR_EVER = {f"type_{kind.__name__}": id(kind) for kind in (bool, dict, float, int, list, tuple)}
_FOR_EVER |= {"none": id(None), "true": id(True), "exception": id(Exception)}
"""Objects that Python never takes away."""


def native_runtime() -> NativeRuntime | None:
    """The runtime of this process, or None if native launching is not possible; a RuntimeWarning says why, once."""
    with _setting_up:  # of several threads that launch first, one makes it
        return _set_up()


_setting_up = fork_safe_lock()


@cache
def _set_up() -> NativeRuntime | None:
    machine = host_machine()
    reason = _why_not(machine)
    if not reason:
        try:
            runtime = NativeRuntime(runtime_blob(machine, os.path.expanduser(knobs.cache.dir)))
            runtime.explain_faults()
            return runtime
        except (NativeCodeError, OSError, ValueError) as error:
            if is_raised_by_handler(error):
                raise
            reason = str(error)
    warn_of_slow_launches(reason)
    return None


def _why_not(machine: str) -> str:
    """The reason why there can be no native runtime here; "" where there can."""
    if reason := why_no_code():
        return reason
    if machine not in BASE_CPUS:
        return f"it is made for {', '.join(BASE_CPUS)}, and this machine is {machine}"
    return python_memory.why_unsupported()


def warn_of_slow_launches(reason: str) -> None:
    """Warn the user with the reason for a missing native launcher: results are the same without it."""
    _Refusal.reason = reason
    warnings.warn(
        f"kernels are launched by Python, on one thread and some 30 µs slower, without the native launcher: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )


class _Refusal:
    """The reason why there is no native launcher; "" while nothing is known against it."""

    reason = ""


def why_slow_launches() -> str:
    """The reason why kernels are launched by Python; "" where they are not, or nothing was launched yet."""
    return _Refusal.reason


def runtime_blob(machine: str, folder: AnyPath) -> Blob:
    """The blob of the runtime, from the cache folder if it is there, whole and current; compiled and kept otherwise.

    Raises:
        NativeCodeError: it has to be compiled and cannot be.
    """
    name = f"runtime-{machine}{THREADING}-{RUNTIME_IDENTITY[:16]}.blob"
    return cached_blob(name, machine, folder, partial(lazy_imports.native_runtime_blob, machine, BASE_CPUS[machine]))


def cached_blob(name: str, machine: str, folder: AnyPath, make: Callable[[], Blob]) -> Blob:
    """The blob in the file `name` of the cache folder; made and kept there if it is not whole."""
    path = os.path.join(folder, name)
    blob = _read_blob(path, machine) if is_trusted(folder) else None
    if blob is not None:
        return blob
    with Claim(folder, name):  # another process may be making it
        blob = _read_blob(path, machine) if is_trusted(folder) else None
        if blob is None:
            blob = make()
            _write_blob(path, blob)
    return blob


def _read_blob(path: str, machine: str) -> Blob | None:
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    content = data[_DIGEST_BYTES:]
    if hash_of(content).digest() != data[:_DIGEST_BYTES]:
        return None
    header, _, image = content.partition(b"\0")
    entries = (entry.split("=") for entry in header.decode().split(";"))
    return Blob(machine, image, {name: int(offset) for name, offset in entries})


def _write_blob(path: str, blob: Blob) -> None:
    """Keeps the blob for other processes; a folder that cannot be written to is no reason to fail."""
    header = ";".join(f"{name}={offset}" for name, offset in blob.symbols.items())
    content = header.encode() + b"\0" + blob.image
    try:
        make_private(os.path.dirname(path))
        write_whole(path, hash_of(content).digest() + content)
    except OSError:
        return


def _ticks_per_microsecond(now: Callable[[], int]) -> float:
    """The speed of the native clock: the middle one of three measurements of 7 µs, since one may be interrupted."""
    clock, speeds = time.perf_counter_ns, []
    for _ in range(3):
        ticks, started = now(), clock()
        while clock() - started < 7_000:
            pass
        speeds.append((now() - ticks) * 1000 / (clock() - started))
    return max(1.0, sorted(speeds)[1])
