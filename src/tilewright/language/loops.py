"""Loop ranges and conditions with hints: `for i in tl.range(0, n, num_stages=3)`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from tilewright.language.values import origin
from tilewright.semantics.active import active
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.errors import BadArgument, MustBeConstant, NoSingleTruth
from tilewright.semantics.promotion import dtype_of_number, promote
from tilewright.semantics.shapes import constant_int
from tilewright.semantics.tile import Tile, constant
from tilewright.semantics.types import dtype, int32
from tilewright.support.diagnostics import SemanticError


class range:  # noqa: N801 - Triton's name
    """A run-time loop `start … end` by `step`, with hints for the compiler.

    Args:
        arg1, arg2: the bounds, as for Python's `range`: the end alone, or start and end.

    Attributes:
        start, end, step: run-time or compile-time integers.
        num_stages, loop_unroll_factor, disallow_acc_multi_buffer, flatten, warp_specialize, disable_licm: hints.
    """

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: bool = False,
        flatten: bool = False,
        warp_specialize: bool = False,
        disable_licm: bool = False,
    ) -> None:
        bounds: tuple[Any, Any] = (0, arg1) if unwrap(arg2) is None else (arg1, arg2)
        self.start, self.end = bounds
        self.step: Any = 1 if unwrap(step) is None else step
        self.num_stages = _hint("num_stages", num_stages)
        self.loop_unroll_factor = _hint("loop_unroll_factor", loop_unroll_factor)
        self.disallow_acc_multi_buffer = bool(disallow_acc_multi_buffer)
        self.flatten = bool(flatten)
        self.warp_specialize = bool(warp_specialize)
        self.disable_licm = bool(disable_licm)

    def __repr__(self) -> str:
        return f"range({self.start}, {self.end}, {self.step})"

    def __iter__(self) -> Iterator[Tile]:
        """The counters when all bounds are known now (eager mode): tensors, as in a compiled loop."""
        limits = [unwrap(limit) for limit in (self.start, self.end, self.step)]
        kinds = [limit.type.scalar if isinstance(limit, Tile) else dtype_of_number(limit) for limit in limits]
        kind = promote(promote(kinds[0], kinds[1]), kinds[2])
        kind = kind if kind.integer else int32
        start, end, step = (_known(limit, kind) for limit in limits)
        if isinstance(limits[2], Tile) and step <= 0:  # compiled, such a loop has no iteration: it counts up
            return
        for counter in builtins.range(start, end, step):
            yield constant(counter % (1 << kind.primitive_bitwidth) if kind.is_int_unsigned() else counter, kind)


def _hint(name: str, value: Any) -> Any:
    known = unwrap(value)
    if isinstance(known, Tile):
        raise SemanticError(MustBeConstant(name, str(known.type)))
    if known is not None and not isinstance(known, int):
        raise SemanticError(BadArgument("range", name, known, "an integer"))
    return known


class static_range:  # noqa: N801 - Triton's name
    """A loop that is unrolled at compile time.

    Args:
        arg1, arg2: the bounds, constants: the end alone, or start and end.
        step: a constant, 1 by default.
    """

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        first, last = (0, arg1) if unwrap(arg2) is None else (arg1, arg2)
        self.start, self.end = constant_int(first, "start"), constant_int(last, "end")
        self.step = 1 if unwrap(step) is None else constant_int(step, "step")

    def __repr__(self) -> str:
        return f"static_range({self.start}, {self.end}, {self.step})"

    def __iter__(self) -> Iterator[int]:
        return iter(builtins.range(self.start, self.end, self.step))


class condition:  # noqa: N801 - Triton's name
    """`while tl.condition(c, disable_licm=True)`: a loop condition with a hint.

    Args:
        arg1: the condition, a scalar.
        disable_licm: a hint: nothing moves out of the loop.
    """

    def __init__(self, arg1: Any, disable_licm: bool = False) -> None:
        self.condition = arg1
        self.disable_licm = bool(disable_licm)

    def __bool__(self) -> bool:
        return bool(self.condition)


class async_task:  # noqa: N801 - Triton's name
    """`with tl.async_task([0]): …` of Triton 3.5: which warps run the block; here all do, one block after the other.

    Args:
        task_ids: numbers of warp groups; they have no meaning here.
    """

    def __init__(self, task_ids: Any) -> None:
        self.task_ids = unwrap_all(task_ids)

    def __enter__(self) -> None:
        """Nothing begins."""

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        """Nothing ends."""


def _known(bound: Any, kind: dtype) -> int:
    if not isinstance(bound, Tile):
        return int(bound)
    value = active().concrete(cast(bound, kind).handle)
    if value is None:
        raise SemanticError(NoSingleTruth(bound.type, origin(bound.handle)))
    return int(value)
