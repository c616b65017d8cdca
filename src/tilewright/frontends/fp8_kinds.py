"""The 8-bit floats that a device has; TTIR with others is refused.

    refuse_missing_fp8(module, ("fp8e4b15", "fp8e5"))     # sm_80: a tile of fp8e4nv is an error at the op that makes it

A device without a kind could compute with it by way of others, and does so when the option `supported_fp8_dtypes`
names it. Without being asked it does not: Triton refuses such kernels, and they would not be fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.frontends.errors import MissingFp8
from tilewright.ir.core import Op
from tilewright.ir.spans import span_of
from tilewright.ir.types import Type
from tilewright.semantics.types import FP8_KINDS, dtype
from tilewright.support.diagnostics import SemanticError, located


def refuse_missing_fp8(module: Op, available: Sequence[str]) -> None:
    """Refuse a module with 8-bit floats that are not among `available`.

    Raises:
        CompilationError: an op makes, or a function takes, values of another kind.
    """
    missing = {dtype(name).ir.text: name for name in FP8_KINDS if name not in available}
    if not missing:
        return
    in_text = re.compile(rf"(?:{'|'.join(missing)})\b")
    found = [
        (op.location, kind[0]) for op in module.walk() for type in _types(op) if (kind := in_text.search(type.text))
    ]
    if found:
        location, text = next((use for use in found if span_of(use[0]).line), (module.location, found[0][1]))
        error = SemanticError(MissingFp8(missing[text], tuple(available)))
        raise located(error.diagnostic, span_of(location)) from error


def _types(op: Op) -> Iterator[Type]:
    """The types of what an op takes, makes and hands to its regions; constants have no place, but their users have."""
    for value in (*op.operands, *op.results):
        yield value.type
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                yield argument.type
