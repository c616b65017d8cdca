"""Memory: load, store, atomics and block pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language.callable import must_use_result
from tilewright.language.control import while_loop
from tilewright.language.core import accept_semantic
from tilewright.semantics import atomics, block_pointers, reductions
from tilewright.semantics import memory as memory_semantics
from tilewright.semantics.active import active, gpu_capability
from tilewright.semantics.arithmetic import and_, invert, or_, sub, to_tensor
from tilewright.semantics.casting import bitcast, cast
from tilewright.semantics.comparison import compare
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument, NotOnThisTarget
from tilewright.semantics.math import clock
from tilewright.semantics.types import uint64
from tilewright.support.deprecation import warn_deprecated
from tilewright.support.diagnostics import SemanticError


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Any:
    """The data at `pointer`.

    Args:
        pointer: a tile of pointers, a scalar pointer, or a block pointer.
        mask: where to load; masked-off elements touch no memory.
        other: the value of masked-off elements; without it they are undefined.
        boundary_check: for block pointers, the axes that may leave the tensor.
        padding_option: for block pointers, the value outside: `zero` or `nan`.
        cache_modifier, eviction_policy: hints.
        volatile: the value may change at any time.

    A cache modifier in fourth place, where Triton 2.0 had it, still works, with a warning.
    """
    if isinstance(unwrap(boundary_check), str):
        warn_deprecated("cache_modifier as fourth argument of tl.load", "cache_modifier=…")
        boundary_check, padding_option, cache_modifier, eviction_policy, volatile = (
            (),
            "",
            boundary_check,
            padding_option,
            cache_modifier or volatile,
        )
    return memory_semantics.load(
        pointer,
        mask,
        other,
        boundary_check=boundary_check,
        padding_option=padding_option,
        cache_modifier=cache_modifier,
        eviction_policy=eviction_policy,
        volatile=bool(volatile),
    )


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Write `value`, converted to the element type, to `pointer` where `mask` holds.

    Args:
        pointer: a tile of pointers, a scalar pointer, or a block pointer.
        value: a tile or number that broadcasts to the shape of `pointer`.
        mask: where to store; elsewhere no memory is touched.
        boundary_check: for block pointers, the axes that may leave the tensor.
        cache_modifier, eviction_policy: hints.
    """
    if isinstance(unwrap(boundary_check), str):
        warn_deprecated("cache_modifier as fourth argument of tl.store", "cache_modifier=…")
        boundary_check, cache_modifier, eviction_policy = (), boundary_check, cache_modifier or eviction_policy
    memory_semantics.store(
        pointer,
        value,
        mask,
        boundary_check=boundary_check,
        cache_modifier=cache_modifier,
        eviction_policy=eviction_policy,
    )


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> Any:
    """A pointer to a block of the tensor at `base`; `order` lists the axes from fastest to slowest in memory.

    Args:
        base: a scalar pointer.
        shape: the extents of the tensor, numbers or scalars.
        strides: the distances along its axes, in elements.
        offsets: where the block begins.
        block_shape: the extents of the block, powers of two.
        order: a permutation of the axes, constants.

    Returns:
        A block pointer, for `tl.load`, `tl.store` and `tl.advance`.
    """
    return block_pointers.make_block_ptr(base, shape, strides, offsets, block_shape, order)


@must_use_result("a block pointer does not change: give the result to a variable")
def advance(base: Any, offsets: Any) -> Any:
    """The block pointer `base` moved by `offsets`; the result must be used, `base` stays.

    Args:
        base: a block pointer.
        offsets: how far to go along each axis, in elements.
    """
    return block_pointers.advance(base, offsets)


def _combining(operation: str, doc: str) -> Callable[..., Any]:
    """The function that combines memory with a value and returns the old value."""

    def function(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
        return atomics.atomic_rmw(operation, pointer, val, mask, sem=sem, scope=scope)

    function.__name__ = function.__qualname__ = f"atomic_{operation}"
    function.__doc__ = f"""{doc}

    Args:
        pointer: where, a tile of pointers or a scalar.
        val: what to combine with memory.
        mask: which elements take part.
        sem: `acquire`, `release`, `acq_rel` (default) or `relaxed`.
        scope: `gpu` (default), `cta`, `sys` or `launch`: only programs of one launch use the memory while it runs.

    Returns:
        What was in memory before, in the shape of `pointer`.
    """
    return function


atomic_add = _combining("add", "Add `val` in memory; returns what was there before.")
atomic_max = _combining("max", "Keep the larger of memory and `val`.")
atomic_min = _combining("min", "Keep the smaller of memory and `val`.")
atomic_and = _combining("and", "`memory & val`.")
atomic_or = _combining("or", "`memory | val`.")
atomic_xor = _combining("xor", "`memory ^ val`.")
atomic_xchg = _combining("xchg", "Replace memory by `val`.")


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """Write `val` where memory equals `cmp`; returns the old value.

    Args:
        pointer: where, a tile of pointers or a scalar, to elements of 16, 32 or 64 bits.
        cmp: what must be there.
        val: what is written then.
        sem, scope: as for `atomic_add`.
    """
    return atomics.atomic_cas(pointer, cmp, val, sem=sem, scope=scope)


def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Read memory atomically; `sem` is `acquire` (default) or `relaxed`.

    Args:
        pointer: where, a tile of pointers or a scalar.
        mask: which elements take part.
        sem: the order.
        scope: as for `atomic_add`.
    """
    return atomics.atomic_load(pointer, mask, sem=sem, scope=scope)


def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> None:
    """Write memory atomically; `sem` is `release` (default) or `relaxed`.

    Args:
        pointer: where, a tile of pointers or a scalar.
        val: what is written.
        mask: which elements take part.
        sem: the order.
        scope: as for `atomic_add`.
    """
    atomics.atomic_store(pointer, val, mask, sem=sem, scope=scope)


def atomic_poll(pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None) -> Any:
    """Read memory until each element was `expected_value` once; programs of a grid may wait for those before them.

    Args:
        pointer: where, to integers of 16, 32 or 64 bits.
        expected_value: what to wait for.
        sem: `acquire` (default) or `relaxed`.
        scope: as for `atomic_add`.
        timeout_ns: how long to wait for all of them; memory is read at least once. Refused for GPUs.

    Returns: true for each element, false where the time was over before.

    Raises:
        SemanticError: an argument that does not fit; a timeout on a GPU; or the kernel runs in Python and waits without
            a timeout for what is not there, as nothing would change.
    """
    limit = _limit(unwrap(timeout_ns))
    start = None if limit is None else clock()

    def look(_: Any) -> Any:
        return atomics.polled(pointer, expected_value, sem=sem, scope=scope)

    def is_waiting(arrived: Any) -> Any:
        missing = invert(reductions.reduce((arrived,), None, and_)[0] if arrived.extents else arrived)
        if start is None:
            return missing
        return and_(missing, compare("<", bitcast(sub(clock(), start, sanitize_overflow=False), uint64), limit))

    arrived = look(None)
    if active().runs_now and start is None and is_waiting(arrived):
        raise SemanticError(
            NotOnThisTarget("atomic_poll", "programs run one after the other here", "compile the kernel")
        )
    return while_loop(is_waiting, lambda before: or_(before, look(before)), arrived)


def _limit(timeout: Any) -> Any:
    """A timeout as a uint64 scalar."""
    if timeout is None:
        return None
    if gpu_capability():
        reason = "timeout_ns: the threads of a program read the time one by one, and would not stop together"
        raise SemanticError(NotOnThisTarget("atomic_poll", reason, "wait without it"))
    tile = to_tensor(timeout)
    is_negative = isinstance(timeout, int) and timeout < 0
    if is_negative or tile.extents or not tile.type.scalar.integer:
        raise SemanticError(BadArgument("atomic_poll", "timeout_ns", timeout, "a number of nanoseconds, not negative"))
    return cast(tile, uint64)


accept_semantic(globals())
