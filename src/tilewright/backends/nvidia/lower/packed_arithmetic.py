"""Packed arithmetic on pairs of neighbouring floats: `ttng.packed_arith`.

%f = ttng.packed_arith add %x, %y : …f16        add.f16x2 %r3, %r1, %r2;

Registers that hold copies of others are left out. The others are paired with their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.nvidia.lower.access_plan import same_as
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.dialects.ttng_mma import PackedArith
from tilewright.ir.types import TensorType, Type, bf16, f16, f32

PAIRS: dict[Type, str] = {f16: "f16x2", bf16: "bf16x2", f32: "f32x2"}
"""The type of an instruction by that of the elements."""
SINCE = {"f32x2": 100, "bf16x2": 90, "f16x2": 53}
"""The first compute capability that adds and multiplies such pairs."""
COMPARED_SINCE, FUSED_SINCE = 80, 80
"""The first compute capabilities that find the minimum or maximum of pairs of halves, and fuse products of bf16."""


def _packed(lowerer: Lowerer, op: PackedArith) -> None:
    kind, operation = op.result.type, op.operation
    pair = PAIRS.get(kind.scalar)
    if pair is None or not isinstance(kind, TensorType) or any(value.type != kind for value in op.arguments):
        raise refused(op, f"packed arithmetic that gives {kind}", "pairs of f16, bf16 or f32 alone are packed")
    if lowerer.target.capability < (since := _first_capability(operation, pair)):
        raise refused(op, f"{operation}.{pair}", f"GPUs have it from sm_{since} on")
    same = same_as(lowerer.layout(kind))
    own = sorted(set(same))
    if len(own) % 2:
        raise refused(op, f"{operation}.{pair} of a tile with one element per thread", "elements are taken in pairs")
    element, bits = lowerer.element(kind), kind.scalar.bits
    operands = [lowerer.registers(value) for value in op.arguments]
    words = PackedWords(2 * bits, 1, 2)
    found: dict[int, str] = {}
    for first, second in zip(own[::2], own[1::2], strict=True):
        pairs = [words.pack(lowerer.w, element, [values[first], values[second]])[0] for values in operands]
        result = lowerer.computed(words.type, _text(operation, pair, pairs), [(words.type, value) for value in pairs])
        found[first], found[second] = words.unpack(lowerer.w, element, [result])
    lowerer.bind(op.result, [found[number] for number in same])


def _first_capability(operation: str, pair: str) -> int:
    if operation in ("min", "max"):
        return COMPARED_SINCE
    return FUSED_SINCE if operation == "fma" and pair == "bf16x2" else SINCE[pair]


def _text(operation: str, pair: str, operands: Sequence[str]) -> str:
    given = ", ".join(f"${number + 1}" for number in range(len(operands)))
    return f"{operation}{'.rn' if operation == 'fma' else ''}.{pair} $0, {given};"


LOWERINGS: dict[str, Lowering] = {"ttng.packed_arith": _packed}
