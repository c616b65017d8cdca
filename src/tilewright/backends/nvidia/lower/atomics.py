"""Atomic accesses of global memory, and of shared memory at addresses given by a tile of indices.

    %old = tt.atomic_rmw fadd, acq_rel, gpu, %p, %x, %m : …

    mov.b32 $0, 0x0; @$3 atom.global.gpu.acq_rel.add.f32 $0, [ $1 + 0 ], $2;

    %old = ttg.local_atomic_scatter_rmw add, %buffer[%indices], %values, %mask {axis = 0 : i32}

    @%mask atom.shared.cta.relaxed.add.u32 %old, [%place], %value;

Of all threads that hold an element, one accesses memory. If the program uses the old value, that thread hands it to the
others through shared memory. Additions to neighbouring floats are one access: two f16 everywhere, 16 bytes since
compute capability 9.0. Each CTA of a cluster has a buffer of its own in shared memory and does its own accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import Place, same_as
from tilewright.backends.nvidia.lower.conversions import PTX_FLOATS
from tilewright.backends.nvidia.lower.gather import ONE, indexed_places
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import (
    GLOBAL_POINTER,
    SHARED_POINTER,
    Lowerer,
    Lowering,
    layout_of,
)
from tilewright.backends.nvidia.lower.memory import (
    access_bits,
    both,
    fast_axis,
    groups_of,
    only_once,
    vector_of,
)
from tilewright.backends.nvidia.lower.register_packing import PackedWords, as_integer, from_integer
from tilewright.backends.nvidia.lower.shared_tiles import CLUSTER_POINTER, cluster_barrier, memory_bits, pointer_to
from tilewright.dialects.arith import Constant
from tilewright.dialects.traits import Atomic
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.ttg_memory import LocalAtomicScatter
from tilewright.ir.attributes import Number
from tilewright.ir.core import Value, defining
from tilewright.ir.types import TensorType, Type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.queries import shape_per_cta

VECTORS_SINCE = 90
"""The first capability whose atomic sums take vectors, and add bf16."""
PAIRED = "half"
"""The LLVM type of elements that all devices add in pairs."""
_KINDS = {"add": "u", "and": "b", "exch": "b", "fadd": "f", "max": "s", "min": "s", "or": "b", "umax": "u", "umin": "u"}
_KINDS["xor"] = "b"
SUMS_SINCE = {"half": 70, "bfloat": 90}
"""The first capability that adds such elements in shared memory."""


Combining: TypeAlias = Atomic | LocalAtomicScatter
"""Ops that combine elements in memory with others, and give what was there."""


class Form(NamedTuple):
    """The accesses to the elements of a tile.

    Attributes:
        groups: the registers of each access.
        same: per register the one whose access serves it.
        words: how the registers of an access are packed.
        vector: the number of words of an access.
    """

    groups: list[list[int]]
    same: list[int]
    words: PackedWords
    vector: int


def _form(lowerer: Lowerer, op: Atomic, element: str, mask: Value | None) -> Form:
    pointers, bits = op.pointer, access_bits(op.pointer.type)
    if not isinstance(pointers.type, TensorType):
        return Form([[0]], [0], PackedWords(bits, 1, 1), 1)
    most = 1
    if isinstance(op, AtomicRmw) and op.operation == "fadd":
        if lowerer.target.capability >= VECTORS_SINCE and element in ("bfloat", "float", PAIRED):
            most = vector_of(lowerer, pointers, mask)
        elif element == PAIRED:
            most = min(2, vector_of(lowerer, pointers, mask))
    layout = lowerer.layout(pointers)
    groups = groups_of(layout, fast_axis(pointers.type), most)
    size = len(groups[0])
    pairs = size == 2 and lowerer.target.capability < VECTORS_SINCE
    words = PackedWords(2 * bits, 1, 2) if pairs else PackedWords(bits, size, 1)
    return Form(groups, same_as(layout), words, words.number)


def _scope(op: Atomic) -> str:
    """The scope in PTX, which knows none that is a launch."""
    return "gpu" if op.scope == "launch" else op.scope


def _rmw_name(op: AtomicRmw, element: str, form: Form) -> str:
    """The instruction: `atom.global.gpu.acq_rel.add.noftz.f16x2`."""
    operation = op.operation
    bits = form.words.width // form.words.elements
    name, kind = operation.removeprefix("u"), f"{_KINDS[operation]}{bits}"
    if operation == "fadd":
        name, kind = "add.noftz" if bits == 16 else "add", PTX_FLOATS[element]
        kind += "x2" if form.words.elements == 2 else ""
    vector = f".v{form.vector}" if form.vector > 1 else ""
    return f"atom.global.{_scope(op)}.{op.sem}.{name}{vector}.{kind}"


def _atomic(
    lowerer: Lowerer,
    name: str,
    words: PackedWords,
    address: str,
    values: Sequence[Sequence[str]],
    predicate: str | None,
) -> list[str]:
    """One access; `values` has a list of words per operand. Where `predicate` is false the result is 0."""
    count = words.number
    operands: list[Typed] = [(GLOBAL_POINTER, address)]
    lists = [_braced(0, count), f"[ ${count} + 0 ]"]
    for value in values:
        lists.append(_braced(count + len(operands), count))
        operands += [(words.type, word) for word in value]
    start = ""
    if predicate is not None:
        moves = "".join(f"mov.u{words.width} ${number}, 0x0;\n\t" for number in range(count))
        start = f"{moves}@${count + len(operands)} "
        operands.append(("i1", predicate))
    return lowerer.assembly_results([words.type] * count, f"{start}{name} {', '.join(lists)};", operands)


def _braced(start: int, count: int) -> str:
    names = ", ".join(f"${start + number}" for number in range(count))
    return names if count == 1 else f"{{ {names} }}"


# --- ops --------------------------------------------------------------------------------------------------------


def _rmw(lowerer: Lowerer, op: AtomicRmw) -> None:
    mask, element = op.mask, lowerer.element(op.value.type)
    form, values = _form(lowerer, op, element, mask), lowerer.registers(op.value)
    masks = lowerer.registers(mask) if mask is not None else None
    loads = _is_load(op)
    if loads:
        name = f"ld.{op.sem}.{_scope(op)}.global.b{form.words.width}"
    else:
        name = _rmw_name(op, element, form)
    by_swaps = element == "bfloat" and lowerer.target.capability < VECTORS_SINCE
    once = only_once(lowerer, op.pointer.type)

    def access(group: Sequence[int], address: str) -> list[str]:
        predicate = both(lowerer, once, masks[group[0]] if masks is not None else None)
        if by_swaps:
            return [_by_swaps(lowerer, op, address, values[group[0]], predicate)]
        added = [] if loads else [form.words.pack(lowerer.w, element, [values[number] for number in group])]
        return form.words.unpack(lowerer.w, element, _atomic(lowerer, name, form.words, address, added, predicate))

    _finish(lowerer, op, form, access, once)


def _cas(lowerer: Lowerer, op: AtomicCas) -> None:
    element = lowerer.element(op.compared.type)
    form = _form(lowerer, op, element, None)
    expected, wanted = lowerer.registers(op.compared), lowerer.registers(op.value)
    name = f"atom.global.{op.sem}.{_scope(op)}.cas.b{form.words.width}"
    once = only_once(lowerer, op.pointer.type)

    def access(group: Sequence[int], address: str) -> list[str]:
        values = [form.words.pack(lowerer.w, element, [own[group[0]]]) for own in (expected, wanted)]
        return form.words.unpack(lowerer.w, element, _atomic(lowerer, name, form.words, address, values, once))

    _finish(lowerer, op, form, access, once)


def _is_load(op: AtomicRmw) -> bool:
    """Whether the op adds 0 to a scalar: that is a load that sees what others have released."""
    constant = defining(op.value, Constant)
    number = constant.value if constant is not None else None
    is_sum = op.operation in ("add", "fadd") and op.sem in ("acquire", "relaxed")
    is_scalar = not isinstance(op.pointer.type, TensorType)
    return is_sum and is_scalar and isinstance(number, Number) and number.value == 0 and number.type.bits >= 32


def _by_swaps(lowerer: Lowerer, op: Atomic, address: str, value: str, predicate: str | None) -> str:
    """The old value; devices without atomic sums of bf16 compare and swap until it succeeds."""
    if predicate is None:
        return _swap_until_done(lowerer, op, address, value)
    with lowerer.w.branch(predicate) as branch, branch.then():
        old = _swap_until_done(lowerer, op, address, value)
    return branch.join("bfloat", old, "0xR0000")


def _swap_until_done(lowerer: Lowerer, op: Atomic, address: str, value: str) -> str:
    """Swap 16 bits at a time: the other half of the word may be another thread's, or behind the end of the array."""
    w, scope = lowerer.w, _scope(op)
    pointer = (GLOBAL_POINTER, address)
    (start,) = lowerer.assembly_results(["i16"], f"ld.relaxed.{scope}.global.b16 $0, [ $1 ];", [pointer])
    head, after = w.fresh_label("swap"), w.fresh_label("swapped")
    before = w.leave_to(head)
    w.start_block(head)
    phis, seen = w.open_section(), w.fresh("seen")
    old = w.emit(f"bitcast i16 {seen} to bfloat")
    total = as_integer(w, "bfloat", w.emit(f"fadd bfloat {old}, {value}"))
    swap = f"atom.global.{scope}.{op.sem}.cas.b16 $0, [ $1 ], $2, $3;"
    (found,) = lowerer.assembly_results(["i16"], swap, [pointer, ("i16", seen), ("i16", total)])
    done = w.emit(f"icmp eq i16 {found}, {seen}")
    phis.lines.append(f"  {seen} = phi i16 [ {start}, %{before} ], [ {found}, %{w.label} ]")
    w.do(f"br i1 {done}, label %{after}, label %{head}")
    w.start_block(after)
    return old


def _finish(
    lowerer: Lowerer,
    op: Atomic,
    form: Form,
    access: Callable[[Sequence[int], str], list[str]],
    once: str | None,
) -> None:
    """Do all accesses, and pass the old values to all threads that hold the elements."""
    addresses = lowerer.registers(op.pointer)
    found: dict[int, str] = {}
    for group in form.groups:
        found.update(zip(group, access(group, addresses[group[0]]), strict=True))
    if op.result.uses and once is not None:
        owner = _owner(lowerer, op.result.type)
        found = _told_to_all(lowerer, op, access_bits(op.pointer.type), found, once, owner)
    lowerer.bind(op.result, [found[number] for number in form.same])


def _told_to_all(
    lowerer: Lowerer, op: Combining, bits: int, found: dict[int, str], once: str, owner: str | None = None
) -> dict[int, str]:
    """Hand on the results through shared memory, where the elements of a block lie in row-major order.

    Args:
        bits: the width of an element in memory.
        found: per register the result, in the thread that did the access.
        once: whether this thread did.
        owner: the block of the cluster whose threads did; None: each block did its own accesses.
    """
    w, element, scratch = lowerer.w, lowerer.element(op.result.type), lowerer.scratch(op)
    integer = "i8" if element == "i1" else f"i{bits}"
    size = int(integer[1:]) // 8
    place = _places(op.result.type, size)
    pointers = {}
    for number, value in found.items():
        base, added = lowerer.placed(place, number)
        pointer = scratch
        for step in (base, str(added)):
            if step != "0":
                pointer = w.emit(f"getelementptr inbounds i8, {SHARED_POINTER} {pointer}, i32 {step}")
        pointers[number] = pointer
        text = f"@$2 st.shared.b{8 * size} [ $0 + 0 ], $1;"
        operands = [(SHARED_POINTER, pointer), (integer, as_integer(w, element, value)), ("i1", once)]
        lowerer.assembly(text, operands)
    wait = lowerer.barrier if owner is None else partial(cluster_barrier, lowerer)
    wait()
    found = {number: _read(lowerer, integer, pointer, owner) for number, pointer in pointers.items()}
    if owner is not None:
        wait()  # what follows may write, or end the block
    return {number: from_integer(w, element, value) for number, value in found.items()}


def _places(type: Type, size: int) -> Place:
    """The place of each element in the memory of its block, in bytes."""
    if not isinstance(type, TensorType):
        return Place({})
    layout = to_linear_layout(layout_of(type), type.shape)
    shape = shape_per_cta(layout_of(type), type.shape)
    own = LinearLayout({}, tuple(zip(layout.out_names, shape, strict=True)))
    columns = {name: layout.columns[name] for name in layout.ins if name != "block"}
    return Place({name: tuple(size * own.pack(layout.unpack(c)) for c in steps) for name, steps in columns.items()})


def _owner(lowerer: Lowerer, type: Type) -> str | None:
    """The block of the cluster whose threads did the accesses; None: each block did its own."""
    blocks = lowerer.target.num_ctas
    copied = lowerer.layout(type).free_masks()["block"] if isinstance(type, TensorType) else blocks - 1
    if not copied:
        return None
    return lowerer.w.emit(f"and i32 {lowerer.block_in_cluster()}, {blocks - 1 & ~copied}")


def _read(lowerer: Lowerer, integer: str, pointer: str, owner: str | None) -> str:
    """A word of shared memory, of block `owner` if that is not None."""
    w, space, size = lowerer.w, SHARED_POINTER, int(integer[1:]) // 8
    if owner is not None:
        space, operands = CLUSTER_POINTER, [(SHARED_POINTER, pointer), ("i32", owner)]
        pointer = w.call(CLUSTER_POINTER, "llvm.nvvm.mapa.shared.cluster", operands)
    return w.emit(f"load {integer}, {space} {pointer}, align {size}")


def _scatter(lowerer: Lowerer, op: LocalAtomicScatter) -> None:
    """The atomic accesses of a tile to a buffer in shared memory, at places that a tile of indices says."""
    element = lowerer.element(op.value.type)
    bits = memory_bits(element)
    text = f"atom.shared.cta.relaxed.{_scattered(op, element, bits, lowerer.target.capability)}"
    once, same = only_once(lowerer, op.value.type, per_block=True), same_as(lowerer.layout(op.value))
    masks = lowerer.registers(op.mask) if op.mask is not None else None
    (move,) = ONE.moves
    found: dict[int, str] = {}
    values, places = lowerer.registers(op.value), indexed_places(lowerer, op)
    for number in dict.fromkeys(same):
        predicate = both(lowerer, once, masks[number] if masks is not None else None)
        pointer = pointer_to(lowerer, ONE, move, places[number])
        operands = [(SHARED_POINTER, pointer), (f"i{bits}", as_integer(lowerer.w, element, values[number]))]
        line = f"{text} $0, [ $1 + 0 ], $2;"
        if predicate is not None:
            line = f"mov.u{bits} $0, 0x0;\n\t@$3 {line}"
            operands.append(("i1", predicate))
        (old,) = lowerer.assembly_results([f"i{bits}"], line, operands)
        found[number] = from_integer(lowerer.w, element, old)
    if once is not None and op.result.uses:
        found = _told_to_all(lowerer, op, bits, found, once)
    lowerer.bind(op.result, [found[number] for number in same])


def _scattered(op: LocalAtomicScatter, element: str, bits: int, capability: int) -> str:
    """The operation and its type: `add.f32`."""
    if op.operation == "fadd" and capability >= SUMS_SINCE.get(element, capability + 1):
        return f"add.noftz.{PTX_FLOATS[element]}"
    if bits not in (32, 64):
        instead = "elements of 32 or 64 bits are combined, and f16 added; bf16, too, since capability 9.0"
        raise refused(op, f"{op.name} of elements with {bits} bits", instead)
    return f"{op.operation.removeprefix('f').removeprefix('u')}.{_KINDS[op.operation]}{bits}"


LOWERINGS: dict[str, Lowering] = {
    "tt.atomic_cas": _cas,
    "tt.atomic_rmw": _rmw,
    "ttg.local_atomic_scatter_rmw": _scatter,
}
