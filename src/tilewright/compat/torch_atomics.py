"""Which sums by index Inductor leaves to torch: those that no `tl.atomic_add` computes.

Inductor knows some types that GPUs' kernels cannot add so. Integers of 8 and 16 bits are none of them: adding to an
int16 by index ended in an error of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PUT, SCATTER = "needs_fallback_due_to_atomic_add_limitations", "use_scatter_fallback"
"""Functions of `torch._inductor.utils`, which other modules import by name."""


def left_to_torch(choices: Any) -> Mapping[str, Callable[..., bool]]:
    """The functions PUT and SCATTER of the module `choices`, which leave narrow integers to torch, too."""
    put, scatter = vars(choices)[PUT], vars(choices)[SCATTER]

    def is_narrow(dtype: Any) -> bool:
        return dtype.itemsize < 4 and not dtype.is_floating_point and choices.config.cpu_backend == "triton"

    def is_put_left(dtype: Any) -> bool:
        return is_narrow(dtype) or bool(put(dtype))

    def is_scatter_left(operator: Any, reduction: Any, dtype: Any, *rest: Any) -> bool:
        return (reduction is not None and is_narrow(dtype)) or bool(scatter(operator, reduction, dtype, *rest))

    return {PUT: is_put_left, SCATTER: is_scatter_left}
