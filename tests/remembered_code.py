"""Machine code that LLVM has made in this process is kept: of all texts that tests compile a third comes again.

Caches of kernels do not help: many tests begin with an empty one, and others have the same kernel in other files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from tilewright.backends.llvm import machine


def begin() -> None:
    """Have LLVM compile each text for each machine once from now on."""
    machine._object_code = remembering(machine._object_code)


def remembering(compiled: Callable[..., bytes]) -> Callable[..., bytes]:
    """`compiled`, asked once for the same arguments."""
    made: dict[bytes, bytes] = {}

    def remembered(*facts: object, **options: object) -> bytes:
        key = hashlib.sha256(repr((facts, options)).encode()).digest()
        if key not in made:
            made[key] = compiled(*facts, **options)
        return made[key]

    return remembered
