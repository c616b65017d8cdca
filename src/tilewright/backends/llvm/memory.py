"""Masked vector accesses, and accesses with one address per lane.

A masked-off lane never touches memory: the target's masked instructions are used where it has them; otherwise the
lane's address is replaced by that of a slot on the stack.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.masks import all_lanes, lane_flags, vector_kept_apart
from tilewright.backends.llvm.spelling import bits_of, comes_apart, moved_as, suffix, vector
from tilewright.backends.llvm.writer import LlvmWriter


def load(w: LlvmWriter, pointer: str, element: str, lanes: int, *, align: int) -> str:
    """Read consecutive elements, all of them.

    Args:
        w: writes the text.
        pointer: the address of the first element.
        element: LLVM's type of one.
        lanes: their number.
        align: what the address is a multiple of, in bytes.
    """
    type, moved = vector(element, lanes), vector(_moved_whole(w, element, lanes), lanes)
    return w.convert("bitcast", w.load(moved, pointer, align=align), moved, type)


def store(w: LlvmWriter, pointer: str, element: str, lanes: int, value: str, *, align: int) -> None:
    """Write consecutive elements, all of them.

    Args:
        w, pointer, element, lanes, align: as for `load`.
        value: the vector, a scalar for one lane.
    """
    type, moved = vector(element, lanes), vector(_moved_whole(w, element, lanes), lanes)
    w.store(moved, w.convert("bitcast", value, type, moved), pointer, align=align)


def _moved_whole(w: LlvmWriter, element: str, lanes: int) -> str:
    """The type that LLVM moves 16-bit floats as.

    With scalable vectors, it moves bf16 of a fixed length in halves, through the stack. On x86, it cannot select the
    code where one vector of bf16 is loaded and becomes both halves of another.
    """
    return moved_as(element) if w.target.has_sve or comes_apart(element, lanes) else element


def masked_load(w: LlvmWriter, pointer: str, element: str, lanes: int, mask: str, other: str, *, align: int) -> str:
    """Read consecutive elements; lanes whose `mask` (i1 per lane) is false give `other` and do not read.

    Args:
        w, pointer, element, lanes, align: as for `load`.
        mask: an i1 per lane.
        other: a vector, a scalar for one lane.
    """
    if lanes == 1 or not _has_hardware_mask(w, element, lanes):
        return gather(w, _consecutive(w, pointer, element, lanes), element, mask=mask, other=other, align=align)
    inside = moved_as(element)
    type = vector(inside, lanes)
    start = w.convert("bitcast", other, vector(element, lanes), type)
    loaded = w.call(
        type,
        f"llvm.masked.load.{suffix(type)}.p0",
        [(f"ptr align {align}", pointer), (vector("i1", lanes), mask), (type, start)],
    )
    return w.convert("bitcast", loaded, type, vector(element, lanes))


def masked_store(
    w: LlvmWriter, pointer: str, element: str, lanes: int, value: str, mask: str, *, align: int, is_known: bool = False
) -> None:
    """Write consecutive elements; lanes whose `mask` is false do not write.

    LLVM 22 joins a truncation and a masked store for AVX-512, and, if the mask is known and on in one lane alone, makes
    of both one store of what was truncated: it writes beyond the lane. An assembly text of nothing keeps them apart.

    Where such stores are slow, a register whose lanes are all on is stored without a mask.

    Args:
        is_known: LLVM may find out what the mask is.
    """
    if lanes == 1:
        scatter(w, [pointer], element, value, mask=mask, align=align)
        return
    type = vector(moved_as(element), lanes)
    stored = w.convert("bitcast", value, vector(element, lanes), type)
    if is_known and w.target.has_avx512f and 64 <= bits_of(element) * lanes <= 512:  # fewer bits go lane by lane
        stored = vector_kept_apart(w, moved_as(element), lanes, stored)
    asks = w.target.costs.slow_masked_stores and bits_of(element) * lanes >= w.target.vector_bits
    if is_known or not asks:
        _store_some(w, pointer, moved_as(element), lanes, stored, mask, align)
        return
    with w.branch(all_lanes(w, mask, lanes)) as branch:
        with branch.then():
            w.store(type, stored, pointer, align=align)
        with branch.otherwise():
            _store_some(w, pointer, moved_as(element), lanes, stored, mask, align)


def _store_some(w: LlvmWriter, pointer: str, element: str, lanes: int, value: str, mask: str, align: int) -> None:
    """Write the lanes of several for which `mask` is on."""
    if not _has_hardware_mask(w, element, lanes):
        scatter(w, _consecutive(w, pointer, element, lanes), element, value, mask=mask, align=align)
        return
    type = vector(element, lanes)
    w.call_void(
        f"llvm.masked.store.{suffix(type)}.p0",
        [(type, value), (f"ptr align {align}", pointer), (vector("i1", lanes), mask)],
    )


def gather(
    w: LlvmWriter,
    pointers: Sequence[str],
    element: str,
    *,
    align: int,
    mask: str | None = None,
    other: str | None = None,
    is_safe: bool = False,
) -> str:
    """Read one element per scalar pointer, with scalar loads; masked-off lanes give `other` (all lanes if no mask).

    Returns a vector of `len(pointers)` lanes, a scalar for one pointer.

    Args:
        w: writes the text.
        pointers: the address of each lane.
        element: LLVM's type of an element.
        align: what the addresses are multiples of, in bytes.
        mask: an i1 per lane.
        other: a vector, a scalar for one lane; None: masked-off lanes give anything.
        is_safe: the pointers of masked-off lanes may be read, too.
    """
    lanes, held = len(pointers), element
    if lanes > 1:
        held = moved_as(element)
    type = vector(held, lanes)
    reached = pointers if is_safe or mask is None else _safe(w, pointers, mask)
    loaded = [w.load(held, pointer, align=1 if mask else align) for pointer in reached]
    value = loaded[0] if lanes == 1 else "poison"
    for lane, scalar in enumerate(loaded if lanes > 1 else ()):
        value = w.insert(type, value, held, scalar, lane)
    if mask is not None and other not in (None, "poison", "undef"):
        value = w.select(mask, type, value, w.convert("bitcast", str(other), vector(element, lanes), type), lanes=lanes)
    return w.convert("bitcast", value, type, vector(element, lanes))


def scatter(
    w: LlvmWriter, pointers: Sequence[str], element: str, value: str, *, align: int, mask: str | None = None
) -> None:
    """Write one lane per scalar pointer, in lane order: the last of two equal addresses wins.

    Args:
        w, pointers, element, align, mask: as for `gather`.
        value: the vector, a scalar for one lane.
    """
    lanes, held = len(pointers), element
    if lanes > 1:
        held = moved_as(element)
    type = vector(held, lanes)
    value = w.convert("bitcast", value, vector(element, lanes), type)
    for lane, pointer in enumerate(_safe(w, pointers, mask) if mask else pointers):
        scalar = value if lanes == 1 else w.extract(type, value, lane)
        w.store(held, scalar, pointer, align=1 if mask else align)


def lane_pointers(w: LlvmWriter, base: str, offsets: str, element: str, lanes: int) -> list[str]:
    """Addresses of elements `offsets` (i64 per lane) behind `base`.

    Args:
        w: writes the text.
        base: the address that the offsets count from.
        offsets: an i64 per lane, in elements.
        element: LLVM's type of an element.
        lanes: their number.
    """
    if lanes == 1:
        return [w.emit(f"getelementptr {element}, ptr {base}, i64 {offsets}")]
    type = vector("i64", lanes)
    return [
        w.emit(f"getelementptr {element}, ptr {base}, i64 {w.extract(type, offsets, lane)}") for lane in range(lanes)
    ]


def safe_pointers(w: LlvmWriter, pointers: str, mask: str, lanes: int) -> list[str]:
    """The lanes of a vector of pointers, of which those of masked-off lanes are replaced by a slot on the stack.

    A selection of whole vectors stands for as many flags, and as many selections, as there are lanes.
    """
    type = vector("ptr", lanes)
    safe = w.select(mask, type, pointers, w.splat(w.waste_slot(), "ptr", lanes), lanes=lanes)
    return [w.extract(type, safe, lane) for lane in range(lanes)]


def _safe(w: LlvmWriter, pointers: Sequence[str], mask: str) -> list[str]:
    """The pointers, with those of masked-off lanes replaced by a slot on the stack."""
    slot, flags = w.waste_slot(), lane_flags(w, mask, len(pointers), range(len(pointers)))
    return [
        w.emit(f"select i1 {flag}, ptr {pointer}, ptr {slot}") for flag, pointer in zip(flags, pointers, strict=True)
    ]


def _consecutive(w: LlvmWriter, pointer: str, element: str, lanes: int) -> list[str]:
    # not inbounds: lanes behind the end are masked off
    return [pointer] + [w.emit(f"getelementptr {element}, ptr {pointer}, i64 {lane}") for lane in range(1, lanes)]


def _has_hardware_mask(w: LlvmWriter, element: str, lanes: int) -> bool:
    width = bits_of(element)
    if w.target.has_avx512f:
        return width >= 8 and width * lanes >= 64
    if w.target.has_sve:
        return width * lanes >= 128 and width >= 8
    return w.target.has_avx2 and width >= 32 and width * lanes >= 128
