"""The pipeline from TTIR as the front end writes it to TTIR as back ends want it.

Afterwards a kernel is one function with structured control flow only, without block pointers and without calls but of
`noinline` functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.ir.core import Op
from tilewright.ir.pass_manager import Pass, run_passes
from tilewright.transforms.adopt_libraries import adopt_libraries
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.combine import combine, combine_keeping_bases, combine_without_fusion
from tilewright.transforms.cse import cse, loop_aware_cse
from tilewright.transforms.inline import inline
from tilewright.transforms.licm import licm
from tilewright.transforms.loop_unroll import loop_unroll, unroll_and_tidy
from tilewright.transforms.reorder_broadcast import reorder_broadcast
from tilewright.transforms.rewrite_tensor_descriptor_to_pointer import (
    DescriptorOptions,
    rewrite_tensor_descriptor_to_pointer,
)
from tilewright.transforms.rewrite_tensor_pointer import rewrite_tensor_pointer, rewrite_tensor_pointer_by_axis
from tilewright.transforms.structure_control_flow import structure_control_flow
from tilewright.transforms.symbol_dce import symbol_dce

PASSES = (
    Pass("structure_control_flow", structure_control_flow, "early returns become conditions: one block per function"),
    Pass("inline", inline, "later passes see one function, with its constants"),
    Pass("rewrite_tensor_pointer", rewrite_tensor_pointer, "before folding: block offsets are ordinary arithmetic"),
    Pass("canonicalize", canonicalize, "the patterns of later passes need not know equivalent spellings"),
    Pass("combine", combine_keeping_bases, "accumulating dots, masked loads with their default"),
    Pass("reorder_broadcast", reorder_broadcast, "arithmetic on scalars and columns instead of whole tiles"),
    Pass("licm", licm, "before cse, which then merges what several loops computed"),
    Pass("cse", loop_aware_cse, "once everything has its final spelling and place, equal things look equal"),
    Pass("symbol_dce", symbol_dce, "functions whose last call was folded away"),
    Pass("loop_unroll", unroll_and_tidy, "last: copies of a small body"),
)

PASSES_WITHOUT_FUSION = tuple(
    Pass("combine", combine_without_fusion) if step.name == "combine" else step for step in PASSES
)

NORMALIZING = (
    *PASSES[:3],  # without these a back end cannot read a module
    Pass("adopt_libraries", adopt_libraries, "names that only text from elsewhere has"),
)


def device_passes(capability: int) -> tuple[Pass, ...]:
    """The passes that make TTIR for a GPU, as Triton 3.9 has them and in its order.

    Args:
        capability: the compute capability of the device, such as 80; from 90 on it moves blocks by descriptors.
    """
    by_pointers = partial(rewrite_tensor_descriptor_to_pointer, options=DescriptorOptions(reshape=True))
    without_engine = (Pass("rewrite_tensor_descriptor_to_pointer", by_pointers),) if capability < 90 else ()
    return (
        Pass("inline", inline),
        Pass("rewrite_tensor_pointer_by_axis", rewrite_tensor_pointer_by_axis, "axis analysis sees each axis"),
        *without_engine,
        Pass("canonicalize", canonicalize),
        Pass("combine", combine),
        Pass("reorder_broadcast", reorder_broadcast),
        Pass("cse", cse),
        Pass("symbol_dce", symbol_dce),
        Pass("loop_unroll", loop_unroll),
    )


def optimize_ttir(
    module: Op,
    *,
    fuse: bool = True,
    dump: Callable[[str, Op], None] | None = None,
    timings: dict[str, float] | None = None,
) -> Op:
    """Optimise `module` in place.

    Args:
        module: what the front end evaluated, or text that was parsed.
        fuse: a product and a sum of floats may become one operation, so a sum may start a dot's accumulator.
        dump: called with the pass's name and the module after every pass.
        timings: gets the seconds each pass took.

    Returns:
        the module.

    Raises:
        VerificationError: when a pass leaves malformed IR behind.
    """
    run_passes(module, PASSES if fuse else PASSES_WITHOUT_FUSION, dump=dump, timings=timings)
    return module


def normalize_ttir(module: Op) -> Op:
    """Run only what a back end relies on, in place: for text that is to be compiled as it stands.

    Returns:
        the module.

    Raises:
        VerificationError: when a pass leaves malformed IR behind.
    """
    run_passes(module, NORMALIZING)
    return module
