"""Tiles in tensor memory are loaded and stored in layouts that suit what a program does with them.

Columns that a program splits are loaded in halves, and joined halves are stored in halves.

    %t = ttng.tmem_load %m : … -> tensor<128x256xf32>
    %r = tt.reshape %t : … -> tensor<128x2x128xf32>
    %s = tt.trans %r {order = array<i32: 0, 2, 1>} : … -> tensor<128x128x2xf32>
    %a, %b = tt.split %s : … -> tensor<128x128xf32>

        %m0 = ttng.tmem_subslice %m {N = 0 : i32}
        %a = ttng.tmem_load %m0 : … -> tensor<128x128xf32>
        %m1 = ttng.tmem_subslice %m {N = 128 : i32}
        %b = ttng.tmem_load %m1 : … -> tensor<128x128xf32>

    %j = tt.join %a, %b : … -> tensor<128x128x2xf32>
    %s = tt.trans %j {order = array<i32: 0, 2, 1>} : … -> tensor<128x2x128xf32>
    %t = tt.reshape %s : … -> tensor<128x256xf32>
    ttng.tmem_store %t, %m, %true : …

        %m0 = ttng.tmem_subslice %m {N = 0 : i32}
        ttng.tmem_store %a, %m0, %true : …
        %m1 = ttng.tmem_subslice %m {N = 128 : i32}
        ttng.tmem_store %b, %m1, %true : …

Programs split an accumulator so that its stores need less shared memory. If each half of the warps holds half of the
columns, as with eight warps, the split or the join would move the whole tile through shared memory. Halves that are
split or joined again are loaded or stored in quarters.

Where a program reduces rows, as softmax does, and eight warps hold a tile, each has whole rows, which it reduces by
shuffles. Otherwise two warps would have half of each row, and exchange them through shared memory. Other tiles get this
layout, too: what is computed for each row is needed in their layouts.

    %t = ttng.tmem_load %m : … -> tensor<128x64xf32, warps 4 to 7 have columns 32 to 63>
    %r = tt.reduce %t along axis 1

        %t = ttng.tmem_load %m : … -> tensor<128x64xf32, they have rows 16 to 31 of every 32>

A tile that is only stored to shared memory as numbers of 16 bits, transposed, is loaded in the layout of the transposed
stores of matrices (`stmatrix`): a thread with a row would store each number alone. The same is true of tiles that come
from there (`ldmatrix`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import If
from tilewright.dialects.tt_descriptors import DescriptorStore
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Join, Reshape, ShapeOp, Splat, Split, Trans
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, LocalStore
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.dialects.ttng_tensor_memory import TmemLoad, TmemStore
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, buffer_type, defining, tile_type
from tilewright.ir.types import MemDescType, TensorDescType, TensorType, async_token, i32
from tilewright.layouts.encodings import Linear, Shared, TensorMemory, encoding
from tilewright.layouts.queries import buffer_order
from tilewright.layouts.tensor_memory import Access, access_layout, compatible_layouts, split_layout
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.tile_ops import TileOps, layout_of, relayout, with_layout, workers_of
from tilewright.transforms.matching import has_one_use

REDUCTION = "redOp"
"""The attribute of loads that find the least of each row, too."""
EIGHT = 8
"""The number of warps that hold a tile in halves."""
MATRIX_BITS = 16
"""The size of the elements of matrices that `stmatrix` and `ldmatrix` transpose."""
HALVES = (0, 2, 1)
"""The order of axes that puts the number of the half last, and that takes it from there."""
AnyAccess: TypeAlias = "TmemLoad | TmemStore"


def optimize_tmem_layouts(module: Op) -> bool:
    """Load and store tiles in tensor memory in layouts that suit what they are used for."""
    found = False
    while any(_load_halves(load) for load in module.ops_of(TmemLoad)):  # halves may be split again
        found = True
    while any(_store_halves(store) for store in module.ops_of(TmemStore)):
        found = True
    for function in functions_of(module):
        found |= _keep_rows_in_warps(function)
    accesses: list[AnyAccess] = [*module.ops_of(TmemLoad), *module.ops_of(TmemStore)]
    turned = [_access_matrices(access) for access in accesses if _is_turned(access)]
    return found or any(turned)


def _half(access: AnyAccess) -> tuple[MemDescType, Linear] | None:
    """The type of half the columns that `access` reaches, and the layout for it; None if they are not together."""
    whole = buffer_type(access.buffer)
    rows, columns = whole.shape[0], whole.shape[1] // 2
    half = MemDescType((rows, columns), whole.element, whole.encoding, whole.space, whole.mutable, whole.alloc_shape)
    memory = encoding(whole.encoding)
    if not isinstance(memory, TensorMemory) or rows != memory.block_m or workers_of(access).ctas > 1:
        return None  # scales lie there in another way, further blocks of rows in further columns; CTAs may divide them
    layouts = compatible_layouts(memory, half.shape, bits=whole.element.bits, warps=warps_of(access))
    return (half, layouts[0]) if layouts else None


def _part(at: TileOps, access: AnyAccess, half: MemDescType, number: int) -> Value:
    return at.emit("ttng.tmem_subslice", (access.buffer,), half, {"N": Number(number * half.shape[1], i32)})


# Loads


def _is_in_halves(op: Op) -> bool:
    """Whether `op` takes the two halves of columns apart."""
    return isinstance(op, Reshape) and not op.allow_reorder and _are_halves(op.result, op.source)


def _are_halves(halves: Value, whole: Value) -> bool:
    """Whether `halves` has the shape of the two halves of the columns of `whole`."""
    rows, *columns = tile_type(whole).shape
    return tile_type(halves).shape == (rows, 2, *(extent // 2 for extent in columns))


def _is_transposed(op: Op) -> bool:
    return isinstance(op, Trans) and tuple(op.order) == HALVES


def _is_split(op: Op) -> bool:
    return isinstance(op, Split)


SPLITTING = (_is_in_halves, _is_transposed, _is_split)
"""The ops, one after the other, by which a program gets the two halves of the columns."""


def _splits(value: Value, steps: Sequence[Callable[[Op], bool]]) -> list[Op] | None:
    """The last of the `steps`, which `value` goes through in several layouts; None if something else uses it.

    Splits with unused halves, such as those that are done, are not among them.
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
    found = _half(load) if splits and REDUCTION not in load.attributes else None
    if not splits or found is None:
        return False
    half, layout = found
    at, token = TileOps(load), load.token
    for number in range(2):
        part = _part(at, load, half, number)
        type = with_layout(splits[0].results[number].type, layout)
        order = () if token is None else (token,)
        loaded = at.op("ttng.tmem_load", (part, *order), (type, async_token) if order else (type,))
        token = loaded.results[1] if order else None
        for split in splits:
            result = split.results[number]
            result.replace_by(at.converted(loaded.results[0], layout_of(result)))
    if token is not None:
        load.results[1].replace_by(token)
    return True


# Stores


def _joined(store: TmemStore) -> Join | None:
    """The join whose parts, side by side, are the columns that `store` stores; None if anything else uses them."""
    value = store.value
    for is_step in (_is_whole, _is_transposed):
        value = _before_conversions(value)
        if not has_one_use(value) or not isinstance(value.op, ShapeOp) or not is_step(value.op):
            return None
        value = value.op.source
    value = _before_conversions(value)
    return defining(value, Join) if has_one_use(value) else None


def _before_conversions(value: Value) -> Value:
    while isinstance(op := value.op, ConvertLayout) and has_one_use(value):
        value = op.source
    return value


def _is_whole(op: Op) -> bool:
    """Whether `op` puts two halves of columns side by side."""
    return isinstance(op, Reshape) and not op.allow_reorder and _are_halves(op.source, op.result)


def _store_halves(store: TmemStore) -> bool:
    """Let `store` store the tiles whose join it stores, one beside the other; whether it stores one."""
    join = _joined(store)
    found = _half(store) if join is not None else None
    if join is None or found is None:
        return False
    half, layout = found
    at, token = TileOps(store), store.token
    types = (async_token,) if store.results else ()
    for number, value in enumerate((join.lhs, join.rhs)):
        part = _part(at, store, half, number)
        order = () if token is None else (token,)
        stored = at.op("ttng.tmem_store", (part, *order, at.converted(value, layout), store.predicate), types)
        token = stored.results[0] if types else token
    for result in store.results:
        assert token is not None, "each store gives a token"
        result.replace_by(token)
    _erase_with(store, join)
    return True


def _erase_with(store: TmemStore, join: Join) -> None:
    """Erase `store` and the steps from `join` to it, so that its parts, which may be joined too, have one use fewer."""
    step = store.value.op
    store.erase()
    while isinstance(step, (ShapeOp, ConvertLayout)):
        source = step.source.op
        step.erase()
        step = source
    join.erase()


# Rows


def _keep_rows_in_warps(function: Func) -> bool:
    """Let warps hold whole rows of all tiles of `function` if it reduces rows of one; whether anything changes."""
    accesses = [op for op in function.walk() if isinstance(op, (TmemLoad, TmemStore)) and warps_of(op) == EIGHT]
    if not any(isinstance(op, TmemLoad) and _is_reduced(op.results[0]) for op in accesses):
        return False
    changed = [_access_rows(op) for op in accesses]
    return any(changed)


def _is_reduced(tile: Value) -> bool:
    """Whether the rows of `tile`, or of what is computed of each element, are reduced."""
    waiting, seen = [tile], {tile}
    while waiting:
        for user in waiting.pop().uses:
            if isinstance(user, Reduce) and user.axis == 1:
                return True
            if isinstance(user, ConvertLayout) or user.definition.elementwise:
                found = set(user.results) - seen
                waiting += found
                seen |= found
    return False


def _access_rows(access: AnyAccess) -> bool:
    """Let `access` have the layout in which a warp has whole rows, if there is one, and it has another."""
    type, memory = buffer_type(access.buffer), _plain_memory(access)
    layout = None if memory is None else split_layout(memory, type.shape, bits=type.element.bits)
    return layout is not None and _put_into(access, layout)


def _plain_memory(access: AnyAccess) -> TensorMemory | None:
    """The layout of the memory that `access` reaches; None if CTAs divide it, or a load gives more than the tile."""
    memory = encoding(buffer_type(access.buffer).encoding)
    is_plain = workers_of(access).ctas == 1 and REDUCTION not in access.attributes
    return memory if is_plain and isinstance(memory, TensorMemory) else None


def _put_into(access: AnyAccess, layout: Linear) -> bool:
    """Let `access` have this layout; returns whether it had another one."""
    value = access.results[0] if isinstance(access, TmemLoad) else access.value
    if layout == layout_of(value):
        return False
    relayout(access, layout)
    return True


# Transposed tiles


def _is_turned(access: AnyAccess) -> bool:
    """Whether a tile goes transposed to shared memory, or comes from there."""
    return _is_stored_turned(access.results[0]) if isinstance(access, TmemLoad) else _is_loaded_turned(access.value)


def _access_matrices(access: AnyAccess) -> bool:
    """Let `access` have the layout of the transposed loads and stores of matrices, if there is one."""
    type, memory, warps = buffer_type(access.buffer), _plain_memory(access), warps_of(access)
    if memory is None:
        return False
    layout = access_layout(memory, type.shape, bits=type.element.bits, warps=warps, access=Access.ROWS_16_256)
    return layout is not None and _put_into(access, layout)


def _is_stored_turned(tile: Value) -> bool:
    """Whether `tile`, or what is computed of each element, is only stored with neighbours of a column side by side."""
    waiting, found = [(tile, 0)], False
    while waiting:
        value, columns = waiting.pop()
        for user in value.uses:
            if isinstance(user, Trans):
                waiting.append((user.result, 1 - columns))
            elif isinstance(user, ConvertLayout) or user.definition.elementwise:
                waiting += [(result, columns) for result in user.results]
            elif _memory_order(user, value) == columns:
                found = True
            else:
                return False
    return found


def _is_loaded_turned(tile: Value) -> bool:
    """Whether `tile`, or what it is computed of, comes with neighbours of a column side by side, for it alone."""
    waiting, found = [(tile, 0)], False
    while waiting:
        value, columns = waiting.pop()
        op = value.op
        if isinstance(op, (Constant, Splat)):
            continue
        if op is None or not has_one_use(value):
            return False
        if isinstance(op, Trans):
            waiting.append((op.source, 1 - columns))
        elif isinstance(op, If):
            waiting += [(arm.block.terminator.operands[value.index], columns) for arm in op.arms]
        elif isinstance(op, ConvertLayout) or op.definition.elementwise:
            waiting += [(source, columns) for source in op.operands if isinstance(source.type, TensorType)]
        elif _memory_order(op, value) == columns:
            found = True
        else:
            return False
    return found


def _memory_order(access: Op, value: Value) -> int | None:
    """The dimension along which neighbours in `value`, of 16 bits, lie side by side in shared memory, if known."""
    if value.type.scalar is None or value.type.scalar.bits != MATRIX_BITS:
        return None
    text: str | None = None
    if isinstance(access, LocalAlloc):
        text = buffer_type(access.result).encoding
    elif isinstance(access, (LocalLoad, LocalStore)):
        text = buffer_type(access.buffer).encoding
    elif isinstance(access, DescriptorStore) and isinstance(type := access.descriptor.type, TensorDescType):
        text = type.block.encoding
    layout = encoding(text) if text else None
    return buffer_order(layout)[0] if isinstance(layout, Shared) else None
