"""The pipeline from Gluon's programs, as the front end writes them, to TTGIR ready for code generation.

The order is that of Triton 3.9. Layouts are the program's: no pass here changes a tile's layout, so rules about
conversions are left out.
"""

from __future__ import annotations

from tilewright.dialects.ttg_attributes import TWO_CTAS
from tilewright.dialects.ttng_descriptors import AsyncTmaCopyGlobalToLocal, AsyncTmaGather
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op, buffer_type
from tilewright.ir.errors import VerificationError
from tilewright.ir.pass_manager import Pass
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.verifier import verify
from tilewright.layouts.encoding import encoding
from tilewright.layouts.queries import cga_layout
from tilewright.support.diagnostics import Diagnostic, located
from tilewright.transforms import arith_rules, control_flow_rules, conversion_rules, memory_rules, shape_rules
from tilewright.transforms.canonicalize import FOLDS
from tilewright.transforms.cse import loop_aware_cse
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.gpu.barrier_layouts import check_barriers
from tilewright.transforms.gpu.combine_select_if import combine_select_if
from tilewright.transforms.gpu.gluon_layouts import infer_coalesced_layouts, resolve_auto_layouts
from tilewright.transforms.gpu.tma_lowering import tma_lowering
from tilewright.transforms.inline import inline, symbol_dce
from tilewright.transforms.structure_control_flow import structure_control_flow


def multicast_to_itself(op: AsyncTmaCopyGlobalToLocal | AsyncTmaGather, rewriter: Rewriter) -> bool:
    """Leave `multicast` out where no two CTAs have the same part of the buffer."""
    steps = cga_layout(encoding(buffer_type(op.buffer).encoding))
    if not op.multicast or any(not any(step) for step in steps):
        return False
    del op.attributes["multicast"]
    rewriter.modified(op)
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    **arith_rules.RULES,
    **control_flow_rules.RULES,
    **memory_rules.RULES,
    "tt.broadcast": shape_rules.RULES["tt.broadcast"],
    "tt.expand_dims": shape_rules.RULES["tt.expand_dims"],
    "ttng.async_tma_copy_global_to_local": (multicast_to_itself,),
    "ttng.async_tma_gather": (multicast_to_itself,),
}
"""Rules after which every tile has the layout that it had."""
OWN_FOLDS = {name: folds for name, folds in FOLDS.items() if name not in conversion_rules.FOLDS}


def canonicalize_keeping_layouts(module: Op) -> bool:
    """Bring every function into canonical form without changing the layout of any tile."""
    return rewrite_functions(module, RULES, folds=OWN_FOLDS)


class BrokenRule(Diagnostic):
    """An op of the program breaks a rule of its kind."""

    title = "`{op}` cannot be used like this"
    label = "{rule}"
    op: str
    rule: str


def check_rules(module: Op) -> bool:
    """Refuse ops that break a rule of their kind: nothing but the program has made them.

    Raises:
        CompilationError: there is one; names its place.
    """
    try:
        verify(module)
    except VerificationError as error:
        raise located(BrokenRule(error.op.name, error.rule), span_of(error.op.location)) from error
    return False


def note_two_ctas(module: Op) -> bool:
    """Record in the module whether its products are computed by pairs of CTAs."""
    module.attributes[TWO_CTAS] = any("two_ctas" in op.attributes for op in module.walk())
    return True


GLUON_PASSES = (
    Pass("check_rules", check_rules, "behind passes a broken rule would be our mistake"),
    Pass("structure_control_flow", structure_control_flow, "early returns become conditions"),
    Pass("inline", inline, "layout inference works within one function"),
    Pass("infer_coalesced_layouts", infer_coalesced_layouts, "memory accesses decide first"),
    Pass("resolve_auto_layouts", resolve_auto_layouts),
    Pass("tma_lowering", tma_lowering, "descriptors that the kernel makes"),
    Pass("canonicalize_keeping_layouts", canonicalize_keeping_layouts),
    Pass("loop_aware_cse", loop_aware_cse),
    Pass("canonicalize_keeping_layouts", canonicalize_keeping_layouts),
    Pass("combine_select_if", combine_select_if),
    Pass("symbol_dce", symbol_dce),
    Pass("note_two_ctas", note_two_ctas),
    Pass("check_barriers", check_barriers, "pairs of CTAs share barriers differently"),
)
"""The passes that turn Gluon's programs into TTGIR, in order."""
