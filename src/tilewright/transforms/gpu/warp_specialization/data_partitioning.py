"""Data partitioning: two warp groups share the rows of products that one warp group would compute.

    "ttg.num-warps" = 4                                        "ttg.num-warps" = 8
    ttng.warp_group_dot …                                 ->   ttng.warp_group_dot …
        : tensor<128x128xf32, [4, 1] warps>                        : tensor<128x128xf32, [8, 1] warps>

Each group then has 64 rows, and half of the registers of an accumulator. All tiles of the module are distributed over
eight warps: blocked layouts get twice as many warps along their slowest dimension. A module stays as it is in these
cases: a product has fewer than 128 rows; a layout is of another kind; an op would need another layout than the one it
would get; a tile that threads reorder would have copies in other threads than its source; the program limits the
registers.
"""

from __future__ import annotations

from tilewright.analysis.gather_distance import linear_layout_of
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_shape import Reshape
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize
from tilewright.dialects.ttng_mma import WarpGroupDot
from tilewright.ir.attributes import Attribute, Dense, Number
from tilewright.ir.core import Op, Value, integer_in, tile_type
from tilewright.ir.errors import VerificationError
from tilewright.ir.types import TensorType, Type, i32
from tilewright.ir.verifier import verify
from tilewright.layouts.distributed import Blocked, DotOperand, NvidiaMma, Slice
from tilewright.layouts.encodings import Distributed, Encoding, encoding
from tilewright.transforms.gpu.tile_ops import with_layout

WARP_GROUP, GROUPS = 4, 2
"""The number of warps that multiply together, and the number of groups that share rows."""
ROWS = 64
"""The least number of rows of a product that a group computes."""
WGMMA = 3
"""The version of the layout of products of warp groups."""
NUM_WARPS = "ttg.num-warps"
"""The attribute of a module that has the number of its warps."""


class _UnknownLayoutError(Exception):
    """A layout, or an op, that is not known for twice as many warps."""


def data_partitioning(module: Op) -> bool:
    """Let two warp groups share the products of `module`, if they have enough rows."""
    if not _can_be_shared(module):
        return False
    values, ops = _values(module), [op for op in module.walk() if op.attributes]
    types, attributes = [value.type for value in values], [op.attributes for op in ops]
    try:
        for value in values:
            value.type = _doubled_type(value.type)
        for op in ops:
            op.attributes = {name: _doubled_constant(value) for name, value in op.attributes.items()}
        module.attributes = {**module.attributes, NUM_WARPS: Number(GROUPS * WARP_GROUP, i32)}
        verify(module)
        _check_reordered(module)
    except (_UnknownLayoutError, VerificationError):
        for value, type in zip(values, types, strict=True):
            value.type = type
        for op, old in zip(ops, attributes, strict=True):
            op.attributes = old
        return False
    return True


def _can_be_shared(module: Op) -> bool:
    """Whether one warp group executes all of the module, with products of rows enough for two."""
    products = [op for op in module.walk() if isinstance(op, WarpGroupDot)]
    rows = (tile_type(op.result).shape[0] for op in products)
    is_one_group = integer_in(module, NUM_WARPS) == WARP_GROUP and "ttg.maxnreg" not in module.attributes
    is_alone = not any(isinstance(op, (Call, WarpSpecialize)) for op in module.walk())
    return bool(products) and is_one_group and is_alone and not any(count % (GROUPS * ROWS) for count in rows)


def _values(module: Op) -> list[Value]:
    found = [result for op in module.walk() for result in op.results]
    return found + [
        argument for op in module.walk() for region in op.regions for block in region.blocks for argument in block.args
    ]


def _check_reordered(module: Op) -> None:
    """Threads reorder a tile by taking its registers as they come: each must have as many elements of the result.

    Raises:
        _UnknownLayoutError: a tile that is too small for all warps has copies elsewhere when it is reordered.
    """
    for op in module.walk():
        if isinstance(op, Reshape) and op.allow_reorder:
            source, result = linear_layout_of(op.source), linear_layout_of(op.result)
            same_registers = source.in_size("register") == result.in_size("register")
            if not same_registers or source.free_masks() != result.free_masks():
                raise _UnknownLayoutError


def _doubled(layout: Encoding) -> Distributed:
    """The layout for twice as many warps.

    Raises:
        _UnknownLayoutError: the layout is of another kind.
    """
    match layout:
        case Slice():
            return Slice(layout.dim, _doubled(layout.parent))
        case DotOperand():
            return DotOperand(layout.op_index, _doubled(layout.parent), layout.k_width)
        case NvidiaMma(version_major=version) if version == WGMMA:
            rows, *others = layout.warps_per_cta
            return NvidiaMma(version, layout.version_minor, (GROUPS * rows, *others), layout.instr_shape, layout.cga)
        case Blocked():
            slowest = layout.order[-1]
            warps = (count * GROUPS if dim == slowest else count for dim, count in enumerate(layout.warps_per_cta))
            return Blocked(layout.size_per_thread, layout.threads_per_warp, tuple(warps), layout.order, layout.cga)
    raise _UnknownLayoutError


def _doubled_type(type: Type) -> Type:
    if not isinstance(type, TensorType) or not type.encoding:
        return type
    return with_layout(type, _doubled(encoding(type.encoding)))


def _doubled_constant(value: Attribute) -> Attribute:
    return value._replace(type=_doubled_type(value.type)) if isinstance(value, (Number, Dense)) else value
