"""Kernels that read and write the same memory: statements, and the program around them.

program(Random(7)).text     the source of a module with a function `kernel`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random

from kinds import BITS, FLOATS, SIGNED, UNSIGNED, Kind
from shared_memory_draft import (
    Draft,
    Shape,
    coordinates,
    index,
    load,
    mask,
    scalar,
    small,
    some_habits,
    some_pointer,
    value,
    with_scalar,
)

HEAD = "import tilewright as tw\nimport tilewright.language as tl\n\n\n"
SCALARS = ("n", "m", "d")
SHAPES: tuple[Shape, ...] = (
    *((8,), (16,), (32,), (64,), (64,), (128,), (4, 4), (8, 8), (2, 8), (8, 4), (1, 16), (4, 16), (4, 32)),
    *((2, 2, 4), (2, 4, 8), (4, 2, 2)),
)
LARGE: tuple[Shape, ...] = (*[(64,)] * 5, *[(128,)] * 3, *((8, 16), (4, 32), (2, 64), (16, 8), (8, 8)), (2, 4, 16))
"""Tiles of several vectors, which loops go through: in these order shows."""
LARGEST = max(prod(shape) for shape in SHAPES)
REACH = 8 * LARGEST
"""The elements of an array that a program may touch, beginning at its region."""
REGION = REACH + 2 * LARGEST
"""From one program's region to the next, in elements of the kernel's dtype."""


@dataclass(frozen=True)
class Launch:
    """What one launch of a program is given.

    Attributes:
        offsets: where each view begins, in elements of the kernel's dtype.
        n, m, d: the scalars.
        programs: the extent of the grid.
        threads: how many threads.
        seed: of the numbers in memory.
    """

    offsets: tuple[int, ...]
    n: int
    m: int
    d: int
    programs: int
    threads: int
    seed: int


@dataclass(frozen=True)
class SharedProgram:
    """A kernel, and the launches that are made of it.

    Attributes:
        text: the source of the module.
        dtype: of the shared array, and of `x` and `y`.
        views: the dtypes of `p0`, `p1`, ….
        size: of the largest tile.
        launches: what it is launched with.
    """

    text: str
    dtype: str
    views: tuple[str, ...]
    size: int
    launches: tuple[Launch, ...]


def program(rng: Random) -> SharedProgram:
    """A random program."""
    dtype = rng.choice(("int32", "int32", "float32", "float32", rng.choice(SIGNED + UNSIGNED), rng.choice(FLOATS)))
    views = [dtype] * rng.choice((1, 1, 2, 2, 2, 3, 4))
    if dtype not in FLOATS and len(views) > 1 and rng.random() < 0.15:
        views[-1] = rng.choice([other for other in SIGNED + UNSIGNED if BITS[other] <= BITS[dtype]])
    rich = rng.random() < 0.3
    drawn = [rng.choice(SHAPES) for _ in range(rng.choice((1, 1, 2)))] if rich else [rng.choice(LARGE)]
    shapes = tuple(dict.fromkeys(drawn))
    pointers = {f"p{k}": view for k, view in enumerate(views)} | {"x": dtype, "y": dtype, "g": "int32"}
    draft = Draft(rng, dtype, pointers, shapes, aligned=rng.random() < 0.4, rich=rich)
    draft.sharing = rng.choice((0.4, 0.6, 0.9))
    draft.habits = some_habits(rng)
    heads = helper(draft) if rng.random() < (0.4 if rich else 0.08) else ""
    draft.say("pid = tl.program_id(0)")
    for name, its in pointers.items():
        draft.say(f"{name} += pid * {REGION * (BITS[dtype] // BITS[its] if name[0] == 'p' else 1)}")
    coordinates(draft)
    if rich or rng.random() < 0.3:
        block(draft, rng.randint(2, 5))
    else:
        late(draft)
    tiles = [name for name, kind in draft.tiles.items() if kind.shape]
    for name in tiles[-rng.choice((1, 2)) :]:
        number = draft.some(Kind(dtype))
        text = f"({name} + {number}).to(tl.{dtype})" if number and rng.random() < 0.6 else name
        store(draft, draft.tiles[name].shape, text)
    signature = ", ".join([*pointers, *SCALARS])
    body = "".join(f"{line}\n" for line in draft.lines)
    size = max(prod(shape) for shape in shapes)
    return SharedProgram(
        text=f"{HEAD}{heads}@tw.jit\ndef kernel({signature}):\n{body}",
        dtype=dtype,
        views=tuple(views),
        size=size,
        launches=launches(rng, len(views), size, draft.aligned),
    )


def launches(rng: Random, views: int, size: int, aligned: bool) -> tuple[Launch, ...]:
    """What the kernel is launched with; all launches take the same machine code.

    Numbers are neither 1 nor multiples of 16, and no view begins at a multiple of 16 bytes unless all do.
    """

    def offset(view: int) -> int:
        if aligned:
            return 16 * rng.choice((0, 0, 0, 1, 2, size // 16))
        return rng.choice((0, 0, 0, 1, 2, 8, size // 4, rng.randrange(size // 2))) * 2 + 1

    def number(least: int, most: int) -> int:
        return rng.choice([k for k in range(least, most + 1) if k % 16 and k != 1])

    found = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        offsets = [offset(view) for view in range(views)]
        if rng.random() < 0.5:
            offsets = [offsets[0]] * views
        programs, threads = rng.choice(((1, 1), (1, 1), (1, 1), (3, 1), (3, 2)))
        found.append(
            Launch(tuple(offsets), number(2, size), number(2, 9), number(2, 7), programs, threads, rng.randrange(1000))
        )
    return tuple(found)


# --- statements -------------------------------------------------------------------------------------------------


def block(draft: Draft, size: int) -> None:
    """Some statements; what they assign first is out of sight behind them, unless they are the kernel's own."""
    outer = dict(draft.tiles)
    for _ in range(size):
        forms = (RICH if draft.rich else FEW) + (BLOCKS if draft.depth < (3 if draft.rich else 2) else ())
        draft.rng.choice(forms)(draft)
    if draft.depth > 1:
        draft.tiles = {name: kind for name, kind in draft.tiles.items() if name in outer}
    if draft.lines[-1].endswith(":"):
        draft.say("pass")


def late(draft: Draft) -> None:
    """Loads, then stores that must not come before them; what is loaded is used behind those."""
    for _ in range(draft.rng.choice((1, 1, 2))):
        kind = some_kind(draft)
        draft.new(kind, load(draft, kind))
    if draft.rng.random() < 0.25:
        reduced(draft)
    for _ in range(draft.rng.choice((1, 1, 2))):
        kind = some_kind(draft)
        from_x = f"tl.load(x + i{draft.shapes.index(kind.shape)})"
        fresh = (from_x, str(draft.rng.randint(0, 9)), with_scalar(draft, kind, 1))
        store(draft, kind.shape, draft.rng.choice(fresh))


def some_kind(draft: Draft) -> Kind:
    """A kind of tile."""
    return Kind(draft.dtype, draft.rng.choice(draft.shapes))


def new(draft: Draft) -> None:
    """A new variable, or another value for an old one."""
    kind = some_kind(draft)
    text = value(draft, kind)
    old = draft.some(kind)
    if old and draft.depth > 1 and draft.rng.random() < 0.6:
        draft.say(f"{old} = {text}")
    else:
        draft.new(kind, text)


def read(draft: Draft) -> None:
    """A load whose result is used later."""
    kind = some_kind(draft)
    old = draft.some(kind)
    if old and draft.depth > 1 and draft.rng.random() < 0.6:
        draft.say(f"{old} = {load(draft, kind)}")
    else:
        draft.new(kind, load(draft, kind))


def written(draft: Draft) -> None:
    """A store."""
    shape = draft.rng.choice(draft.shapes)
    store(draft, shape, value(draft, Kind(draft.dtype, shape)))


def store(draft: Draft, shape: Shape, text: str) -> None:
    """A store of `text`; where lanes meet, of what depends on the address only."""
    rng = draft.rng
    name = some_pointer(draft)
    on = f", mask={mask(draft, shape)}" if rng.random() < draft.habits.masked else ""
    if rng.random() < 0.08:
        where = index(draft, shape, distinct=False)
        draft.say(f"w = {where}")
        number = rng.choice((f"(w * 3 + 1).to(tl.{draft.dtype})", "7", value(draft, Kind(draft.dtype))))
        draft.say(f"tl.store({name} + w, {number}{on})")
        return
    if rng.random() < 0.05:
        i = f"i{draft.shapes.index(shape)}"
        draft.say(f"tl.store({name} + {i} // 2, {text}, mask={i} % 2 == {rng.randrange(2)})")
        return
    draft.say(f"tl.store({name} + {index(draft, shape, distinct=True)}, {text}{on})")


def one_element(draft: Draft) -> None:
    """A load or store of one element."""
    rng = draft.rng
    place = rng.choice(("n", "m", "d", "0", str(rng.randint(0, 40)), f"({scalar(draft)} & 15)"))
    if rng.random() < 0.4:
        draft.new(Kind(draft.dtype), f"tl.load({some_pointer(draft)} + {place}).to(tl.{draft.dtype})")
    else:
        draft.say(f"tl.store({some_pointer(draft)} + {place}, {value(draft, Kind(draft.dtype))})")


def reduced(draft: Draft) -> None:
    """A tile reduced to one number, which may become part of values, addresses, and masks."""
    kind = some_kind(draft)
    which = draft.rng.choice(("sum", "max", "min"))
    tile = value(draft, kind, 1)
    tile = small(draft, tile) if which == "sum" else tile
    name = draft.new(Kind(draft.dtype), f"tl.{which}({tile}).to(tl.{draft.dtype})")
    if draft.dtype not in FLOATS:
        draft.new(Kind("int32"), f"{name}.to(tl.int32)")


def sorted_tile(draft: Draft) -> None:
    """A tile sorted."""
    flat = [shape for shape in draft.shapes if len(shape) == 1]
    if not flat:
        return new(draft)
    kind = Kind(draft.dtype, draft.rng.choice(flat))
    draft.new(kind, f"tl.sort({value(draft, kind, 1)})")
    return None


def atomic(draft: Draft) -> None:
    """An atomic; where its result is used, no two lanes meet."""
    rng = draft.rng
    name = some_pointer(draft)
    its = draft.pointers[name]
    kind = some_kind(draft)
    if BITS[its] < 32:
        return written(draft)
    operation = rng.choice(("add", "xchg") if its in FLOATS else ("add", "add", "max", "xor", "xchg"))
    on = f", mask={mask(draft, kind.shape)}" if rng.random() < 0.4 else ""
    used = rng.random() < 0.5
    where = index(draft, kind.shape, distinct=used or operation == "xchg")
    text = f"{value(draft, kind, 1)}.to(tl.{its})"
    call = f"tl.atomic_{operation}({name} + {where}, {small(draft, text)}{on})"
    if used and not on:
        draft.new(kind, f"{call}.to(tl.{kind.dtype})")
    else:
        draft.say(call)
    return None


def block_pointer(draft: Draft) -> None:
    """A block pointer: loaded, stored, perhaps moved between."""
    rng, kind = draft.rng, some_kind(draft)
    name = some_pointer(draft)
    rank = len(kind.shape)
    extents = [extent + rng.choice((0, 0, 3, extent)) for extent in kind.shape]
    strides = [prod(extents[axis + 1 :]) for axis in range(rank)]
    order = list(reversed(range(rank)))
    if rank == 2 and rng.random() < 0.3:
        strides, order = [1, extents[0]], [0, 1]
    offsets = [rng.choice(("0", "0", "1", "-1")) for _ in kind.shape]
    pointer = draft.name("b")
    start = rng.choice(("", " + 2", " + d"))
    draft.say(
        f"{pointer} = tl.make_block_ptr({name}{start}, {extents}, {strides}, [{', '.join(offsets)}],"
        f" {list(kind.shape)}, {order})"
    )
    check = f"boundary_check={tuple(range(rank))}"
    for _ in range(rng.choice((1, 2))):
        if rng.random() < 0.5:
            draft.new(kind, f"tl.load({pointer}, {check}).to(tl.{kind.dtype})")
        else:
            draft.say(f"tl.store({pointer}, {value(draft, kind)}.to(tl.{draft.pointers[name]}), {check})")
        if rng.random() < 0.5:
            steps = ", ".join(rng.choice(("0", "1", "2")) for _ in kind.shape)
            draft.say(f"{pointer} = tl.advance({pointer}, [{steps}])")


def descriptor(draft: Draft) -> None:
    """A tensor descriptor: loaded, stored."""
    rng, kind = draft.rng, some_kind(draft)
    name = some_pointer(draft)
    its = draft.pointers[name]
    if not draft.aligned or kind.shape[-1] * BITS[its] < 128:
        return block_pointer(draft)
    step = 128 // BITS[its]
    extents = [extent + rng.choice((0, 1)) for extent in kind.shape[:-1]] + [kind.shape[-1] + rng.choice((0, step))]
    strides = [prod(extents[axis + 1 :]) for axis in range(len(extents))]
    pointer = draft.name("t")
    draft.say(f"{pointer} = tl.make_tensor_descriptor({name}, {extents}, {strides}, {list(kind.shape)})")
    for _ in range(rng.choice((1, 2))):
        offsets = [rng.choice(("0", "0", "1", "-1")) for _ in kind.shape[:-1]] + [rng.choice(("0", str(step)))]
        if rng.random() < 0.5:
            draft.new(kind, f"{pointer}.load([{', '.join(offsets)}]).to(tl.{kind.dtype})")
        else:
            draft.say(f"{pointer}.store([{', '.join(offsets)}], {value(draft, kind)}.to(tl.{its}))")
    return None


def loop(draft: Draft) -> None:
    """A loop with a counter that addresses may have."""
    rng = draft.rng
    counter = draft.name("k")
    ranges = ("range(2)", "range(3)", "range(m & 3)", "range(d & 3)", "range(1, d & 3)", "tl.static_range(2)")
    draft.say(f"for {counter} in {rng.choice(ranges)}:")
    draft.counters.append(counter)
    inner(draft)
    draft.counters.pop()


def repeat(draft: Draft) -> None:
    """A while loop of a few rounds."""
    left = draft.name("left")
    draft.say(f"{left} = {draft.rng.choice(('n', 'm', f'({scalar(draft)})'))} & 3")
    draft.say(f"while {left} > 0:")
    draft.depth += 1
    draft.say(f"{left} -= 1")
    draft.depth -= 1
    draft.counters.append(left)
    inner(draft)
    draft.counters.pop()


def branch(draft: Draft) -> None:
    """if, and perhaps else."""
    rng = draft.rng
    tests = (f"n > {rng.randint(2, 40)}", "m > d", f"{scalar(draft)} > {rng.randint(0, 9)}", "pid != 1")
    draft.say(f"if {rng.choice(tests)}:")
    inner(draft)
    if rng.random() < 0.4:
        draft.say("else:")
        inner(draft)


def inner(draft: Draft) -> None:
    """The statements of a loop or branch."""
    draft.depth += 1
    block(draft, draft.rng.randint(1, 3))
    draft.depth -= 1


def helper(draft: Draft) -> str:
    """The text of a function that loads and stores, and gives a tile back."""
    rng = draft.rng
    kind = some_kind(draft)
    dtype = draft.dtype
    pointers = {"p": dtype, "q": dtype} if rng.random() < 0.5 else {"p": dtype}
    function = replace(draft, pointers=pointers, aligned=False, tiles={}, helpers={}, counters=[], lines=[])
    name = draft.name("helper")
    coordinates(function)
    function.tiles["v"] = kind
    block(function, rng.randint(1, 2))
    store(function, kind.shape, value(function, kind))
    function.say(f"return {value(function, kind, 1)}")
    draft.names = function.names
    draft.helpers[f"{name}({', '.join(['{}'] * len(pointers))}, {{}}, pid, n, m, d)"] = (kind, dtype)
    body = "".join(f"{line}\n" for line in function.lines)
    return f"@tw.jit\ndef {name}({', '.join(pointers)}, v, pid, n, m, d):\n{body}\n\n"


def called(draft: Draft) -> None:
    """A call of the helper."""
    if not draft.helpers:
        return written(draft)
    rng = draft.rng
    call, (kind, dtype) = rng.choice(list(draft.helpers.items()))
    names = [name for name, its in draft.pointers.items() if its == dtype and name != "g"]
    starts = ("", "", " + 3", " + d")
    pointers = [rng.choice(names) + rng.choice(starts) for _ in range(call.count("{}") - 1)]
    draft.new(kind, call.format(*pointers, value(draft, kind, 1)))
    return None


def barrier(draft: Draft) -> None:
    """A barrier, which changes nothing."""
    draft.say("tl.debug_barrier()")


FEW = (*[read] * 8, *[written] * 9, reduced, called, new)
RICH = (
    *(*[read] * 6, *[written] * 7, new, one_element, reduced, atomic),
    *(block_pointer, descriptor, called, called, sorted_tile, barrier),
)
BLOCKS = (loop, loop, branch, repeat)
