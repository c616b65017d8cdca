"""The passes of one stage of a kernel, with what the settings ask for: printing, and verification after each one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.pass_manager import Pass, run_passes
from tilewright.ir.printer import print_op
from tilewright.support import knobs


def run_stage(module: Op, passes: Sequence[Pass], facts: Mapping[str, Any]) -> bool:
    """Run `passes` over `module`, in place.

    With MLIR_ENABLE_DUMP the module is printed after each pass. Then, and with TILEWRIGHT_VERIFY_PASSES, it is also
    verified after each pass, which is a fifth of the work.

    Args:
        module: the module.
        passes: in order.
        facts: what is known of the compilation; `name` is the kernel's.

    Returns:
        whether every pass was verified.

    Raises:
        VerificationError: a pass left malformed IR behind; only where passes are verified.
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
