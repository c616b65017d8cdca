"""Functions with many drawn accesses to shared memory, as text: addresses and masks of all forms that kernels have.

%x, %y: f32, %h: f16, %b: i8 are pointers, perhaps into one array; %g holds indices; %n, %m: i32, %w: i64, %c: i1
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

Shape = tuple[int, ...]
POINTERS = {"x": "f32", "y": "f32", "h": "f16", "b": "i8"}
ARGUMENTS = "%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %h: !tt.ptr<f16>, %b: !tt.ptr<i8>, %g: !tt.ptr<i32>"
NUMBERS = "%n: i32, %m: i32, %w: i64, %c: i1"


FAR = (256, 1 << 30)
"""Distances to what small arguments do not reach."""


class Draft:
    """A function being written.

    Attributes:
        far: some indices are far from others.
        lines: its ops.
        scalars: names of i32 scalars that are known here.
        masks: masks of this shape that were used before.
    """

    def __init__(self, rng: Random, shape: Shape, *, far: bool) -> None:
        self.rng = rng
        self.far = far
        self.shape = shape
        self.lines: list[str] = []
        self.scalars = ["%n", "%m", "%n"]
        self.masks: list[str] = []
        self.places: list[str] = []
        self.count = 0

    def op(self, text: str) -> str:
        """The name of the result of an op."""
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def tile(self, element: str, shape: Shape | None = None) -> str:
        extents = "".join(f"{extent}x" for extent in (self.shape if shape is None else shape))
        return f"tensor<{extents}{element}>" if extents else element

    def binary(self, name: str, a: str, b: str, element: str = "i32", shape: Shape | None = None) -> str:
        return self.op(f"arith.{name} {a}, {b} : {self.tile(element, shape)}")

    def number(self, value: int, element: str = "i32", shape: Shape | None = None) -> str:
        type = self.tile(element, shape)
        return self.op(f"arith.constant {f'dense<{value}>' if type != element else value} : {type}")

    def splat(self, scalar: str, element: str = "i32", shape: Shape | None = None) -> str:
        type = self.tile(element, shape)
        return scalar if type == element else self.op(f"tt.splat {scalar} : {element} -> {type}")

    def compare(self, predicate: str, a: str, b: str, element: str = "i32") -> str:
        return self.op(f"arith.cmpi {predicate}, {a}, {b} : {self.tile(element)}")

    def axis(self, axis: int) -> str:
        """The index along an axis, for every element."""
        shape = self.shape
        extent = shape[axis]
        name = self.op(f"tt.make_range {{end = {extent} : i32, start = 0 : i32}} : {self.tile('i32', (extent,))}")
        known: Shape = (extent,)
        for other in range(len(shape)):
            if other != axis:
                new = (*known[:other], 1, *known[other:])
                name = self.op(
                    f"tt.expand_dims {name} {{axis = {other} : i32}} : "
                    f"{self.tile('i32', known)} -> {self.tile('i32', new)}"
                )
                known = new
        if known == shape:
            return name
        return self.op(f"tt.broadcast {name} : {self.tile('i32', known)} -> {self.tile('i32')}")

    def scalar(self) -> str:
        return self.rng.choice(self.scalars)


def linear(d: Draft) -> str:
    """A number per element that counts them, as rows of some length or as one range."""
    rng, shape = d.rng, d.shape
    if not shape:
        return d.number(rng.randrange(4))
    if len(shape) > 1 and rng.random() < 0.3:
        whole = d.op(f"tt.make_range {{end = {prod(shape)} : i32, start = 0 : i32}} : {d.tile('i32', (prod(shape),))}")
        return d.op(f"tt.reshape {whole} : {d.tile('i32', (prod(shape),))} -> {d.tile('i32')}")
    order = list(range(len(shape)))
    if rng.random() < 0.25:
        rng.shuffle(order)
    total, stride = "", 1
    for axis in reversed(order):
        index = d.axis(axis)
        term = index
        if stride != 1:
            symbolic = rng.random() < 0.3
            by = d.splat(d.scalar()) if symbolic else d.number(stride + rng.choice((0, 0, 0, 1, 4, -2 * stride)))
            term = d.binary("muli", index, by)
        total = d.binary("addi", total, term) if total else term
        stride *= shape[axis]
    return total


def shifted(d: Draft, i: str) -> str:
    return d.binary("addi", i, d.number(d.rng.choice((1, 2, 3, 4, 7, 8, 16, -1, -4, *FAR[: 2 * d.far]))))


def spread(d: Draft, i: str) -> str:
    return d.binary("muli", i, d.number(d.rng.choice((0, 2, 2, 3, 4, -1, -2, 5))))


def turned(d: Draft, i: str) -> str:
    return d.binary("subi", d.number(d.rng.choice((7, 8, 15))), i)


def by_number(d: Draft, i: str) -> str:
    """An op on the index and a number that keeps no lines."""
    rng = d.rng
    name = rng.choice(("divsi", "divsi", "remsi", "remsi", "xori", "andi", "minsi", "maxsi", "remui", "divui"))
    return d.binary(name, i, d.number(rng.choice((1, 2, 2, 3, 4, 5, 6, 7))))


def by_scalar(d: Draft, i: str) -> str:
    name = d.rng.choice(("minsi", "maxsi", "remsi", "divsi", "andi", "xori"))
    return d.binary(name, i, d.splat(d.scalar()))


def moved(d: Draft, i: str) -> str:
    """The index and a number that the run tells, perhaps times another number."""
    scalar = d.scalar()
    if d.rng.random() < 0.4:
        scalar = d.binary("muli", scalar, d.number(d.rng.choice((2, 3, 4, 8, 16)), shape=()), shape=())
    return d.binary(d.rng.choice(("addi", "addi", "subi")), i, d.splat(scalar))


def strided(d: Draft, i: str) -> str:
    return d.binary("muli", i, d.splat(d.scalar()))


def chosen(d: Draft, i: str) -> str:
    bound = d.splat(d.scalar()) if d.rng.random() < 0.4 else d.number(d.rng.randint(0, 7))
    condition = d.compare(d.rng.choice(("slt", "sge", "eq")), i, bound)
    other = d.rng.choice((shifted, turned, moved))(d, i)
    return d.op(f"arith.select {condition}, {i}, {other} : {d.tile('i1')}, {d.tile('i32')}")


def gathered(d: Draft, i: str) -> str:
    """Indices out of memory."""
    places = pointers(d, "g", "i32", i)
    return d.op(f"tt.load {places} : {d.tile('!tt.ptr<i32>')}")


def narrowed(d: Draft, i: str) -> str:
    """An index of 8 bits, which wraps."""
    i = moved(d, i) if d.rng.random() < 0.5 else i
    whole = d.binary("muli", i, d.number(d.rng.choice((1, 1, 37, 64))))
    small = d.op(f"arith.trunci {whole} : {d.tile('i32')} to {d.tile('i8')}")
    return d.op(f"arith.{d.rng.choice(('extsi', 'extui'))} {small} : {d.tile('i8')} to {d.tile('i32')}")


STEPS: tuple[Callable[[Draft, str], str], ...] = (
    *(shifted, shifted, shifted, moved, moved, spread, turned, strided, by_number, by_number),
    *(by_scalar, chosen, gathered, narrowed, narrowed),
)


def pointers(d: Draft, name: str, element: str, index: str, type: str = "i32") -> str:
    base = d.splat(f"%{name}", f"!tt.ptr<{element}>")
    return d.op(f"tt.addptr {base}, {index} : {d.tile(f'!tt.ptr<{element}>')}, {d.tile(type)}")


def place(d: Draft) -> tuple[str, str]:
    """A tile of pointers, and what it points at."""
    rng = d.rng
    name = rng.choice(("x", "x", "x", "x", "y", "y", "h", "b"))
    element = POINTERS[name]
    if d.places and rng.random() < 0.25:
        index = rng.choice(d.places)
    else:
        index = linear(d)
        for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2, 3))):
            index = rng.choice(STEPS)(d, index)
        d.places.append(index)
    if rng.random() < 0.25:
        index = shifted(d, index)
    type = "i32"
    if rng.random() < 0.3:
        index, type = d.op(f"arith.extsi {index} : {d.tile('i32')} to {d.tile('i64')}"), "i64"
        if rng.random() < 0.6:
            name_of = rng.choice(("addi", "muli")) if rng.random() < 0.3 else "addi"
            index = d.binary(name_of, index, d.splat("%w", "i64"), "i64")
    where = pointers(d, name, element, index, type)
    if rng.random() < 0.2:
        by = d.splat(d.scalar()) if rng.random() < 0.5 else d.number(rng.choice((4, 8, -8)))
        where = d.op(f"tt.addptr {where}, {by} : {d.tile(f'!tt.ptr<{element}>')}, {d.tile('i32')}")
    if rng.random() < 0.1:
        other = rng.choice(("f32", "i16", "i8", "f64"))
        where = d.op(f"tt.bitcast {where} : {d.tile(f'!tt.ptr<{element}>')} -> {d.tile(f'!tt.ptr<{other}>')}")
        element = other
    return where, element


def mask(d: Draft, depth: int = 1) -> str:
    """A mask of the draft's shape."""
    rng, truth = d.rng, d.tile("i1")
    if d.masks and rng.random() < 0.4:
        known = rng.choice(d.masks)
        if rng.random() < 0.5:
            return known
        return d.binary(
            "xori", known, d.number(1, "i1") if not d.shape else d.op(f"arith.constant dense<true> : {truth}"), "i1"
        )
    if depth and rng.random() < 0.3:
        return d.binary("andi", mask(d, 0), mask(d, 0), "i1")
    i = d.axis(rng.randrange(len(d.shape))) if d.shape and rng.random() < 0.5 else linear(d)
    if d.places and rng.random() < 0.3:
        i = rng.choice(d.places)
    kind = rng.random()
    if kind < 0.15:
        return d.splat("%c", "i1")
    if kind < 0.3:
        two = d.number(rng.choice((2, 3)))
        return d.compare(rng.choice(("eq", "ne")), d.binary("remsi", i, two), d.number(rng.randrange(2)))
    if kind < 0.4:
        i = moved(d, i)
    bound = d.splat(d.scalar()) if rng.random() < 0.6 else d.number(rng.randint(0, 8))
    return d.compare(rng.choice(("slt", "slt", "slt", "sge", "sge", "sle", "sgt", "ult", "eq", "ne")), i, bound)


def access(d: Draft) -> None:
    """A load or a store."""
    where, element = place(d)
    type, guard = d.tile(f"!tt.ptr<{element}>"), ""
    if d.rng.random() < 0.45:
        found = mask(d)
        d.masks.append(found)
        guard = f", {found}"
    if d.rng.random() < 0.5:
        d.op(f"tt.load {where}{guard} : {type}")
        return
    zero = "0.0" if element.startswith("f") else "0"
    value = d.op(f"arith.constant {f'dense<{zero}>' if d.shape else zero} : {d.tile(element)}")
    d.lines.append(f"tt.store {where}, {value}{guard} : {type}")


SHAPES: tuple[Shape, ...] = ((8,), (8,), (8,), (2, 4), (4, 2), (2, 4), (1, 8), (4,), ())


def drawn_function(rng: Random, accesses: int, *, far: bool) -> str:
    """The text of a function with so many accesses, those in a loop included, to tiles of one shape or two."""
    d = Draft(rng, rng.choice(SHAPES[:-1]), far=far)
    d.scalars.append(d.op("tt.get_program_id x : i32"))
    d.scalars.append(d.binary("muli", d.scalars[-1], d.number(prod(d.shape), shape=()), shape=()))
    shapes = (d.shape, d.shape, d.shape, rng.choice(SHAPES))
    inside = accesses // 2 if rng.random() < 0.5 else 0
    for _ in range(accesses - inside):
        use_shape(d, rng.choice(shapes))
        access(d)
    if inside:
        use_shape(d, shapes[0])
        loop(d, shapes, inside)
    body = "\n    ".join(d.lines)
    return f"tt.func public @f({ARGUMENTS}, {NUMBERS}) {{\n    {body}\n    tt.return\n}}\n"


def use_shape(d: Draft, shape: Shape) -> None:
    """Go on with tiles of this shape."""
    if shape != d.shape:
        d.shape, d.masks, d.places = shape, [], []


def loop(d: Draft, shapes: tuple[Shape, ...], accesses: int) -> None:
    """A loop that carries pointers and a number."""
    start = pointers(d, "x", "f32", linear(d))
    bounds = [d.number(d.rng.choice((0, 1, 3)), shape=()), "%m", d.number(d.rng.choice((1, 1, 2, 8)), shape=())]
    type = d.tile("!tt.ptr<f32>")
    d.lines.append(
        f"%r:2 = scf.for %k = {bounds[0]} to {bounds[1]} step {bounds[2]} iter_args(%p = {start}, %s = %n) "
        f"-> ({type}, i32) : i32 {{"
    )
    d.scalars += ["%k", "%s", d.binary("remsi", "%k", d.number(3, shape=()), shape=())]
    shape, by = d.shape, d.rng.choice(("%m", "%k", d.number(8, shape=())))
    value = d.op(f"arith.constant dense<0.0> : {d.tile('f32')}")
    d.lines.append(f"tt.store %p, {value} : {type}")
    ahead = d.op(f"tt.addptr %p, {d.splat(by)} : {type}, {d.tile('i32')}")
    d.op(f"tt.load {ahead} : {type}")
    for _ in range(accesses - 2):
        use_shape(d, d.rng.choice(shapes))
        access(d)
    d.shape = shape
    step = d.number(d.rng.choice((8, 4, 1)), shape=())
    d.lines.append(f"%next = arith.addi %s, {step} : i32\nscf.yield {ahead}, %next : {type}, i32\n}}")
