"""Runs the ops that random programs use, on NumPy, so that a program can be compared with what passes make of it.

Memory is one array of i32; a pointer is an index into it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.core import Block, Op, Value


class SmallInterpreter:
    """One run: `memory`, the values so far, and how many loop steps may still run."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory
        self.values: dict[Value, Any] = {}
        self.fuel = 2000

    def call(self, module: Op, *arguments: int) -> list[Any]:
        """Run the first function of the module; returns what it returns."""
        function = module.regions[0].block.first
        assert function is not None
        block = function.regions[0].block
        self.values.update(zip(block.args, map(np.int32, arguments), strict=True))
        return self.block(block)

    def block(self, block: Block) -> list[Any]:
        """Run a block; returns the operands of its terminator."""
        for op in block:
            if op.definition.terminator:
                return [self.values[v] for v in op.operands]
            inputs = [self.values[v] for v in op.operands]
            special = getattr(self, op.name.replace(".", "_"), None)
            results = special(op, *inputs) if special else self.pure(op, *inputs)
            self.values.update(zip(op.results, results, strict=True))
        return []

    def pure(self, op: Op, *inputs: Any) -> list[Any]:
        assert op.definition.meaning is not None, op.name
        return [op.definition.meaning(op, *inputs)]

    def arith_constant(self, op: Op) -> list[Any]:
        dtype = np.bool_ if op.result.type.scalar.bits == 1 else np.int32
        attribute: Any = op.attributes["value"]
        return [np.full(op.result.type.shape or (), attribute.value, dtype)]

    def tt_make_range(self, op: Op) -> list[Any]:
        start, end = (op.attributes[name].value for name in ("start", "end"))  # type: ignore[union-attr]
        return [np.arange(start, end, dtype=np.int32)]

    def tt_splat(self, op: Op, x: Any) -> list[Any]:
        return [np.full(op.result.type.shape, x)]

    def tt_broadcast(self, op: Op, x: Any) -> list[Any]:
        return [np.array(np.broadcast_to(x, op.result.type.shape))]

    def tt_reshape(self, op: Op, x: Any) -> list[Any]:
        return [np.reshape(x, op.result.type.shape)]

    tt_expand_dims = tt_reshape

    def tt_trans(self, op: Op, x: Any) -> list[Any]:
        return [np.transpose(x, op.attributes["order"].values)]  # type: ignore[union-attr]

    def tt_addptr(self, op: Op, pointer: Any, offset: Any) -> list[Any]:
        return [pointer + offset]

    def tt_load(self, op: Op, pointer: Any, mask: Any = True, other: Any = 0) -> list[Any]:
        assert ((pointer >= 0) & (pointer < self.memory.size) | ~np.asarray(mask)).all(), "loaded out of bounds"
        return [np.where(mask, self.memory[np.where(mask, pointer, 0)], other).astype(np.int32)]

    def tt_store(self, op: Op, pointer: Any, value: Any, mask: Any = True) -> list[Any]:
        for p, v, m in np.nditer([pointer, value, mask]):
            if m:
                self.memory[p] = v
        return []

    def scf_if(self, op: Op, condition: Any) -> list[Any]:
        region = op.regions[0 if condition else 1]
        return self.block(region.block) if region.blocks else []

    def scf_for(self, op: Op, low: Any, high: Any, step: Any, *carried: Any) -> list[Any]:
        block, state = op.regions[0].block, list(carried)
        for counter in range(int(low), int(high), int(step)):
            self.fuel -= 1
            self.values.update(zip(block.args, [np.int32(counter), *state], strict=True))
            state = self.block(block)
        return state

    def scf_while(self, op: Op, *carried: Any) -> list[Any]:
        before, after = (region.block for region in op.regions)
        state = list(carried)
        while True:
            self.fuel -= 1
            self.values.update(zip(before.args, state, strict=True))
            condition, *passed = self.block(before)
            if not condition:
                return passed
            self.values.update(zip(after.args, passed, strict=True))
            state = self.block(after)
