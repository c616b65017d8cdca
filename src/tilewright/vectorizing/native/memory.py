"""Memory of large results: reused after it is freed, and aligned to cache lines.

It is reused because the system takes longer to provide new pages than a cheap function to fill them. Whole cache lines
are stored faster than parts of two.

    large_array(rank, extents, dtype, fortran)      NumPy's empty, with our allocator in charge of this one array

At most MAX_KEPT bytes in MAX_BLOCKS blocks are kept. Blocks start at a page (large ones at a huge page, if the system
has some) with a line of 64 bytes that has their size. All of this runs with the GIL held or, in builds without
one, with a lock of its own.
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import Function, Module
from tilewright.runtime.drivers.cpu.native.structs import IS_FREE_THREADED
from tilewright.vectorizing.native.structs import BLOCK, MAX_BLOCKS, MAX_KEPT, TABLE

_HUGE_PAGE, _PAGE, _LINE = 1 << 21, 1 << 12, 64


def table_of(f: Function) -> Lanes:
    """The address of the TABLE."""
    return f.emit("ptr", "load ptr, ptr @runtime, align 8")


def outside(f: Function, name: str) -> Lanes:
    """The address of a function (or object) of Python, NumPy or the C library."""
    return f.get(TABLE, table_of(f), name)


def add_memory(module: Module) -> None:
    """Adds `large_array` and the functions of NumPy's handler to the module."""
    _fresh(module)
    _allocate(module)
    _free(module)
    _clear(module)
    _resize(module)
    _large_array(module)


def _fresh(module: Module) -> None:
    """A new block for so many bytes, its line included; null if there is no memory."""
    f = module.function("fresh_block", "ptr", {"size": "i64"})
    is_large = f["size"] > 2 * _HUGE_PAGE
    alignment = f.choose(is_large, _HUGE_PAGE, _PAGE)
    block = f.system.take_memory(f, alignment, f["size"])
    f.give_when(block.equals(0), 0)
    with f.when(is_large):
        f.system.want_huge_pages(f, block, f["size"])
    f.store(f["size"], block)
    f.give(block)


def _allocate(module: Module) -> None:
    f = module.function("allocate", "ptr", {"context": "ptr", "size": "i64"}, exported=True)
    table = table_of(f)
    kept, wanted = f.get(TABLE, table, "kept"), f["size"] + _LINE
    _lock(f)
    with f.counted(f.constant("i64", MAX_BLOCKS)) as index:
        block = f.at(kept, index * BLOCK.size)
        size = f.get(BLOCK, block, "size")
        with f.when((size >= wanted) & (size - size.shift_signed(2) <= wanted)):
            f.put(TABLE, table, "kept_bytes", f.get(TABLE, table, "kept_bytes") - size)
            f.put(BLOCK, block, "size", 0)
            found = f.get(BLOCK, block, "address")
            _unlock(f)
            f.give(f.at(found, _LINE))
    _unlock(f)
    made = f.call("fresh_block", "ptr", wanted)
    f.give_when(made.equals(0), 0)
    f.give(f.at(made, _LINE))


def _free(module: Module) -> None:
    """Keeps a block; those that were kept first have to go for it."""
    _evict(module)
    parameters = {"context": "ptr", "memory": "ptr", "size": "i64"}
    f = module.function("release", "void", parameters, exported=True)
    f.give_when(f["memory"].equals(0))
    table, start = table_of(f), f.at(f["memory"], -_LINE)
    size = f.load("i64", start)
    with f.when(size > MAX_KEPT):
        f.system.free_memory(f, start)
        f.give()
    _lock(f)
    block = f.variable("ptr", f.call("evict", "ptr"))
    with f.repeat() as loop:
        loop.leave_when(f.get(TABLE, table, "kept_bytes") + size <= MAX_KEPT)
        block.set(f.call("evict", "ptr"))
    f.put(BLOCK, block.value, "address", start)
    f.put(BLOCK, block.value, "size", size)
    f.put(TABLE, table, "kept_bytes", f.get(TABLE, table, "kept_bytes") + size)
    _unlock(f)
    f.give()


def _lock(f: Function) -> None:
    if IS_FREE_THREADED:
        with f.repeat() as spin:
            spin.leave_when(f.update("xchg", f.address(TABLE, table_of(f), "kept_lock"), 1, kind="i32").equals(0))
            f.system.give_way(f)


def _unlock(f: Function) -> None:
    if IS_FREE_THREADED:
        f.store(f.constant("i32", 0), f.address(TABLE, table_of(f), "kept_lock"), order="release")


def _evict(module: Module) -> None:
    """The next place for a block, which is empty then."""
    f = module.function("evict", "ptr", {})
    table = table_of(f)
    number = f.get(TABLE, table, "next_kept")
    f.put(TABLE, table, "next_kept", (number + 1) & (MAX_BLOCKS - 1))
    block = f.at(f.get(TABLE, table, "kept"), number * BLOCK.size)
    size = f.get(BLOCK, block, "size")
    with f.when(size.differs(0)):
        f.put(TABLE, table, "kept_bytes", f.get(TABLE, table, "kept_bytes") - size)
        f.put(BLOCK, block, "size", 0)
        f.system.free_memory(f, f.get(BLOCK, block, "address"))
    f.give(block)


def _clear(module: Module) -> None:
    parameters = {"context": "ptr", "count": "i64", "size": "i64"}
    f = module.function("allocate_cleared", "ptr", parameters, exported=True)
    size = f["count"] * f["size"]
    made = f.call("allocate", "ptr", f["context"], size)
    with f.when(made.differs(0)):
        f.call(outside(f, "memset"), "ptr", made, f.constant("i32", 0), size)
    f.give(made)


def _resize(module: Module) -> None:
    parameters = {"context": "ptr", "memory": "ptr", "size": "i64"}
    f = module.function("resize", "ptr", parameters, exported=True)
    made = f.call("allocate", "ptr", f["context"], f["size"])
    with f.when(made.differs(0)):
        before = f.load("i64", f.at(f["memory"], -_LINE)) - _LINE
        f.call(outside(f, "memcpy"), "ptr", made, f["memory"], f.choose(before < f["size"], before, f["size"]))
        f.call("release", "void", f["context"], f["memory"], before)
    f.give(made)


def _large_array(module: Module) -> None:
    """NumPy's `empty`; the array remembers who frees it."""
    parameters = {"rank": "i32", "extents": "ptr", "dtype": "ptr", "fortran": "i32"}
    f = module.function("large_array", "ptr", parameters)
    table = table_of(f)
    before = _with_handler(f, f.get(TABLE, table, "handler"))
    with f.when(before.equals(0)):
        f.call(outside(f, "Py_DecRef"), "void", f["dtype"])
        f.give(0)
    made = f.call(f.get(TABLE, table, "empty"), "ptr", *(f[name] for name in parameters))
    f.call(outside(f, "Py_DecRef"), "void", _with_handler(f, before))
    f.call(outside(f, "Py_DecRef"), "void", before)
    f.give(made)


def _with_handler(f: Function, handler: Lanes) -> Lanes:
    """Sets NumPy's handler; gives the one before."""
    return f.call(outside(f, "set_handler"), "ptr", handler)
