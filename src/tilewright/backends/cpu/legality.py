"""Legality: unsupported ops are refused by name, with their source location, before anything is lowered.

tt.call @factorial(%m)        error: calling a function that calls itself is not supported
tt.elementwise_inline_asm …   error: the op tt.elementwise_inline_asm is not supported (but the clock is)
"""

from __future__ import annotations

from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.tt_descriptors import DescriptorAccess, MakeTensorDescriptor
from tilewright.dialects.tt_dot import DotScaled
from tilewright.dialects.tt_elementwise import CLOCK, ExternElementwise, InlineAsm
from tilewright.dialects.tt_function import Call
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op
from tilewright.support.diagnostics import NotSupported, located
from tilewright.transforms.functions import callees_of, function_around

FOREIGN = (DescriptorAccess, DotScaled, MakeTensorDescriptor)
"""Ops that only IR from elsewhere has: our language emits simpler ones."""


def check_legality(module: Op) -> bool:
    """Refuse recursive functions and ops that the back end does not support.

    Returns False: nothing changes.

    The scratch memory of a function has a fixed place, so it cannot be used twice at a time.

    Raises:
        Unsupported: there is one.
    """
    calls = list[Call]()
    for op in module.walk():
        if isinstance(op, Call):
            calls.append(op)
        unknown = op.symbol if isinstance(op, ExternElementwise) and not is_elementwise(op) else ""
        assembly = isinstance(op, InlineAsm) and op.text != CLOCK
        if isinstance(op, FOREIGN) or assembly or unknown or _is_for_gpus(op):
            feature = f"the function {unknown}" if unknown else f"the op {op.name}"
            reason = "the CPU back end does not have it, and kernels that Tilewright reads itself do without"
            raise located(NotSupported(feature, reason), span_of(op.location))
    for call in calls:
        caller = function_around(call)
        if call.callee == caller.symbol or caller in _reached_from(caller, module):
            reason = "the CPU back end gives every function scratch memory at one place"
            raise located(NotSupported("calling a function that calls itself", reason), span_of(call.location))
    return False


def _is_for_gpus(op: Op) -> bool:
    return op.name.startswith(("ttg.", "ttng.")) and op.name != "ttg.barrier"


def _reached_from(function: Op, module: Op) -> set[Op]:
    found: set[Op] = set()
    pending = [function]
    while pending:
        for callee in callees_of(pending.pop(), module):
            if callee not in found:
                found.add(callee)
                pending.append(callee)
    return found
