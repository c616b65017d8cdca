"""The pipeline from TTIR as the front end writes it to the TTIR that back ends expect.

Afterwards a kernel is one function with structured control flow only, without block pointers, and with calls of
`noinline` functions only.

`run_stage` runs the passes of any stage, with the requested printing and verification after each pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.pass_manager import Pass, run_passes, verify_after
from tilewright.ir.printer import print_op
from tilewright.support import knobs
from tilewright.transforms.adopt_libraries import adopt_libraries
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.combine import combine, combine_keeping_bases, combine_without_fusion
from tilewright.transforms.cse import cse, loop_aware_cse
from tilewright.transforms.inline import inline, symbol_dce
from tilewright.transforms.licm import licm
from tilewright.transforms.loop_unroll import loop_unroll, unroll_and_tidy
from tilewright.transforms.reorder_broadcast import reorder_broadcast
from tilewright.transforms.rewrite_tensor_descriptor_to_pointer import (
    DescriptorOptions,
    rewrite_tensor_descriptor_to_pointer,
)
from tilewright.transforms.rewrite_tensor_pointer import rewrite_tensor_pointer, rewrite_tensor_pointer_by_axis
from tilewright.transforms.structure_control_flow import structure_control_flow

PASSES = (
    Pass("structure_control_flow", structure_control_flow, "early returns become conditions: one block per function"),
    Pass("inline", inline, "later passes see one function, with its constants"),
    Pass("rewrite_tensor_pointer", rewrite_tensor_pointer, "before folding: block offsets are ordinary arithmetic"),
    Pass("canonicalize", canonicalize, "the patterns of later passes need not know equivalent spellings"),
    Pass("combine", combine_keeping_bases, "accumulating dots, masked loads with their default"),
    Pass("reorder_broadcast", reorder_broadcast, "arithmetic on scalars and columns instead of whole tiles"),
    Pass("licm", licm, "before cse, which then merges what several loops computed"),
    Pass("cse", loop_aware_cse, "after all rewriting, equal computations are textually equal"),
    Pass("symbol_dce", symbol_dce, "functions whose last call was folded away"),
    Pass("loop_unroll", unroll_and_tidy, "last: copies of a small body"),
)

PASSES_WITHOUT_FUSION = tuple(
    Pass("combine", combine_without_fusion) if step.name == "combine" else step for step in PASSES
)

NORMALIZING = (
    *PASSES[:3],  # without these a back end cannot read a module
    Pass("adopt_libraries", adopt_libraries, "only text of other compilers contains such names"),
)


def device_passes(capability: int) -> tuple[Pass, ...]:
    """The passes that make TTIR for a GPU, as Triton 3.9 has them and in its order.

    From compute capability 90 on a device moves blocks by descriptors.
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
    verify_each: bool = True,
    dump: Callable[[str, Op], None] | None = None,
) -> Op:
    """Optimise `module` in place.

    Args:
        module: what the front end evaluated, or text that was parsed.
        fuse: a product and a sum of floats may become one operation, so a sum may start a dot's accumulator.
        verify_each: verify the module after each pass, not only after the last one.
        dump: called with the pass's name and the module after every pass.

    Returns:
        the module.

    Raises:
        VerificationError: when a pass leaves malformed IR.
    """
    passes = PASSES if fuse else PASSES_WITHOUT_FUSION
    run_passes(module, passes, verify=verify_each, dump=dump)
    if not verify_each:
        verify_after(module, "ttir")
    return module


def normalize_ttir(module: Op) -> Op:
    """Run only what a back end relies on, in place: for text that is to be compiled as it stands.

    Returns:
        the module.

    Raises:
        VerificationError: when a pass leaves malformed IR.
    """
    run_passes(module, NORMALIZING)
    return module


def run_stage(module: Op, passes: Sequence[Pass], facts: Mapping[str, Any]) -> bool:
    """Run `passes` over `module`, in place.

    With MLIR_ENABLE_DUMP the module is printed after each pass. Then, and with TILEWRIGHT_VERIFY_PASSES, it is also
    verified after each pass, which is a fifth of the work.

    Args:
        passes: in order.
        facts: what is known of the compilation; `name` is the kernel's.

    Returns:
        whether every pass was verified.

    Raises:
        VerificationError: a pass left malformed IR; only where passes are verified.
    """
    shows = knobs.tilewright.ir_dump in ("1", facts.get("name"))
    verifies = shows or knobs.tilewright.verify_passes
    run_passes(module, passes, verify=verifies, dump=dump_after if shows else None)
    return verifies


def dump_after(name: str, module: Op) -> None:
    """Print the module behind the pass `name` to stderr."""
    dump(f"After {name}", module)


def dump(when: str, module: Op) -> None:
    """Print the module to stderr, under a line that says when."""
    sys.stderr.write(f"// -----// IR Dump {when} //----- //\n{print_op(module)}\n")
