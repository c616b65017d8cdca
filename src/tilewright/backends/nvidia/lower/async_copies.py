"""Asynchronous copies to shared memory: `cp.async` from global memory, `st.async` from registers.

    %t = ttg.async_copy_global_to_local %pointers, %buffer mask %m : …

    cp.async.cg.shared.global [ $0 + 0 ], [ $1 + 0 ], 0x10, $2;          $2: 16, or 0 where the mask is false

Masked-off elements become 0. A pipelined load with another value for them selects it when it reads the buffer.

    ttng.async_shared_store %tile, %buffer, %barrier

    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [ $0 ], { $1, … }, [ $5 ];

A tile goes to the shared memory of every CTA that has a part of the buffer; the mbarrier of each CTA counts the bytes
that arrive there.
"""

from __future__ import annotations

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import Move, Plan, Unit, plan_of
from tilewright.backends.nvidia.lower.buffers import (
    buffer_layout,
    buffer_plan,
    buffer_pointer,
    has_other_copies,
    unbroken,
)
from tilewright.backends.nvidia.lower.cache_hints import l2_hints
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import GLOBAL_POINTER, SHARED_POINTER, Lowerer, Lowering, constraints_of
from tilewright.backends.nvidia.lower.mbarriers import RANK, sharers
from tilewright.backends.nvidia.lower.memory import access_bits, only_once, vector_of
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.backends.nvidia.lower.shared_tiles import (
    BYTE,
    CLUSTER_POINTER,
    address,
    in_block,
    memory_bits,
    offset,
    pointer_to,
)
from tilewright.dialects.cache_policies import cache_policy_of
from tilewright.dialects.ttg_async import AsyncCopyGlobalToLocal, AsyncWait
from tilewright.dialects.ttng_descriptors import AsyncSharedStore
from tilewright.ir.core import Value, buffer_type

MIN_BYTES, MAX_BYTES = 4, 16
"""Bytes of one copy."""


def _copy(lowerer: Lowerer, op: AsyncCopyGlobalToLocal) -> None:
    mask = op.mask
    plan, size = _plan(lowerer, op, mask)
    where = lowerer.buffer(op.buffer).bytes(buffer_type(op.buffer))
    sources = lowerer.registers(op.pointer)
    conditions = lowerer.registers(mask) if mask is not None else None
    once = only_once(lowerer, op.pointer.type, per_block=True)  # each block copies what it has in its memory
    for move in plan.moves:
        pointer, added = address(lowerer, plan, move.start, where)
        wanted = conditions[move.registers[0]] if conditions is not None else None
        _emit(lowerer, op, (pointer, added), sources[move.registers[0]], size, wanted, once)


def _plan(lowerer: Lowerer, op: AsyncCopyGlobalToLocal, mask: Value | None) -> tuple[Plan, int]:
    """The plan of the copy, and the bytes per instruction."""
    pointers, type = op.pointer, buffer_type(op.buffer)
    bits = access_bits(pointers.type)
    known = max(vector_of(lowerer, pointers, mask), op.contiguity)
    offsets = lowerer.layout(pointers).invert_and_compose(buffer_layout(type))
    most = min(known, MAX_BYTES * BYTE // bits, unbroken(type) or known)
    plan = plan_of(offsets, bits, units=(Unit.VECTOR,), most=most, in_order=True)
    if plan.block is not None or has_other_copies(lowerer, pointers, type):
        raise refused(op, "an asynchronous copy to another block", "launch the kernel with num_ctas=1")
    size = len(plan.moves[0].registers) * bits // BYTE
    if size < MIN_BYTES:
        reason = f"one copy moves {MIN_BYTES} bytes or more, and here {size}"
        raise refused(op, "this asynchronous copy", reason)
    return plan, size


def _emit(
    lowerer: Lowerer,
    op: AsyncCopyGlobalToLocal,
    target: tuple[str, int],
    source: str,
    size: int,
    mask: str | None,
    once: str | None,
) -> None:
    """One copy: of `size` bytes, of zeros where `mask` is false, by threads for which `once` holds."""
    described = cache_policy_of(op)
    hints = l2_hints(lowerer, op, described)
    cache = "cg" if size == MAX_BYTES and described.modifier != "ca" else "ca"
    given: list[Typed] = [(SHARED_POINTER, target[0]), (GLOBAL_POINTER, source)]
    if once is None and not hints.suffix:
        given[0] = (SHARED_POINTER, offset(lowerer, *target))
        kept = ([("i32", lowerer.w.emit(f"select i1 {mask}, i32 {size}, i32 0"))]) if mask is not None else []
        suffix = ".s" if mask is not None else ""
        lowerer.w.call_void(f"llvm.nvvm.cp.async.{cache}.shared.global.{size}{suffix}", [*given, *kept])
        return
    length = f"0x{size:x}"
    if mask is not None:
        given.append(("i32", lowerer.w.emit(f"select i1 {mask}, i32 {size}, i32 0")))
        length += ", $2"
    for policy in hints.operands:
        length += f", ${len(given)}"
        given.append(policy)
    predicate = ""
    if once is not None:
        predicate = f"@${len(given)} "
        given.append(("i1", once))
    name = f"cp.async.{cache}.shared.global{hints.suffix}"
    text = f"{predicate}{name} [ $0 + {target[1]} ], [ $1 + 0 ], {length};"
    lowerer.assembly_results([], text, given, constraints=f"{constraints_of([], given)},~{{memory}}")


def _store(lowerer: Lowerer, op: AsyncSharedStore) -> None:
    """Each element is stored once in each CTA that has it, so that barriers count what they expect."""
    type, element = buffer_type(op.buffer), lowerer.element(op.value.type)
    plan = buffer_plan(lowerer, op.value, type, (Unit.VECTOR,))
    words = PackedWords.of(memory_bits(element), len(plan.moves[0].registers))
    if words.width < MIN_BYTES * BYTE:
        reason = f"one store moves {MIN_BYTES} bytes or more, and here {words.width // BYTE}"
        raise refused(op, "this asynchronous store", f"{reason}: take a layout whose threads have neighbours")
    if has_other_copies(lowerer, op.value, type):
        raise refused(op, "an asynchronous store to several blocks", "store a tile that each of the blocks has")
    condition = only_once(lowerer, op.value.type, per_block=True) or "true"
    values, where = lowerer.registers(op.value), lowerer.buffer(op.buffer).bytes(type)
    text = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{words.suffix}"
    listed = ", ".join(f"${3 + place}" for place in range(words.number))
    for move in plan.moves:
        target, barrier = pointer_to(lowerer, plan, move, where), _signalled_barrier(lowerer, op, plan, move)
        packed = words.pack(lowerer.w, element, [values[register] for register in move.registers])
        operands = [("i1", condition), ("i32", _number(lowerer, plan, target)), ("i32", barrier)]
        operands += [(words.type, word) for word in packed]
        lowerer.assembly(f"@$0 {text} [ $1 ], {f'{{ {listed} }}' if words.number > 1 else listed}, [ $2 ];", operands)


def _signalled_barrier(lowerer: Lowerer, op: AsyncSharedStore, plan: Plan, move: Move) -> str:
    """The address of the barrier that counts the bytes of a move, an i32: that of the block where they go."""
    own, w = buffer_pointer(lowerer, op.barrier), lowerer.w
    pointer = own if plan.block is None else in_block(lowerer, own, plan.block, move)
    number, bits = _number(lowerer, plan, pointer), sharers(op.barrier)
    return w.emit(f"and i32 {number}, {~(bits << RANK)}") if bits else number


def _number(lowerer: Lowerer, plan: Plan, pointer: str) -> str:
    space = SHARED_POINTER if plan.block is None else CLUSTER_POINTER
    return lowerer.w.emit(f"ptrtoint {space} {pointer} to i32")


def _wait(lowerer: Lowerer, op: AsyncWait) -> None:
    lowerer.w.call_void("llvm.nvvm.cp.async.wait.group", [("i32", str(op.pending))])


LOWERINGS: dict[str, Lowering] = {
    "ttg.async_commit_group": lambda lowerer, op: lowerer.w.call_void("llvm.nvvm.cp.async.commit.group", []),
    "ttg.async_copy_global_to_local": _copy,
    "ttg.async_wait": _wait,
    "ttng.async_shared_store": _store,
}
