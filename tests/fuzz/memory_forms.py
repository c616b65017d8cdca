"""Loads and stores of generated kernels: addresses of every form, masks, block pointers, descriptors, atomics.

Inputs are arrays `x_DTYPE` of `INPUT` elements, which all programs read; outputs are arrays `o_DTYPE`, in which each
program has `WIDTH_o_DTYPE` elements of its own, and each store its part of them.
"""

from __future__ import annotations

from kernel_expressions import Draft, cast_text, expression, leaf
from kinds import BITS, EIGHTHS, Kind

INPUT = 4096
PROGRAMS = 4
"""The most programs of a launch."""


def axes(draft: Draft, shape: tuple[int, ...], strides: tuple[int, ...], start: str) -> str:
    """Indices of a tile: start + i * strides[0] + j * strides[1] …"""
    terms = [start] if start != "0" else []
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        slices = ", ".join(":" if other == axis else "None" for other in range(len(shape)))
        text = f"tl.arange(0, {extent})" + (f"[{slices}]" if len(shape) > 1 else "")
        terms.append(text if stride == 1 else f"{text} * {stride}")
    return f"({' + '.join(terms)})"


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tile whose rows follow each other."""
    strides: list[int] = []
    size = 1
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return tuple(strides)


def distinct(draft: Draft, shape: tuple[int, ...], start: int) -> tuple[str, int]:
    """Indices no two of which are equal, and how many elements they span."""
    rng, size = draft.rng, Kind("", shape).size
    form = rng.choice(("rows", "rows", "rows", "columns", "wide", "backwards", "scattered"))
    strides = row_major(shape)
    if form == "columns":
        strides = tuple(reversed(row_major(tuple(reversed(shape)))))
    if form == "wide":
        return axes(draft, shape, tuple(2 * stride for stride in strides), str(start)), 2 * size
    if form == "backwards":
        return axes(draft, shape, tuple(-stride for stride in strides), str(start + size - 1)), size
    if form == "scattered":
        factor = rng.choice((3, 5, 7))
        return f"(({axes(draft, shape, strides, '0')} * {factor} & {size - 1}) + {start})", size
    return axes(draft, shape, strides, str(start)), size


def any_indices(draft: Draft, shape: tuple[int, ...], depth: int) -> str:
    """Indices below INPUT, some of which may be equal."""
    rng = draft.rng
    if rng.random() < 0.2:
        return f"({expression(draft, Kind('int32', shape), depth)} & {rng.choice((15, 255, INPUT - 1))})"
    start = rng.choice((0, 0, 16, 3, 100))
    if not shape:
        return str(start) if rng.random() < 0.5 else f"pid * {rng.choice((1, 16))} + {start}"
    if rng.random() < 0.25:
        strides = tuple(rng.choice((0, 1, 1, 3, extent)) for extent in shape)
        if sum(stride * extent for stride, extent in zip(strides, shape, strict=True)) < INPUT // 2:
            return axes(draft, shape, strides, str(start))
    text, _ = distinct(draft, shape, start)
    return text if rng.random() < 0.6 else f"({text} + pid * {rng.choice((1, 8, 64))})"


@leaf(4)
def loaded(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A load, perhaps masked, perhaps of fp8."""
    if draft.in_helper or depth < -2:
        return None
    rng = draft.rng
    dtype = rng.choice(EIGHTHS) if kind.is_float and rng.random() < 0.1 else kind.dtype
    if dtype == "float8e4nv" and draft.gpu:
        dtype = "float8e5"
    draft.inputs.add(dtype)
    index = any_indices(draft, kind.shape, depth)
    if rng.random() < 0.2:
        index = f"({index}).to(tl.int64)" if not index.isdigit() else index
    text = f"tl.load(x_{dtype} + {index})"
    if kind.shape and rng.random() < 0.5:
        text = masked_load(draft, kind.of(dtype), index, depth)
    return cast_text(draft, text, kind.of(dtype), kind.dtype)


def masked_load(draft: Draft, kind: Kind, index: str, depth: int) -> str:
    """A load of only some lanes; the others may be anywhere."""
    rng = draft.rng
    other = "0.0" if kind.dtype in EIGHTHS else expression(draft, kind, min(depth, 0))
    if rng.random() < 0.4:
        mask = expression(draft, kind.of("int1"), depth)
    elif rng.random() < 0.5:
        mask = f"{index} < {rng.choice(('n', 'm * 16', '77'))}"
    else:
        strides = row_major(kind.shape)
        inside = rng.choice((0, 1, kind.size // 2, kind.size - 1))
        index = axes(draft, kind.shape, strides, "0")
        return f"tl.load(x_{kind.dtype} + {INPUT - inside} + {index}, mask={index} < {inside}, other={other})"
    return f"tl.load(x_{kind.dtype} + {index}, mask={mask}, other={other})"


def store(draft: Draft, depth: int, kind: Kind, value: str, *, nearly: bool = False) -> None:
    """Store a tile in a part of an output that nothing else is stored in."""
    array = ("near_" if nearly else "o_") + kind.dtype
    start = draft.outputs.get(array, 0)
    if not kind.shape:
        draft.outputs[array] = start + 1
        draft.say(depth, f"tl.store({array} + pid * WIDTH_{array} + {start}, {value})")
        return
    index, span = distinct(draft, kind.shape, start)
    draft.outputs[array] = start + span
    mask = ""
    if draft.rng.random() < 0.4:
        mask = ", mask=" + draft.rng.choice((expression(draft, kind.of("int1"), 1), f"{index} < {start} + n"))
    draft.say(depth, f"tl.store({array} + pid * WIDTH_{array} + {index}, {value}{mask})")


def block_pointer(draft: Draft, depth: int, kind: Kind) -> str:
    """A variable with what a block pointer that moves has loaded; two statements and a loop."""
    rng, rank = draft.rng, len(kind.shape)
    draft.inputs.add(kind.dtype)
    extents = [rng.choice((extent, extent + 3, 2 * extent)) for extent in kind.shape]
    while Kind("", tuple(extents)).size > INPUT:
        extents = list(kind.shape)
    strides = row_major(tuple(extents))
    order = list(reversed(range(rank)))
    if rank == 2 and rng.random() < 0.3:
        strides, order = (1, extents[0]), [0, 1]
    offsets = [rng.choice(("0", "0", "pid", "1", "-2", "n & 3")) for _ in range(rank)]
    pointer, value = draft.name("bp"), draft.name("v")
    draft.say(
        depth,
        f"{pointer} = tl.make_block_ptr(x_{kind.dtype}, {extents}, {list(strides)}, [{', '.join(offsets)}],"
        f" {list(kind.shape)}, {order})",
    )
    boundary = f", boundary_check={tuple(range(rank))}" + rng.choice(("", ", padding_option='zero'"))
    draft.say(depth, f"{value} = tl.load({pointer}{boundary})")
    if rng.random() < 0.7:
        draft.say(depth, f"for _ in range({rng.choice(('2', 'n & 3'))}):")
        draft.say(
            depth + 1, f"{pointer} = tl.advance({pointer}, [{', '.join(rng.choice('0123') for _ in range(rank))}])"
        )
        operator = "|" if not kind.is_float else "+"
        draft.say(depth + 1, f"{value} = {kind.cast(f'{value} {operator} tl.load({pointer}{boundary})')}")
    draft.scope[value] = kind
    return value


def descriptor(draft: Draft, depth: int, kind: Kind) -> str | None:
    """A variable with what a tensor descriptor has loaded; perhaps it is stored by one as well."""
    rng = draft.rng
    itemsize = BITS[kind.dtype] // 8
    if kind.dtype == "int1" or not kind.shape or kind.shape[-1] * itemsize < 16 or kind.shape[-1] > 256:
        return None
    draft.inputs.add(kind.dtype)
    extents = [extent + rng.choice((0, 3)) for extent in kind.shape[:-1]] + [kind.shape[-1] * rng.choice((1, 2))]
    if Kind("", tuple(extents)).size > INPUT:
        return None
    strides = list(row_major(tuple(extents)))
    offsets = [rng.choice(("0", "pid", "1", "n & 3", "-1")) for _ in extents[:-1]]
    offsets.append(rng.choice(("0", "pid * 16", "-16", "(n & 1) * 16")))  # in memory a multiple of 16 bytes
    name, value = draft.name("d"), draft.name("v")
    nan = ", padding_option='nan'" if kind.is_float and rng.random() < 0.3 else ""
    shape = f"{extents}, {strides}, {list(kind.shape)}"
    draft.say(depth, f"{name} = tl.make_tensor_descriptor(x_{kind.dtype}, {shape}{nan})")
    draft.say(depth, f"{value} = {name}.load([{', '.join(offsets)}])")
    draft.scope[value] = kind
    return value


def atomic(draft: Draft, depth: int) -> None:
    """An atomic whose lanes may meet, so that nobody looks at what was there before; or one whose lanes do not."""
    rng = draft.rng
    kind = Kind(rng.choice(("int32", "int64", "uint32", "uint64", "float32")), rng.choice(draft.shapes))
    operation = rng.choice(("add",) if kind.is_float else ("add", "max", "min", "and", "or", "xor"))
    value = (
        expression(draft, kind, 1)
        if not kind.is_float
        else f"tl.floor(tl.clamp({expression(draft, kind, 1)}, 0.0, 4.0))"
    )
    mask = f", mask={expression(draft, kind.of('int1'), 1)}" if rng.random() < 0.5 else ""
    draft.counted.add(f"{kind.dtype}_{operation}")
    index = f"({expression(draft, kind.of('int32'), 1)} & 63)"
    draft.say(depth, f"tl.atomic_{operation}(a_{kind.dtype}_{operation} + {index}, {value}{mask})")


def atomic_result(draft: Draft, depth: int) -> None:
    """An atomic on memory of the program's own, one lane per element, whose result is used."""
    rng = draft.rng
    kind = Kind(rng.choice(("int32", "int64", "uint32", "float32")), rng.choice(draft.shapes))
    array = f"o_{kind.dtype}"
    index, span = (
        distinct(draft, kind.shape, draft.outputs.get(array, 0))
        if kind.shape
        else (str(draft.outputs.get(array, 0)), 1)
    )
    draft.outputs[array] = draft.outputs.get(array, 0) + span
    name = draft.name("v")
    operation = rng.choice(("add", "xchg", "cas") if kind.is_float else ("add", "xchg", "max", "xor", "cas"))
    value = expression(draft, kind, 1)
    first = f"{expression(draft, kind, 0)}, " if operation == "cas" else ""
    masks = operation != "cas" and rng.random() < 0.4 and kind.shape
    mask = expression(draft, kind.of("int1"), 1) if masks else ""
    keyword = f", mask={mask}" if mask else ""
    text = f"tl.atomic_{operation}({array} + pid * WIDTH_{array} + {index}, {first}{value}{keyword})"
    draft.say(depth, f"{name} = " + (f"tl.where({mask}, {text}, {expression(draft, kind, 0)})" if mask else text))
    draft.scope[name] = kind
