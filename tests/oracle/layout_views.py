"""Drawings of layouts, of Tilewright or of Triton, whichever is imported: as JSON, one per layout, shape and view."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

if find_spec("tilewright"):
    from tilewright.gluon import language as gl
else:
    from triton.experimental.gluon import language as gl

ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
CUBE = gl.BlockedLayout([1, 1, 4], [2, 4, 4], [2, 2, 1], [2, 1, 0])
PRODUCT = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
LANES = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]
DRAWN = (
    (ROWS, [16, 32]),
    (ROWS, [8, 8]),
    (ROWS, [128, 64]),
    (gl.BlockedLayout([4], [32], [4], [0]), [128]),
    (gl.BlockedLayout([4], [32], [4], [0]), [1024]),
    (gl.BlockedLayout([1], [32], [4], [0]), [1]),
    (CUBE, [4, 8, 16]),
    (CUBE, [8, 8, 32]),
    (gl.SliceLayout(1, ROWS), [16]),
    (PRODUCT, [64, 64]),
    (gl.DotOperandLayout(0, PRODUCT, 2), [64, 64]),
    (gl.DotOperandLayout(1, PRODUCT, 2), [32, 128]),
    (gl.DistributedLinearLayout([[0, 1], [0, 2]], LANES, [[32, 0], [64, 0]], [], [128, 4]), [128, 4]),
    (gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]]), [32, 32]),
    (gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 0]]), [32, 32]),
    (gl.SwizzledSharedLayout(8, 4, 2, [1, 0]), [16, 16]),
    (gl.SwizzledSharedLayout(8, 4, 2, [1, 0], [[1, 0]]), [16, 16]),
    (gl.SwizzledSharedLayout(1, 1, 1, [0]), [8]),
    (gl.NVMMASharedLayout(128, 16, 2, True), [64, 16]),
    (gl.NVMMASharedLayout(32, 16, 3), [2, 8, 16]),
    (gl.SharedLinearLayout([[1, 0], [2, 0], [0, 1], [0, 2]], [], 16), [4, 4]),
)


def views() -> list[str]:
    """The drawing of every layout from both sides."""
    return [
        text
        for layout, shape in DRAWN
        for text in (layout.format_tensor_view(shape), layout.format_hardware_view(shape))
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(views()))
