"""Kernels that read and write the same memory: statements.

block(draft, 3) writes three of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dead_names import without_dead
from kinds import BITS, FLOATS, Kind
from shared_memory_draft import (
    Draft,
    Shape,
    coordinates,
    index,
    load,
    mask,
    scalar,
    small,
    some_pointer,
    unsigned_zeros,
    value,
    with_scalar,
)
from shared_memory_moves import SQUARE, product
from shared_memory_rows import lane_by_lane, of_rows


def block(draft: Draft, size: int) -> None:
    """Some statements; what they assign first is out of sight behind them, unless they are the kernel's own."""
    outer = dict(draft.tiles)
    for _ in range(size):
        forms = (RICH if draft.rich else FEW) + (BLOCKS if draft.depth < (3 if draft.rich else 2) else ())
        forms += (carried,) * len(BLOCKS) if draft.rows and draft.depth < 3 else ()
        draft.rng.choice(forms)(draft)
    if draft.depth > 1:
        draft.tiles = {name: kind for name, kind in draft.tiles.items() if name in outer}
    if draft.lines[-1].endswith(":"):
        draft.say("pass")


def late(draft: Draft, *, lean: bool = False) -> None:
    """Loads, then stores that must not come before them; what is loaded is used behind those."""
    for _ in range(1 if lean else draft.rng.choice((1, 1, 2))):
        kind = some_kind(draft)
        draft.new(kind, load(draft, kind))
    if draft.rng.random() < 0.4:
        reduced(draft, draft.some(kind))
    for _ in range(1 if lean else draft.rng.choice((1, 1, 2))):
        kind = some_kind(draft)
        from_x = f"tl.load(x + i{draft.shapes.index(kind.shape)})"
        fresh = (from_x, str(draft.rng.randint(0, 9)), with_scalar(draft, kind, 1))
        store(draft, kind.shape, draft.rng.choice(fresh))


def late_rows(draft: Draft) -> None:
    """Loads of tiles and numbers of rows, loops that carry them, and stores that must not come before the loads."""
    rng = draft.rng
    for shape in rng.sample(draft.shapes, len(draft.shapes)):
        kind = Kind(draft.dtype, shape)
        draft.new(kind, load(draft, kind) if rng.random() < 0.8 else of_rows(draft, kind))
    for _ in range(rng.choice((0, 1, 1, 2))):
        carried(draft)
    for shape in rng.sample(draft.shapes, len(draft.shapes)):
        store(draft, shape, of_rows(draft, Kind(draft.dtype, shape)))


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
        place = draft.name("w")  # of its own: a variable keeps its shape through the turns of a loop
        draft.say(f"{place} = {where}")
        number = rng.choice((f"({place} * 3 + 1).to(tl.{draft.dtype})", "7", value(draft, Kind(draft.dtype))))
        draft.say(f"tl.store({name} + {place}, {number}{on})")
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


def reduced(draft: Draft, tile: str | None = None) -> None:
    """A tile, or this one, reduced to one number, which may become part of values, addresses, and masks."""
    kind = draft.tiles[tile] if tile else some_kind(draft)
    which = draft.rng.choice(("sum", "max", "min"))
    tile = tile or value(draft, kind, 1)
    tile = small(draft, kind, tile) if which == "sum" else unsigned_zeros(kind, tile)
    name = draft.new(Kind(draft.dtype), f"tl.{which}({tile}).to(tl.{draft.dtype})")
    if draft.dtype not in FLOATS:
        draft.new(Kind("int32"), f"{name}.to(tl.int32)")


def multiplied(draft: Draft) -> None:
    """A matrix product."""
    if SQUARE not in draft.shapes:
        return written(draft)
    kind = Kind(draft.dtype, SQUARE)
    draft.new(kind, product(draft, kind, 1))
    return None


def sorted_tile(draft: Draft) -> None:
    """A tile sorted."""
    flat = [shape for shape in draft.shapes if len(shape) == 1]
    if not flat:
        return new(draft)
    kind = Kind(draft.dtype, draft.rng.choice(flat))
    draft.new(kind, f"tl.sort({unsigned_zeros(kind, value(draft, kind, 1))})")
    return None


def atomic(draft: Draft) -> None:
    """An atomic; where its result is used, no two lanes meet."""
    rng = draft.rng
    name = some_pointer(draft)
    its = draft.pointers[name]
    kind = some_kind(draft)
    if BITS[its] < 32:
        return written(draft)
    operation = rng.choice(("add", "xchg") if its in FLOATS else ATOMICS)
    if operation == "cas":
        return compare_and_swap(draft, name, kind)
    on = f", mask={mask(draft, kind.shape)}" if rng.random() < 0.4 else ""
    used = rng.random() < 0.5
    where = index(draft, kind.shape, distinct=used or operation == "xchg")
    text = f"{value(draft, kind, 1)}.to(tl.{its})"
    call = f"tl.atomic_{operation}({name} + {where}, {small(draft, kind.of(its), text)}{on})"
    if used and not on:
        draft.new(kind, f"{call}.to(tl.{kind.dtype})")
    else:
        draft.say(call)
    return None


def compare_and_swap(draft: Draft, name: str, kind: Kind) -> None:
    """Compare and swap, of lanes that do not meet."""
    its = kind.of(draft.pointers[name])
    held, new = (f"{value(draft, kind, 1)}.to(tl.{its.dtype})" for _ in range(2))
    call = f"tl.atomic_cas({name} + {index(draft, kind.shape, distinct=True)}, {held}, {new})"
    draft.new(kind, f"{call}.to(tl.{kind.dtype})")


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
    draft.counters.append(turns(draft))
    inner(draft)
    draft.counters.pop()


def turns(draft: Draft) -> str:
    """The head of a loop; returns its counter."""
    counter = draft.name("k")
    ranges = ("range(2)", "range(3)", "range(m & 3)", "range(d & 3)", "range(1, d & 3)", "tl.static_range(2)")
    draft.say(f"for {counter} in {draft.rng.choice(ranges)}:")
    return counter


def carried(draft: Draft) -> None:
    """A loop that carries tiles of several shapes, of which later ones may read what earlier ones were.

    Or of one shape, lane by lane: such a loop may go inside of those along the rows.
    """
    rng = draft.rng
    narrow = rng.random() < 0.5
    some = 1 if narrow else min(len(draft.shapes), rng.choice((2, 3)))
    kinds = [Kind(draft.dtype, shape) for shape in rng.sample(draft.shapes, some)]
    names = [draft.some(kind) or draft.new(kind, load(draft, kind)) for kind in kinds]
    counter = turns(draft)
    draft.counters += [] if narrow else [counter]
    draft.depth += 1
    outer = dict(draft.tiles)
    for name, kind in zip(names, kinds, strict=True):
        if rng.random() < 0.5:
            draft.new(kind, name)
        draft.say(f"{name} = {(lane_by_lane if narrow else of_rows)(draft, kind)}")
    for _ in range(0 if narrow else rng.choice((0, 0, 0, 1, 2))):
        written(draft)
    draft.tiles = {name: kind for name, kind in outer.items() if name not in names}
    draft.tiles |= dict(zip(names, kinds, strict=True))  # the last ones to be assigned
    draft.depth -= 1
    if not narrow:
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


def wait(draft: Draft) -> None:
    """A while loop that goes on as long as memory holds something, but for a few rounds at most."""
    rng, rounds = draft.rng, draft.name("rounds")
    place = rng.choice(("n", "m", "0", "d", "9"))
    draft.say(f"{rounds} = {rng.choice(('pid * 0', 'm - m', '0'))}")
    held = f"tl.load({some_pointer(draft)} + {place}) {rng.choice(('>', '<', '!='))} {rng.randint(0, 5)}"
    draft.say(f"while ({rounds} < 3) & ({held}):")
    draft.depth += 1
    draft.say(f"{rounds} += 1")
    draft.depth -= 1
    draft.counters.append(rounds)
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
    places = len(pointers)
    pointers |= {"g": "int32"}
    function = replace(draft, pointers=pointers, aligned=False, tiles={}, helpers={}, counters=[], lines=[])
    name = draft.name("helper")
    coordinates(function)
    function.tiles["v"] = kind
    block(function, rng.randint(1, 2))
    store(function, kind.shape, value(function, kind))
    function.say(f"return {value(function, kind, 1)}")
    draft.names = function.names
    draft.helpers[f"{name}({', '.join(['{}'] * places)}, g, {{}}, pid, n, m, d, s)"] = (kind, dtype)
    body = "".join(f"{line}\n" for line in without_dead(function.lines))
    return f"@tw.jit\ndef {name}({', '.join(pointers)}, v, pid, n, m, d, s):\n{body}\n\n"


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


ATOMICS = ("add", "add", "max", "min", "and", "or", "xor", "xchg", "cas")
FEW = (*[read] * 8, *[written] * 9, reduced, called, new)
RICH = (
    *(*[read] * 6, *[written] * 7, new, one_element, reduced, atomic, atomic),
    *(block_pointer, descriptor, called, called, sorted_tile, multiplied, barrier),
)
BLOCKS = (loop, loop, branch, repeat, wait)
