"""Running passes in order, with verification, dumping and timing in one place.

run_passes(module, (Pass("inline", inline), Pass("cse", cse)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

from tilewright.ir import verifier
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError


class Pass(NamedTuple):
    """A change of a whole module, under the name the user sees.

    Attributes:
        name: the name.
        function: changes the module in place; returns False if there was nothing to change.
        reason: why the pass is there, or why at its place among others.
    """

    name: str
    function: Callable[[Op], bool | None]
    reason: str = ""


def run_passes(
    module: Op,
    passes: Sequence[Pass],
    *,
    verify: bool = True,
    dump: Callable[[str, Op], None] | None = None,
    timings: dict[str, float] | None = None,
) -> None:
    """Run `passes` over `module`, which they change in place.

    Args:
        passes: in order.
        verify: check the module after every pass that changed it.
        dump: called with the pass's name and the module after every pass.
        timings: gets the seconds each pass took (its verification included); repeated passes add up.

    Raises:
        VerificationError: when a pass leaves malformed IR; names the pass.
    """
    for name, function, _ in passes:
        start = perf_counter()
        changed = function(module) is not False
        if verify and changed:
            verify_after(module, name)
        if timings is not None:
            timings[name] = timings.get(name, 0.0) + perf_counter() - start
        if dump is not None:
            dump(name, module)


def verify_after(module: Op, stage: str) -> None:
    """Verify `module`; an error says that pass `stage` caused it."""
    try:
        verifier.verify(module)
    except VerificationError as error:
        raise VerificationError(error.op, error.rule, stage) from error
