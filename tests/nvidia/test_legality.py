"""Every op that can be there after the passes has a lowering for NVIDIA's GPUs, or a reason why not."""

from __future__ import annotations

from collections.abc import Callable

import tilewright.dialects
from tilewright.backends.nvidia.lower.legality import UNSUPPORTED, unsupported
from tilewright.backends.nvidia.lower.tables import LOWERINGS
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS
from tilewright.support.diagnostics import InternalError, Unsupported
from tilewright.tools.ops_table import NVIDIA_PASSES

assert tilewright.dialects.__all__

CONTAINERS = {"builtin.module", "tt.func"}
REWRITTEN_BEFORE = {"builtin.unrealized_conversion_cast", "gluon.set_auto_layout", *NVIDIA_PASSES}
"""Ops that the passes for a GPU always replace."""
FOREIGN = ("amd", "amx.", "cpu.", "vector.", "scf.parallel", "scf.reduce")
"""Ops of other back ends."""


def test_every_op_has_a_lowering_or_a_reason(golden: Callable[[str, str], None]) -> None:
    reached = {name for name, kind in OPS.items() if not kind.terminator and not name.startswith(FOREIGN)}
    assert reached - LOWERINGS.keys() - CONTAINERS - REWRITTEN_BEFORE == UNSUPPORTED.keys()
    golden("".join(f"{name}: {UNSUPPORTED[name]}\n" for name in sorted(UNSUPPORTED)), "nvidia/unsupported.txt")


def test_an_op_without_lowering_is_refused_by_name() -> None:
    known, unknown = (unsupported(Op.create(name)) for name in ("ttng.clc_try_cancel_sync", "ttg.mask"))
    assert isinstance(known, Unsupported)
    assert "the op ttng.clc_try_cancel_sync is not supported" in str(known)
    assert isinstance(unknown, InternalError)
