"""The meaning of the inline PTX that passes and the language emit.

cvt.rna.tf32.f32 $0, $1;      f32 with the ten bits of tf32's fraction, ties away from zero
mov.u64 $0, %globaltimer;     nanoseconds
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import numpy as np

from tilewright.dialects.tt_elementwise import CLOCK
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.core import Op
from tilewright.support.diagnostics import NotSupported, located

DROPPED = 13
"""Bits of the fraction that f32 has and tf32 has not."""


def to_tf32(values: Array) -> Array:
    """Each number rounded to tf32; infinities and NaNs stay."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(1 << (DROPPED - 1))) >> DROPPED << DROPPED).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


TEXTS: dict[str, Callable[..., Array]] = {
    "cvt.rna.tf32.f32 $0, $1;": to_tf32,
    CLOCK: lambda: np.int64(monotonic_ns()),
}


@executes("tt.elementwise_inline_asm")
def _inline_assembly(machine: Interpreter, op: Op, *operands: Any) -> Any:
    semantics = TEXTS.get(str(op.attributes.get("asm_string")))
    if semantics is None:
        raise located(NotSupported(op.name, "there is no assembler for it"), None)
    return semantics(*operands)
