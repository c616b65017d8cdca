"""Expressions that move, reduce, scan, sort or multiply tiles; they enter themselves into `PRODUCTIONS`."""

from __future__ import annotations

from kernel_expressions import Draft, cast_text, expression, plain, production, whole
from kinds import FLOATS, INTEGERS, LARGEST_TILE, Kind

EXTENTS = (1, 2, 4, 8, 16, 32)
COMBINES = {
    "add": ("a + b", True),
    "multiply": ("a * b", True),
    "larger": ("tl.maximum(a, b)", True),
    "smaller": ("tl.minimum(a, b)", True),
    "either": ("a | b", True),
    "both": ("a & b", True),
    "odd": ("a ^ b", True),
    "left": ("a", False),
    "right": ("b", False),
}
"""Functions to combine integers with: what they compute, and whether the order of operands is free."""


def with_axis(draft: Draft, kind: Kind) -> tuple[Kind, int] | None:
    """A kind with one more axis than `kind`, and the axis."""
    if len(kind.shape) > 2:
        return None
    fitting = [extent for extent in EXTENTS if extent * kind.size <= LARGEST_TILE]
    axis = draft.rng.randint(0, len(kind.shape))
    extent = draft.rng.choice(fitting)
    return Kind(kind.dtype, (*kind.shape[:axis], extent, *kind.shape[axis:])), axis


@production(4)
def reduction(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A built-in reduction."""
    longer = with_axis(draft, kind)
    if longer is None or kind.dtype == "int1":
        return None
    source, axis = longer
    form = draft.rng.choice(("sum", "sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce_or", "max_index"))
    if form in ("argmax", "argmin", "max_index"):
        source = source.of(draft.rng.choice((*INTEGERS, *FLOATS)))
        text = plain(draft, source, depth)
        if form == "max_index":
            return cast_text(draft, f"tl.max({text}, {axis}, return_indices=True)[1]", kind.of("int32"), kind.dtype)
        return cast_text(draft, f"tl.{form}({text}, {axis})", kind.of("int32"), kind.dtype)
    if form in ("xor_sum", "reduce_or") and kind.is_float:
        return None
    text = whole(draft, source, depth) if form == "sum" else plain(draft, source, depth)
    where = axis
    if draft.rng.random() < 0.2 and len(source.shape) > 1:
        return (
            kind.cast(f"tl.reshape(tl.{form}({text}, {axis}, keep_dims=True), {list(kind.shape)})")
            if (kind.shape)
            else None
        )
    if draft.rng.random() < 0.2:
        where = axis - len(source.shape)
    return kind.cast(f"tl.{form}({text}, axis={where})")


@production(1)
def total(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A scalar out of all elements of a tile."""
    if kind.shape or kind.dtype == "int1":
        return None
    shape = tuple(draft.rng.choice((1, 4, 8, 16)) for _ in range(draft.rng.randint(1, 3)))
    source = Kind(kind.dtype, shape)
    if source.size > LARGEST_TILE:
        return None
    form = draft.rng.choice(("sum", "max", "min"))
    text = whole(draft, source, depth) if form == "sum" else plain(draft, source, depth)
    return kind.cast(f"tl.{form}({text})")


def combine_function(draft: Draft, *, is_free: bool) -> str:
    """The name of a function that combines two integers; `is_free`: in any order."""
    name = draft.rng.choice([name for name, (_, free) in COMBINES.items() if free or not is_free])
    head = f"@tw.jit\ndef {name}(a, b):\n    return {COMBINES[name][0]}\n"
    if head not in draft.heads:
        draft.heads.append(head)
    return name


@production(2)
def own_reduction(draft: Draft, kind: Kind, depth: int) -> str | None:
    """tl.reduce with a function of the program's, of one tile or of two."""
    longer = with_axis(draft, kind)
    if longer is None or kind.dtype not in INTEGERS:
        return None
    source, axis = longer
    text = expression(draft, source, depth)
    if draft.rng.random() < 0.6:
        return kind.cast(f"tl.reduce({text}, {axis}, {combine_function(draft, is_free=True)})")
    a, b = (COMBINES[combine_function(draft, is_free=True)][0] for _ in range(2))
    second = b.replace("a", "c").replace("b", "d").replace("tl.mcximum", "tl.maximum")
    name = draft.name("pair")
    head = f"@tw.jit\ndef {name}(a, c, b, d):\n    return {a}, {second}\n"
    draft.heads.append(head)
    other = expression(draft, source.of(draft.rng.choice(INTEGERS)), depth)
    return kind.cast(f"tl.reduce(({text}, {other}), {axis}, {name})[{draft.rng.choice('01')}]")


@production(2)
def scan(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Running sums and products, and scans with a function of the program's."""
    if not kind.shape or kind.dtype == "int1":
        return None
    axis = draft.rng.randrange(len(kind.shape))
    reverse = draft.rng.choice(("", ", reverse=True"))
    if kind.is_float:
        return kind.cast(f"tl.cumsum({whole(draft, kind, depth)}, {axis}{reverse})")
    text = expression(draft, kind, depth)
    form = draft.rng.choice(("cumsum", "cumprod", "own", "own", "line"))
    if form == "own":
        return f"tl.associative_scan({text}, {axis}, {combine_function(draft, is_free=False)}{reverse})"
    if form == "line":
        head = "@tw.jit\ndef line(a, b, c, d):\n    return a * c, b * c + d\n"
        if head not in draft.heads:
            draft.heads.append(head)
        other = expression(draft, kind, depth)
        return f"tl.associative_scan(({text}, {other}), {axis}, line{reverse})[{draft.rng.choice('01')}]"
    return kind.cast(f"tl.{form}({text}, {axis}{reverse})")


@production(2)
def ordered(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Sorts along the last axis, the largest elements, the reverse order."""
    if not kind.shape or kind.dtype == "int1":
        return None
    axis = draft.rng.randrange(len(kind.shape))
    form = draft.rng.choice(("sort", "topk", "flip", "flip"))
    if form == "flip":
        return f"tl.flip({expression(draft, kind, depth)}, {axis})"
    descending = draft.rng.choice(("", ", descending=True"))
    if form == "sort":
        return f"tl.sort({plain(draft, kind, depth)}{descending})"
    longer = Kind(kind.dtype, (*kind.shape[:-1], kind.shape[-1] * draft.rng.choice((1, 2, 4))))
    if longer.size > LARGEST_TILE:
        return None
    return kind.cast(f"tl.topk({plain(draft, longer, depth)}, {kind.shape[-1]})")


STEP = """@tw.jit
def step(x, distance: tl.constexpr, turn: tl.constexpr, descending: tl.constexpr):
    i = tl.arange(0, x.shape[0])
    partner = tl.gather(x, i ^ distance, 0)
    larger, smaller = tl.where(partner > x, partner, x), tl.where(partner < x, partner, x)
    wants_larger = ((i & distance) != 0) ^ ((i & turn) != 0) ^ descending
    return tl.where(wants_larger, larger, smaller)
"""
SORTED_TWICE = """@tw.jit
def sorted_twice(x):
    y = tl.sort(x)
    return y - tl.sort(y, descending=True)
"""


def with_head(draft: Draft, head: str) -> None:
    """Put a function in front of the kernel, once."""
    if head not in draft.heads:
        draft.heads.append(head)


@production(1)
def steps(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Some steps of a sort that is written out, each with any two bits; or two sorts that share a tile."""
    if not kind.shape or kind.dtype == "int1" or kind.size < 4:
        return None
    rng, text = draft.rng, plain(draft, kind, depth)
    if rng.random() < 0.3:
        with_head(draft, SORTED_TWICE)
        return kind.cast(f"sorted_twice({text})") + (" + 0.0" if kind.is_float else "")
    with_head(draft, STEP)
    text = f"tl.reshape({text}, [{kind.size}])"
    for _ in range(rng.randint(1, 6)):
        distance, turn = (1 << rng.randrange(kind.size.bit_length() - 1) for _ in range(2))
        text = f"step({text}, {distance}, {turn}, {rng.random() < 0.3})"
    return f"tl.reshape({text}, {list(kind.shape)})"


@production(1)
def paired(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Pairs of elements are reduced, and both elements get the result."""
    if not kind.shape or kind.dtype not in INTEGERS or kind.size < 2:
        return None
    rng, behind = draft.rng, 1 << draft.rng.randrange(kind.size.bit_length() - 1)
    shape = [kind.size // 2 // behind, 2, behind]
    ranges = [
        f"tl.arange(0, {n})[{place}]"
        for n, place in zip(shape, (":, None, None", "None, :, None", "None, None, :"), strict=True)
    ]
    before, side, after = ranges
    weight = rng.choice(("", f" * {side}", f" * (1 - {side})", f" * {before}", f" ^ {after} ^ {side}"))
    form = rng.choice(("sum", "max", "xor_sum"))
    pair = f"tl.{form}(tl.reshape({expression(draft, kind, depth)}, {shape}){weight}, 1)[:, None, :]"
    return kind.cast(f"tl.reshape(tl.broadcast_to({pair}, {shape}), {list(kind.shape)})")


@production(2)
def gathered(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Elements of another tile, by indices along an axis."""
    if not kind.shape:
        return None
    axis = draft.rng.randrange(len(kind.shape))
    extent = draft.rng.choice(EXTENTS)
    source = Kind(kind.dtype, (*kind.shape[:axis], extent, *kind.shape[axis + 1 :]))
    if source.size > LARGEST_TILE:
        return None
    index = expression(draft, kind.of(draft.rng.choice(("int32", "int32", "int64", "uint8", "int16"))), depth)
    return f"tl.gather({expression(draft, source, depth)}, ({index} & {extent - 1}), {axis})"


@production(1)
def histogram(draft: Draft, kind: Kind, depth: int) -> str | None:
    """The count of each number."""
    if len(kind.shape) != 1 or kind.is_float or kind.dtype == "int1" or kind.size < 2:
        return None
    source = Kind("int32", (draft.rng.choice((8, 32, 128)),))
    mask = f", mask={expression(draft, source.of('int1'), depth)}" if draft.rng.random() < 0.5 else ""
    text = f"tl.histogram({expression(draft, source, depth)} & {kind.size - 1}, {kind.size}{mask})"
    return kind.cast(text)


@production(3)
def moved(draft: Draft, kind: Kind, depth: int) -> str | None:
    """The elements of a tile of another shape."""
    if not kind.shape:
        return None
    rank, rng = len(kind.shape), draft.rng
    form = rng.choice(("permute", "trans", "reshape", "broadcast", "expand", "split", "join", "interleave", "cat"))
    if form == "permute":
        order = rng.sample(range(rank), rank)
        source = [0] * rank
        for axis, from_axis in enumerate(order):
            source[from_axis] = kind.shape[axis]
        return f"tl.permute({expression(draft, Kind(kind.dtype, tuple(source)), depth)}, {order})"
    if form == "trans" and rank > 1:
        source_shape = (*kind.shape[:-2], kind.shape[-1], kind.shape[-2])
        return f"tl.trans({expression(draft, Kind(kind.dtype, source_shape), depth)})"
    if form in ("reshape", "broadcast"):
        some = tuple(extent if rng.random() < 0.5 else 1 for extent in kind.shape)
        shape = factored(draft, kind.size) if form == "reshape" else some
        word = "reshape" if form == "reshape" else "broadcast_to"
        return f"tl.{word}({expression(draft, Kind(kind.dtype, shape), depth)}, {list(kind.shape)})"
    if form == "expand" and rank > 1 and 1 in kind.shape:
        axis = kind.shape.index(1)
        text = expression(draft, Kind(kind.dtype, kind.shape[:axis] + kind.shape[axis + 1 :]), depth)
        slices = ", ".join("None" if other == axis else ":" for other in range(rank))
        return rng.choice((f"tl.expand_dims({text}, {axis})", f"({text})[{slices}]"))
    return halves(draft, kind, depth, form)


def halves(draft: Draft, kind: Kind, depth: int, form: str) -> str | None:
    """Tiles that are put together of two, or taken apart."""
    rank = len(kind.shape)
    if form == "split" and rank < 3 and kind.size * 2 <= LARGEST_TILE:
        text = expression(draft, Kind(kind.dtype, (*kind.shape, 2)), depth)
        return f"tl.split({text})[{draft.rng.choice('01')}]"
    axis = draft.rng.randrange(rank) if form == "cat" else rank - 1
    if form not in ("join", "interleave", "cat") or kind.shape[axis] < 2:
        return None
    if form == "join":
        if kind.shape[-1] != 2 or rank < 2:
            return None
        parts = [expression(draft, Kind(kind.dtype, kind.shape[:-1]), depth) for _ in range(2)]
        return f"tl.join({parts[0]}, {parts[1]})"
    half = Kind(kind.dtype, (*kind.shape[:axis], kind.shape[axis] // 2, *kind.shape[axis + 1 :]))
    parts = [expression(draft, half, depth) for _ in range(2)]
    if form == "interleave":
        return f"tl.interleave({parts[0]}, {parts[1]})"
    return f"tl.cat({parts[0]}, {parts[1]}, dim={axis})"


def factored(draft: Draft, size: int) -> tuple[int, ...]:
    """A shape with `size` elements, which is a power of two."""
    shape = [1] * draft.rng.randint(1, 3)
    while size > 1:
        shape[draft.rng.randrange(len(shape))] *= 2
        size //= 2
    return tuple(shape)


@production(2)
def product(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A product of matrices, or of stacks of them."""
    rng = draft.rng
    if len(kind.shape) < 2 or kind.dtype not in ("int32", "float16", "float32", "float64"):
        return None
    least = 16 if draft.gpu else 1
    if min(kind.shape[-2:]) < least or (draft.gpu and len(kind.shape) > 2):
        return None
    k = rng.choice((16, 32) if not draft.gpu else (32,))
    left, right = (*kind.shape[:-1], k), (*kind.shape[:-2], k, kind.shape[-1])
    if Kind("", left).size > LARGEST_TILE or Kind("", right).size > LARGEST_TILE:
        return None
    if kind.dtype == "int32":
        a, b = (expression(draft, Kind(rng.choice(("int8",)), shape), depth) for shape in (left, right))
        return f"tl.dot({a}, {b}, out_dtype=tl.int32)" + rng.choice(("", f" + {expression(draft, kind, depth)}"))
    factor = {"float16": "float16", "float64": "float64"}.get(kind.dtype) or rng.choice(
        ("float16", "float32", "bfloat16", "float8e5")
    )
    inner = "float16" if factor == "float8e5" else factor
    a, b = (whole(draft, Kind(inner, shape), depth, 4) for shape in (left, right))
    if inner != factor:
        a, b = (f"({text}).to(tl.{factor})" for text in (a, b))
    options = f", out_dtype=tl.{kind.dtype}"
    if rng.random() < 0.5:
        options += f", acc={whole(draft, kind, depth)}"
    if factor == "float32":
        options += ", input_precision='ieee'"
    return f"tl.dot({a}, {b}{options})"
