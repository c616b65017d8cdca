"""Columns of tensor memory that a program splits are loaded half by half.

    %t = ttng.tmem_load %m : … -> tensor<128x256xf32>
    %r = tt.reshape %t : … -> tensor<128x2x128xf32>
    %s = tt.trans %r {order = array<i32: 0, 2, 1>} : … -> tensor<128x128x2xf32>
    %a, %b = tt.split %s : … -> tensor<128x128xf32>

        %m0 = ttng.tmem_subslice %m {N = 0 : i32}
        %a = ttng.tmem_load %m0 : … -> tensor<128x128xf32>
        %m1 = ttng.tmem_subslice %m {N = 128 : i32}
        %b = ttng.tmem_load %m1 : … -> tensor<128x128xf32>

Programs split a sum so that its stores need less shared memory. Where each half of the warps holds half of the columns,
as eight warps do, the split would take the tile through shared memory as a whole first. Halves that are split again
are loaded in quarters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dialects.tt_shape import Reshape, Split, Trans
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.dialects.ttng_tensor_memory import TmemLoad
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, buffer_type, tile_type
from tilewright.ir.types import MemDescType, async_token, i32
from tilewright.layouts.encodings import TensorMemory, encoding
from tilewright.layouts.tensor_memory import compatible_layouts
from tilewright.transforms.gpu.tile_ops import TileOps, layout_of, with_layout, workers_of

REDUCTION = "redOp"
"""The attribute of loads that find the least of each row, too."""
HALVES = (0, 2, 1)
"""The order of axes that puts the number of the half last."""


def optimize_tmem_layouts(module: Op) -> bool:
    """Load tiles of tensor memory that are only split along columns in halves; returns whether there were any."""
    found = False
    while any(_load_halves(load) for load in module.ops_of(TmemLoad)):  # halves may be split again
        found = True
    return found


def _is_in_halves(op: Op) -> bool:
    if not isinstance(op, Reshape) or op.allow_reorder:
        return False
    rows, *columns = tile_type(op.source).shape
    return tile_type(op.result).shape == (rows, 2, *(extent // 2 for extent in columns))


def _is_turned(op: Op) -> bool:
    return isinstance(op, Trans) and tuple(op.order) == HALVES


def _is_split(op: Op) -> bool:
    return isinstance(op, Split)


SPLITTING = (_is_in_halves, _is_turned, _is_split)
"""The ops, one after the other, by which a program gets the two halves of the columns."""


def _splits(value: Value, steps: Sequence[Callable[[Op], bool]]) -> list[Op] | None:
    """The last of the `steps`, which `value` goes through in several layouts; None if something else uses it.

    Splits whose halves nobody uses, as those that are done, are not among them.
    """
    found: list[Op] = []
    for user in value.uses:
        if isinstance(user, ConvertLayout):
            inner = _splits(user.result, steps)
        elif not steps[0](user):
            return None
        elif len(steps) > 1:
            inner = _splits(user.result, steps[1:])
        else:
            inner = [user] if any(half.uses for half in user.results) else []
        if inner is None:
            return None
        found += inner
    return found


def _load_halves(load: TmemLoad) -> bool:
    """Let those who split what `load` loads take loads of half the columns, where it was; whether there are some."""
    splits = _splits(load.results[0], SPLITTING)
    if not splits or REDUCTION in load.attributes or workers_of(load).ctas > 1:
        return False  # of several CTAs, each may have columns of one half only
    whole = buffer_type(load.buffer)
    rows, columns = whole.shape[0], whole.shape[1] // 2
    half = MemDescType((rows, columns), whole.element, whole.encoding, whole.space, whole.mutable, whole.alloc_shape)
    memory = encoding(whole.encoding)
    if not isinstance(memory, TensorMemory) or rows != memory.block_m:
        return False  # scales lie there in another way, and further blocks of rows in further columns
    layouts = compatible_layouts(memory, half.shape, bits=whole.element.bits, warps=warps_of(load))
    if not layouts:
        return False
    at, token = TileOps(load), load.token
    for number in range(2):
        part = at.emit("ttng.tmem_subslice", (load.buffer,), half, {"N": Number(number * columns, i32)})
        type = with_layout(splits[0].results[number].type, layouts[0])
        order = () if token is None else (token,)
        loaded = at.op("ttng.tmem_load", (part, *order), (type, async_token) if order else (type,))
        token = loaded.results[1] if order else None
        for split in splits:
            result = split.results[number]
            result.replace_by(at.converted(loaded.results[0], layout_of(result)))
    if token is not None:
        load.results[1].replace_by(token)
    return True
