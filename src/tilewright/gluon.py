"""Gluon: kernels that name layouts, shared memory, barriers and groups of warps, for NVIDIA's GPUs and simulated ones.

    from tilewright import gluon
    from tilewright.gluon import language as gl

    @gluon.jit
    def copy(x, out, n, BLOCK: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
        offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
        gl.store(out + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)
"""

from tilewright.language import gluon as language
from tilewright.runtime.constexpr_function import constexpr_function
from tilewright.runtime.gluon import GluonJITFunction, jit

__all__ = ["GluonJITFunction", "constexpr_function", "jit", "language"]
