"""A kernel run in every way there is: native code, the eager interpreter, TTIR interpreted, simulated GPUs.

out = answer("80", kernel, {"x": x, "out": np.empty_like(x)}, F=libdevice.clz, N=64)["out"]
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tw
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.semantics.types import FP8_KINDS

INTERPRETED = ("eager", "ttir")
GPUS = ("80", "90")
WAYS = ("native", *INTERPRETED, *GPUS)


def answer(
    way: str, kernel: Any, arrays: dict[str, np.ndarray[Any, Any]], *, grid: int = 1, **constants: Any
) -> dict[str, Any]:
    """The arrays after the kernel has run in this way, `grid` programs of it."""
    given = {name: array.copy() for name, array in arrays.items()}
    with np.errstate(all="ignore"):
        if way == "eager":
            InterpretedFunction(kernel.fn)[(grid,)](**given, **constants)
        elif way == "ttir":
            text = kernel[(grid,)](**{name: array.copy() for name, array in arrays.items()}, **constants).asm["ttir"]
            run_ir(parse_module(text), given | constants, (grid,))
        elif way == "native":
            kernel[(grid,)](**given, **constants)
        else:
            with tw.simulate(way):
                kernel[(grid,)](**given, **constants, supported_fp8_dtypes=FP8_KINDS)
    return given
