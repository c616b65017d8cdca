"""What torch's FX graph cache is asked for a graph by, where Tilewright compiles its kernels for CPUs.

torch puts Triton's version into the key where there is a GPU, and nothing of it where there is none. A folder of caches
may be shared by environments that differ in the version of Tilewright, and in whether the real Triton is installed:
the kernels in the cache import one or the other.
"""

from __future__ import annotations

from typing import Any

from tilewright.compat.signatures import triton_key

CACHES = "torch._inductor.codecache"


def name_compiler(caches: Any, *, beside: bool) -> None:
    """Let the module `CACHES` tell apart graphs by who compiles their kernels.

    Args:
        caches: the module.
        beside: whether the real Triton is installed, too.
    """
    details, config = caches.FxGraphHashDetails, caches.config
    original = details.__init__

    def initialize(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        if config.cpu_backend == "triton":
            self.kernels = f"{triton_key()}{' beside Triton' if beside else ''}"

    details.__init__ = initialize
