"""Matrix products on matrix instructions: each `tt.dot` gets the layouts that such an instruction needs.

    %d = tt.dot %a, %b, %c : … -> tensor<64x64xf32, #blocked>

    sm_80   %c1 = ttg.convert_layout %c : … -> tensor<64x64xf32, #mma>
            %a1 = ttg.convert_layout %a : … -> tensor<64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
            %b1 = …
            %d1 = tt.dot %a1, %b1, %c1 : … -> tensor<64x64xf32, #mma>
            %d = ttg.convert_layout %d1 : … -> tensor<64x64xf32, #blocked>
    sm_90   %a1 = ttg.local_alloc %a : … -> !ttg.memdesc<64x64xf16, #shared, #smem>
            %d1 = ttng.warp_group_dot %a1, %b1, %c1 : … -> tensor<64x64xf32, #mma>

Dots without such an instruction stay as they are, with operands widened to the type of the result.
"""

from __future__ import annotations

from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.types import MemDescType, Type, bf16, f16, i8, i32, with_element
from tilewright.layouts.encodings import DotOperand, Encoding, NvidiaMma
from tilewright.layouts.queries import cga_layout, memory_order
from tilewright.layouts.shared_choice import nvmma_for
from tilewright.transforms.gpu.matrix_instructions import (
    ALL_FP8,
    FP8,
    Shape,
    balanced_warps,
    grouped_warps,
    instruction_shape,
    result_per_cta,
    tile_of,
    version_for,
)
from tilewright.transforms.gpu.relayout import layout_of, with_layout
from tilewright.transforms.gpu.slices import backward_slice, connected_ops, forward_slice
from tilewright.transforms.gpu.workers import capability_of, warps_of

DOTS = frozenset({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"})
PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""Numbers of the input precisions in attributes of `ttng` ops."""
LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
VIEWS = frozenset(
    {"tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split", "tt.cat", "tt.broadcast", "ttg.convert_layout"}
)
ORIGINS = LOADS | VIEWS | {"ttg.fp4_to_fp"}


def accelerate_matmul(module: Op) -> bool:
    """Choose a matrix instruction for every `tt.dot` of `module` for which its device has one."""
    capability = capability_of(module)
    dots = [op for op in module.walk() if op.name == "tt.dot"]
    for dot in reversed(dots):  # of dots that feed each other the last decides
        if isinstance(layout_of(dot.results[0]), NvidiaMma):
            continue
        version = version_for(dot, capability)
        if version == 2:
            _to_mma(dot, capability)
        elif version == 3:
            _to_wgmma(dot)
    for dot in [op for op in module.walk() if op.name == "tt.dot"]:
        _widen_operands(dot, capability)
    return bool(dots)


# mma.sync


def _to_mma(dot: Op, capability: int) -> None:
    shape, element = result_per_cta(dot), dot.operands[0].type.scalar
    instruction = instruction_shape(2, shape, element, warps_of(dot))
    cga = cga_layout(layout_of(dot.results[0]))
    mma = NvidiaMma(2, int(capability == 75), _mma_warps(dot, shape), instruction, cga)
    bits = min(loaded_bits(value) for value in dot.operands[:2])
    a, b = (
        _converted(dot, value, DotOperand(index, mma, max(32 // bits, 1)))
        for index, value in enumerate(dot.operands[:2])
    )
    c = _converted(dot, dot.operands[2], mma)
    _replace(dot, "tt.dot", [a, b, c], mma, dict(dot.attributes))


def _mma_warps(dot: Op, shape: Shape) -> Shape:
    """Warps over the result; all along one axis when dots feed each other, so that rows stay in one warp."""
    warps = warps_of(dot)
    if len(shape) == 3:
        return balanced_warps(shape, warps)
    chained = False
    for op in connected_ops(dot, lambda op: op.name != "tt.trans" and op.block is dot.block):
        if op.name in ("tt.dot", "tt.dot_scaled") and op is not dot:
            layout = layout_of(op.results[0])
            if layout.rank != len(shape):
                continue
            if isinstance(layout, NvidiaMma):
                return layout.warps_per_cta
            chained = True
    if chained:
        return (warps, 1) if shape[0] >= shape[1] else (1, warps)
    return balanced_warps(shape, warps)


def loaded_bits(value: Value) -> int:
    """The width with which the elements of an operand come from memory: so wide are the groups its threads have."""
    slice_ = backward_slice(value, lambda op: op.name in ORIGINS or (op.definition.elementwise and is_pure(op)))
    names = {op.name for op in slice_}
    if "ttg.fp4_to_fp" in names:
        return 4
    bits = [op.results[0].type.bits for op in slice_ if op.name in LOADS and op.results[0].type.shape is not None]
    least = min([value.type.bits, *bits])
    return least // 2 if "tt.join" in names else least  # each part of a pair has half the group


# wgmma


def _to_wgmma(dot: Op) -> None:
    shape, element = result_per_cta(dot), dot.operands[0].type.scalar
    warps = warps_of(dot)
    instruction = instruction_shape(3, shape, element, warps)
    chained = any(op.name in DOTS for op in forward_slice(dot.results[0]))
    # Rows that the next dot needs stay in one warp.
    split = (warps, 1) if chained else grouped_warps(shape, warps)
    mma = NvidiaMma(3, 0, split, instruction, cga_layout(layout_of(dot.results[0])))
    # Only 16-bit elements can be read column by column.
    any_order = element in (f16, bf16)
    a, b, c = dot.operands
    if comes_from_load(a):
        first = _in_shared_memory(a, (1, 0), any_order=any_order)
    else:
        first = _converted(dot, a, DotOperand(0, mma, max(32 // element.bits, 1)))
    second = _in_shared_memory(b, (0, 1), any_order=any_order)
    precision = dot.attributes.get("inputPrecision", Keyword("ieee"))
    assert isinstance(precision, Keyword), "an input precision is a keyword"
    attributes: dict[str, Attribute] = {
        "inputPrecision": Number(PRECISIONS.index(precision.name), i32),
        "maxNumImpreciseAcc": dot.attributes.get("maxNumImpreciseAcc", Number(0, i32)),
        "isAsync": False,
    }
    _replace(dot, "ttng.warp_group_dot", [first, second, _converted(dot, c, mma)], mma, attributes)


def comes_from_load(value: Value) -> bool:
    """Whether an operand is read from memory as it is, conversions and transpositions aside."""
    while (op := value.op) is not None and op.name in ("ttg.convert_layout", "tt.trans"):
        value = op.operands[0]
    return value.op is None or value.op.name in LOADS


def _in_shared_memory(value: Value, wanted: Shape, *, any_order: bool) -> Value:
    """A buffer with the operand `value`, in the order of its registers if the instruction can read any."""
    while (op := value.op) is not None and op.name == "ttg.convert_layout":
        value = op.operands[0]
    tile = tile_of(value.type)
    layout = layout_of(value)
    order = memory_order(layout, tile.shape) if any_order else wanted
    shared = nvmma_for(tile.shape, order, bits=tile.bits, cga=cga_layout(layout))
    type = MemDescType(tile.shape, tile.element, shared.text)
    return _after(value, Op.create("ttg.local_alloc", (value,), (type,)))


def _after(value: Value, op: Op) -> Value:
    """`op` right behind what makes `value`."""
    owner = value.owner
    if isinstance(owner, Op):
        assert owner.block is not None, "an op of a function is in a block"
        op.location = owner.location
        return owner.block.insert(op, owner.next).result
    return owner.insert(op, owner.first).result


# Both


def _converted(dot: Op, value: Value, layout: Encoding) -> Value:
    type = with_layout(value.type, layout)
    assert dot.block is not None, "a dot is in a block"
    op = Op.create("ttg.convert_layout", (value,), (type,), location=dot.location)
    return dot.block.insert(op, dot).result


def _replace(dot: Op, name: str, operands: list[Value], layout: Encoding, attributes: dict[str, Attribute]) -> None:
    assert dot.block is not None, "a dot is in a block"
    result = dot.results[0]
    new = Op.create(name, operands, (with_layout(result.type, layout),), attributes, location=dot.location)
    dot.block.insert(new, dot)
    new.result.name = result.name
    back = Op.create("ttg.convert_layout", new.results, (result.type,), location=dot.location)
    dot.block.insert(back, dot)
    dot.replace(back.results)


def _widen_operands(dot: Op, capability: int) -> None:
    """Operands that the instruction cannot read are widened: fp8 to fp16, others to the type of the result."""
    a, result = dot.operands[0].type.scalar, dot.results[0].type.scalar
    if isinstance(layout_of(dot.results[0]), NvidiaMma):
        native = capability == 89 or capability // 10 == 12
        if a not in FP8 or native:
            return
        wide: Type = f16
    elif a is result:
        return
    else:
        wide = result
    for index, value in list(enumerate(dot.operands[:2])):
        element = value.type.scalar
        name = "tt.fp_to_fp" if element in ALL_FP8 else "arith.extsi" if element is i8 else "arith.extf"
        assert dot.block is not None, "a dot is in a block"
        op = Op.create(name, (value,), (with_element(value.type, wide),), location=dot.location)
        dot.set_operand(index, dot.block.insert(op, dot).result)
