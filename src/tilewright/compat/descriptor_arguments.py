"""Tensor descriptors as launchers of other back ends pass them: as several arguments in the place of one.

expand_signature(["i32", "tensordesc<fp16[16,32]>"], [], "desc")
# ["i32", "*fp16", 4 x "i64" (shape and strides), 2 x "i1" (padding, rounding), 2 x "i32", 2 x "i64"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^\[>]*)\[([^\]]*)\]")
_INPUT_RANK = re.compile(r",input_rank=(\d+)")


def expand_signature(signature: Sequence[Any], tensordesc_meta: Any, descriptor_type: str) -> list[Any]:
    """The types of a kernel's arguments with every descriptor replaced by what stands for it.

    Args:
        signature: type strings, and tuples of them.
        tensordesc_meta: what the back end says of each descriptor; without it, descriptors are taken apart.
        descriptor_type: the type of a descriptor that is not taken apart.
    """
    expanded: list[Any] = []
    for kind in signature:
        if isinstance(kind, tuple):
            expanded.append(tuple(expand_signature(kind, tensordesc_meta, descriptor_type)))
        elif is_descriptor(kind):
            expanded += _parts(kind, descriptor_type if tensordesc_meta else None)
        else:
            expanded.append(kind)
    return expanded


def wrap_handle_tensordesc_impl(
    launcher: Callable[..., Any], signature: Any, tensordesc_meta: Any, make_tensordesc_arg: Callable[..., Any]
) -> Callable[..., Any]:
    """A launcher that replaces descriptors among a kernel's arguments; `launcher` itself where there are none.

    Args:
        launcher: gets the launch's own arguments, then the list of the kernel's.
        signature: types by parameter.
        tensordesc_meta: what the back end says of each descriptor, in order; or None.
        make_tensordesc_arg: makes the arguments in the place of one, of it, its `tensordesc_meta` and the launch's own.
    """
    kinds = tuple(signature.values())
    count = _count(kinds)
    if count == 0:
        return launcher

    def launch(*arguments: Any) -> Any:
        *own, given = arguments
        facts = iter(tensordesc_meta or [None] * count)

        def replaced(values: Sequence[Any], types: Sequence[Any]) -> Iterator[Any]:
            for value, kind in zip(values, types, strict=True):
                if isinstance(kind, tuple):
                    yield tuple(replaced(value, kind))
                elif is_descriptor(kind):
                    yield from make_tensordesc_arg(value, next(facts), tuple(own))
                else:
                    yield value

        return launcher(*own, list(replaced(given, kinds)))

    return launch


def is_descriptor(kind: Any) -> bool:
    """Whether a type is that of a tensor descriptor."""
    return isinstance(kind, str) and kind.startswith("tensordesc")


def _count(kinds: Sequence[Any]) -> int:
    return sum(_count(kind) if isinstance(kind, tuple) else is_descriptor(kind) for kind in kinds)


def _parts(kind: str, descriptor_type: str | None) -> list[str]:
    found = _DESCRIPTOR.match(kind)
    if found is None:
        raise ValueError(f"{kind!r} is not the type of a tensor descriptor")
    element, block = found.groups()
    stated = _INPUT_RANK.search(kind)
    rank = int(stated[1]) if stated else block.count(",") + 1
    whole = [descriptor_type] if descriptor_type else [f"*{element}", *["i64"] * 2 * rank, "i1", "i1"]
    return [*whole, *["i32"] * rank, *["i64"] * rank]
