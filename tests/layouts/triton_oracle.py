"""Run by the interpreter of an environment with Triton 3.9: reads layouts as JSON, writes what Triton makes of them.

Input: a list of `[layout, shape]`, and a layout is `[method of GluonOpBuilder, arguments…]`. Output, one line for each:
the text of the layout and its bases, as JSON; an error of Triton is an empty object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from triton._C.libtriton import gluon_ir, ir

BASES = ("reg_bases", "lane_bases", "warp_bases", "block_bases", "offset_bases")


def built(builder: Any, layout: Any) -> Any:
    """The attribute that `layout` describes."""
    method, *arguments = layout
    nested = (built(builder, value) if is_layout(value) else value for value in arguments)
    return getattr(builder, method)(*nested)


def is_layout(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def answer(builder: Any, layout: Any, shape: list[int]) -> dict[str, Any]:
    attribute = built(builder, layout)
    linear = builder.to_linear_layout(attribute, shape)
    bases = {name: getattr(linear, name) for name in BASES if hasattr(linear, name)}
    text = str(builder.get_distributed_ty(builder.get_float_ty(), shape, attribute)) if "reg_bases" in bases else ""
    return {"text": text, "bases": bases}


def main() -> None:
    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    for layout, shape in json.load(sys.stdin):
        sys.stdout.write(json.dumps(answer(builder, layout, shape)) + "\n")
        sys.stdout.flush()


main()
