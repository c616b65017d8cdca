"""A known launch on a GPU: the arguments' slots go to the driver's cuLaunchKernelEx as they are.

launch record   grid, slots            the same as machine code for the CPU gets
DEVICE          function, context, …   what `drivers/cuda/launching.py` found out about the kernel
→ launch_on_device                     context, stream, CUlaunchConfig; the call, without the GIL; its error to Python
"""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native.code import Function, Module, Value
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    DEVICE,
    LAUNCH_CONFIG,
    LAUNCH_SLOTS,
    RECORD,
    STREAM,
    TABLE,
)

_SCRATCH_POINTERS = 2  # the last arguments of every kernel, null here
_WORD = 8


def add_device(module: Module) -> None:
    """Adds `own_stream` and `launch_on_device` to the module."""
    _own_stream(module)
    _raised(module)
    _configured(module)
    _call_driver(module)
    _launch_on_device(module)


def _own_stream(module: Module) -> None:
    """The current stream of a GPU in this thread, with the signature of torch's function."""
    f = module.function("own_stream", "i32", {"ordinal": "i32", "place": "ptr"}, exported=True)
    f.store(f.constant("i64", 0), f["place"])
    key = f.get(TABLE, runtime(f), "stream_key").to("i32")
    stream = f.call(system(f, "pthread_getspecific"), "ptr", key)
    with f.when(stream.differs(0)), f.when(f.get(STREAM, stream, "device").to("i32").equals(f["ordinal"])):
        f.store(f.get(STREAM, stream, "handle"), f["place"])
    f.give(0)


def _raised(module: Module) -> None:
    """Has Python raise a CUresult; gives null."""
    f = module.function("raised", "ptr", {"record": "ptr", "code": "i32"})
    table = runtime(f)
    number = f.call(system(f, "PyLong_FromLong"), "ptr", f["code"].to("i64"))
    with f.when(number.equals(0)):
        f.give(0)
    arguments = f.stack("[2 x ptr]")
    f.store(f.get(RECORD, f["record"], "result"), arguments)
    f.store(number, arguments, _WORD)
    failed, count = f.get(TABLE, table, "failed"), f.constant("i64", 2)
    f.call(system(f, "PyObject_Vectorcall"), "ptr", failed, arguments, count, f.constant("ptr", 0))
    f.call(system(f, "Py_DecRef"), "void", number)
    f.give(0)


def _configured(module: Module) -> None:
    """Fills a CUlaunchConfig; gives 0, or the error of asking for the stream."""
    f = module.function("configured", "i32", {"device": "ptr", "launch": "ptr", "config": "ptr"})
    device, launch, config = f["device"], f["launch"], f["config"]
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


def _call_driver(module: Module) -> None:
    """Launches in the GPU's context, which is the thread's only meanwhile, unless it had none."""
    f = module.function("call_driver", "i32", {"device": "ptr", "config": "ptr", "arguments": "ptr"})
    device = f["device"]
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
    function = f.get(DEVICE, device, "function")
    code.set(
        f.call(f.get(DEVICE, device, "launch"), "i32", f["config"], function, f["arguments"], f.constant("ptr", 0))
    )
    with f.when(before.differs(context)), f.when(before.differs(0)):
        f.call(set_context, "i32", before)
    f.give(code.value)


def _launch_on_device(module: Module) -> None:
    """Launches a known specialisation; gives its result, or null with an exception."""
    f = module.function("launch_on_device", "ptr", {"record": "ptr", "device": "ptr", "launch": "ptr", "total": "i64"})
    record, launch = f["record"], f["launch"]
    with f.when(f["total"].differs(0)):
        config = f.stack(f"[{LAUNCH_CONFIG.size} x i8]")
        code = f.variable("i32", f.call("configured", "i32", f["device"], launch, config))
        with f.when(code.value.equals(0)):
            arguments = _arguments(f, launch, f.get(RECORD, record, "slot_count"))
            thread = f.call(system(f, "PyEval_SaveThread"), "ptr")
            code.set(f.call("call_driver", "i32", f["device"], config, arguments))
            f.call(system(f, "PyEval_RestoreThread"), "void", thread)
        with f.when(code.value.differs(0)):
            f.give(f.call("raised", "ptr", record, code.value))
    f.give(f.call("retain", "ptr", f.get(RECORD, record, "result")))


def _arguments(f: Function, launch: Value, count: Value) -> Value:
    """The addresses of all arguments: slots, then null for scratch memory."""
    nothing = f.stack("i64")
    f.store(f.constant("i64", 0), nothing)
    places = f.stack_words(count + _SCRATCH_POINTERS)
    slots = f.at(launch, LAUNCH_SLOTS)
    with f.counted(count) as index:
        f.store(f.at(slots, index * _WORD), places, index * _WORD)
    for extra in range(_SCRATCH_POINTERS):
        f.store(nothing, places, (count + extra) * _WORD)
    return places
