"""A known launch on a GPU: the argument slots are passed to the driver's cuLaunchKernelEx directly.

launch record   grid, slots            the same as for machine code of the CPU
DEVICE          function, context, …   facts about the kernel from `drivers/cuda/launching.py`
→ launch_on_device                     context, stream, CUlaunchConfig; calls without the GIL; errors go to Python
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.arguments import call_python, release
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, I32, I64, Function, Ptr, native
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    DEVICE,
    LAUNCH_CONFIG,
    LAUNCH_SLOTS,
    MAP,
    RECORD,
    STREAM,
    TABLE,
)

_WORD = 8
_MAP_BYTES, _MAP_ALIGNMENT, _MAX_AXES, _PROMOTE_128_BYTES = 128, 64, 5, 2


@native("i32", exported=True)
def _own_stream(f: Function, ordinal: I32, place: Ptr) -> None:
    """The current stream of a GPU in this thread, with the signature of torch's function."""
    f.store(f.constant("i64", 0), place)
    key = f.get(TABLE, runtime(f), "stream_key").to("i32")
    stream = f.system.thread_word(f, key)
    with f.when(stream.differs(0)), f.when(f.get(STREAM, stream, "device").to("i32").equals(ordinal)):
        f.store(f.get(STREAM, stream, "handle"), place)
    f.give(0)


@native("i1", inlining=ALWAYS)
def _suits(f: Function, record: Ptr, total: I64) -> None:
    """Whether a specialisation can be launched without Python: not on a GPU where it needs other scratch memory."""
    device = f.get(RECORD, record, "device")
    f.give_when(device.equals(0), 1)
    f.give_when(f.get(DEVICE, device, "scratch").equals(0), 1)
    stream = f.variable("ptr", f.get(DEVICE, device, "stream"))
    get_stream = f.get(DEVICE, device, "get_stream")
    with f.when(get_stream.differs(0)):
        f.call(get_stream, "i32", f.get(DEVICE, device, "ordinal").to("i32"), stream.slot)
    is_stream = stream.value.equals(f.get(DEVICE, device, "scratch_stream"))
    f.give(is_stream & (total <= f.get(DEVICE, device, "scratch_programs")))


@native("ptr")
def _raised(f: Function, record: Ptr, code: I32) -> None:
    """Makes Python raise a CUresult, below 0 one of a tensor map; gives null."""
    number = f.call(system(f, "PyLong_FromLongLong"), "ptr", code.to("i64"))
    f.give_when(number.equals(0), 0)
    call_python(f, f.get(TABLE, runtime(f), "failed"), f.get(RECORD, record, "result"), number)
    release(f, number)
    f.give(0)


@native("i32")
def _configured(f: Function, device: Ptr, launch: Ptr, config: Ptr) -> None:
    """Fills a CUlaunchConfig; gives 0, or the error of asking for the stream."""
    clusters = f.get(DEVICE, device, "clusters").to("i32")
    f.put(LAUNCH_CONFIG, config, "x", f.load("i32", launch) * clusters)
    f.put(LAUNCH_CONFIG, config, "y", f.load("i32", launch, 4))
    f.put(LAUNCH_CONFIG, config, "z", f.load("i32", launch, 8))
    f.put(LAUNCH_CONFIG, config, "threads_x", f.get(DEVICE, device, "threads").to("i32"))
    f.put(LAUNCH_CONFIG, config, "threads_y", 1)
    f.put(LAUNCH_CONFIG, config, "threads_z", 1)
    f.put(LAUNCH_CONFIG, config, "shared", f.get(DEVICE, device, "shared").to("i32"))
    f.put(LAUNCH_CONFIG, config, "stream", f.get(DEVICE, device, "stream"))
    f.put(LAUNCH_CONFIG, config, "attributes", f.get(DEVICE, device, "attributes"))
    f.put(LAUNCH_CONFIG, config, "attribute_count", f.get(DEVICE, device, "attribute_count").to("i32"))
    get_stream = f.get(DEVICE, device, "get_stream")
    with f.when(get_stream.differs(0)):
        place = f.address(LAUNCH_CONFIG, config, "stream")
        f.give(f.call(get_stream, "i32", f.get(DEVICE, device, "ordinal").to("i32"), place))
    f.give(0)


@native("i32")
def _call_driver(f: Function, record: Ptr, config: Ptr, arguments: Ptr, values: Ptr, maps: Ptr) -> None:
    """Launches in the GPU's context, which is the thread's only meanwhile, unless it had none."""
    device = f.get(RECORD, record, "device")
    place = f.stack("ptr")
    code = f.variable("i32", f.call(f.get(DEVICE, device, "get_context"), "i32", place))
    with f.when(code.value.differs(0)):
        f.give(code.value)
    before, context = f.load("ptr", place), f.get(DEVICE, device, "context")
    set_context = f.get(DEVICE, device, "set_context")
    with f.when(before.differs(context)):
        code.set(f.call(set_context, "i32", context))
        with f.when(code.value.differs(0)):
            f.give(code.value)
    code.set(f.call("encode_maps", "i32", record, arguments, values, maps))
    with f.when(code.value.equals(0)):
        launch, function = (f.get(DEVICE, device, name) for name in ("launch", "function"))
        code.set(f.call(launch, "i32", config, function, arguments, f.constant("ptr", 0)))
    with f.when(before.differs(context)), f.when(before.differs(0)):
        f.call(set_context, "i32", before)
    f.give(code.value)


@native("i32")
def _encode_maps(f: Function, record: Ptr, arguments: Ptr, values: Ptr, maps: Ptr) -> None:
    """Makes the tensor maps of a launch and puts them among the arguments; gives 0, or less: the driver's error."""
    with f.counted(f.get(RECORD, record, "map_count")) as index:
        map, place = f.at(f.get(RECORD, record, "maps"), index * MAP.size), f.at(maps, index * _MAP_BYTES)
        encode = f.get(DEVICE, f.get(RECORD, record, "device"), "encode")
        code = f.call("encode_map", "i32", encode, map, values, place)
        with f.when(code.differs(0)):
            f.give(f.constant("i32", 0) - code)
        f.store(place, arguments, f.get(MAP, map, "slot").to("i64") * _WORD)
    f.give(0)


@native("i32")
def _encode_map(f: Function, encode: Ptr, map: Ptr, values: Ptr, place: Ptr) -> None:
    """Makes the driver encode one tensor map at `place`."""
    number = {name: f.get(MAP, map, name) for name in ("address", "shape", "strides", "rank", "size", "doubles")}
    wide = {name: value.to("i64") for name, value in number.items()}
    last = wide["rank"] - 1
    extents, steps, ones = (f.stack(f"[{_MAX_AXES} x i64]") for _ in range(3))
    with f.counted(wide["rank"]) as axis:
        extent = f.load("i64", values, (wide["shape"] + last - axis) * _WORD)
        f.store(extent << f.choose(axis.equals(0), wide["doubles"], 0), extents, axis * _WORD)
        f.store(f.constant("i32", 1), ones, axis * (_WORD // 2))
    with f.counted(last) as axis:
        step = f.load("i64", values, (wide["strides"] + last - 1 - axis) * _WORD)
        f.store(step * wide["size"], steps, axis * _WORD)
    address = f.load("i64", values, wide["address"] * _WORD)
    element, swizzle, fill = (f.get(MAP, map, name) for name in ("element", "swizzle", "fill"))
    none, promotion = f.constant("i32", 0), f.constant("i32", _PROMOTE_128_BYTES)
    tensor = (place, element, number["rank"], address, extents, steps, f.address(MAP, map, "box0"), ones)
    f.give(f.call(encode, "i32", *tensor, none, swizzle, promotion, fill))


@native("ptr")
def _launch_on_device(f: Function, record: Ptr, values: Ptr, launch: Ptr, total: I64) -> None:
    """Launches a known specialisation; gives its result, or null with an exception."""
    device = f.get(RECORD, record, "device")
    with f.when(total.differs(0)):
        config = f.stack(f"[{LAUNCH_CONFIG.size} x i8]")
        code = f.variable("i32", f.call("configured", "i32", device, launch, config))
        with f.when(code.value.equals(0)):
            scratch = f.get(DEVICE, device, "scratch")
            arguments = _arguments(f, launch, f.get(RECORD, record, "slot_count"), scratch)
            maps = f.stack_words(f.get(RECORD, record, "map_count") * (_MAP_BYTES // _WORD) + _MAP_ALIGNMENT // _WORD)
            first = ((maps.to("i64") + (_MAP_ALIGNMENT - 1)) & -_MAP_ALIGNMENT).to("ptr")
            thread = f.call(system(f, "PyEval_SaveThread"), "ptr")
            code.set(f.call("call_driver", "i32", record, config, arguments, values, first))
            f.call(system(f, "PyEval_RestoreThread"), "void", thread)
        with f.when(code.value.differs(0)):
            f.give(f.call("raised", "ptr", record, code.value))
    f.give(f.call("retain", "ptr", f.get(RECORD, record, "result")))


def _arguments(f: Function, launch: Lanes, count: Lanes, scratch: Lanes) -> Lanes:
    """The addresses of all arguments: slots, scratch memory of the grid, and null for that of a profiler."""
    pointers = (f.stack("i64"), f.stack("i64"))
    f.store(scratch, pointers[0])
    f.store(f.constant("i64", 0), pointers[1])
    places = f.stack_words(count + len(pointers))
    slots = f.at(launch, LAUNCH_SLOTS)
    with f.counted(count) as index:
        f.store(f.at(slots, index * _WORD), places, index * _WORD)
    for extra, pointer in enumerate(pointers):
        f.store(pointer, places, (count + extra) * _WORD)
    return places
