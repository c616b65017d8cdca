"""Cluster launch control: a running program takes over the work of one that has not started.

clc.try_cancel(answer, bar)        # `bar` counts the 16 bytes of the answer
…
found = clc.load_result(answer)
found.is_canceled()                # whether there was one
found.program_id(0)                # which one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.dialects.tt_program import AXES
from tilewright.ir.attributes import Keyword
from tilewright.ir.types import IntType, Type
from tilewright.language.core import accept_semantic
from tilewright.semantics.active import active
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.named_ops import emit_named
from tilewright.semantics.tile import Held, build
from tilewright.semantics.types import int1, int32

__all__ = ["clc_result", "load_result", "try_cancel"]


class clc_result_type:  # noqa: N801 - Triton's name
    """The type of an answer."""

    held_by: ClassVar[Callable[..., Any]]
    ir: Type = IntType(128)

    def mangle(self) -> str:
        """The part of a mangled function name for this type."""
        return "CLC"

    def __str__(self) -> str:
        return "clc_result"


class clc_result(Held):  # noqa: N801 - Triton's name
    """An answer, in registers."""

    __slots__ = ()

    def is_canceled(self, _semantic: Any = None) -> Any:
        """Whether a program was found whose work is to be taken over."""
        return build("ttng.clc_is_canceled", [self.handle], int1)

    def program_id(self, dim: Any, _semantic: Any = None) -> Any:
        """Its number along grid axis 0, 1 or 2."""
        return build("ttng.clc_get_program_id", [self.handle], int32, {"dim": Keyword(AXES[unwrap(dim)])})


clc_result_type.held_by = clc_result
ANSWER = clc_result_type()


def try_cancel(result: Any, barrier: Any) -> None:
    """Request the work of a program that has not started.

    Args:
        result: a buffer of two int64 for the answer, at a multiple of 16 bytes.
        barrier: counts its 16 bytes.
    """
    emit_named("ttng.clc_try_cancel", {"result": result, "mbarrier": barrier})


def load_result(src: Any) -> Any:
    """The answer that is in a buffer."""
    return clc_result(active().emit("ttng.clc_load_result", [src.handle], (ANSWER.ir,))[0], ANSWER)


accept_semantic(globals())
