"""Kernels that read and write the same memory: the program around the statements, and its launches.

program(Random(7)).text     the source of a module with a function `kernel`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from random import Random

from dead_names import without_dead
from kinds import BITS, FLOATS, SIGNED, UNSIGNED, Kind
from shared_memory_draft import Draft, Shape, coordinates, some_habits
from shared_memory_moves import PRODUCTS, SQUARE, head
from shared_memory_rows import habits_of_rows, row_shapes
from shared_memory_statements import block, helper, late, late_rows, multiplied, store

HEAD = "import tilewright as tw\nimport tilewright.language as tl\n\n\n"
SCALARS = ("n", "m", "d", "s: int")
"""The parameters that are numbers; one with an annotation is no constant of the kernel even where it is 1."""
SHAPES: tuple[Shape, ...] = (
    *((8,), (16,), (32,), (64,), (64,), (128,), (4, 4), (8, 8), (2, 8), (8, 4), (1, 16), (4, 16), (4, 32)),
    *((2, 2, 4), (2, 4, 8), (4, 2, 2)),
)
LARGE: tuple[Shape, ...] = (*[(64,)] * 6, *[(128,)] * 2, *((4, 16), (4, 32), (2, 64), (16, 4), (8, 8)), (2, 2, 16))
"""Tiles of several vectors, which loops go through: in these order shows."""
SMALL: tuple[Shape, ...] = ((32,), (32,), (8, 4), (4, 8))
"""Tiles of lean programs."""
LARGEST = max(prod(shape) for shape in (*SHAPES, SQUARE))
REGION = 8 * LARGEST
"""The distance from one program's region to the next, in elements of the kernel's dtype."""
WHOLE = "pid = tl.program_id(0)", "pid = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)"
GRIDS = (*[((1,), 1)] * 7, ((3,), 1), ((3,), 2)), (*[((1, 1), 1)] * 5, ((2, 2), 2), ((1, 3), 1), ((2, 1), 2))
"""Extents of the grid and threads, with the first form of `WHOLE` and with the second."""


@dataclass(frozen=True)
class Launch:
    """The arguments of one launch of a program.

    Attributes:
        offsets: where each view begins, in elements of the kernel's dtype.
        n, m, d, s: the scalars; s is a stride, mostly 1.
        grid: the extents of the grid.
        threads: how many threads.
        seed: of the numbers in memory.
    """

    offsets: tuple[int, ...]
    n: int
    m: int
    d: int
    s: int
    grid: tuple[int, ...]
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


def program(rng: Random, *, lean: bool = False, rows: bool = False) -> SharedProgram:
    """A random program; a lean one has few statements, of the usual kinds, one of rows has several lengths of rows."""
    draft = new_draft(rng, lean=lean, rows=rows)
    rich, dtype, pointers = draft.rich, draft.dtype, draft.pointers
    views = tuple(view for name, view in pointers.items() if name[0] == "p")
    heads = helper(draft) if not lean and rng.random() < (0.4 if rich else 0.08) else ""
    two_dimensional = rng.random() < 0.15
    draft.say(WHOLE[two_dimensional])
    for name, its in pointers.items():
        draft.say(f"{name} += pid * {REGION * (BITS[dtype] // BITS[its] if name[0] == 'p' else 1)}")
    coordinates(draft)
    if SQUARE in draft.shapes:
        multiplied(draft)
    if rows and rng.random() < 0.85:
        late_rows(draft)
    elif rich or (not lean and rng.random() < (1 if rows else 0.25)):
        block(draft, rng.randint(2, 4))
    else:
        late(draft, lean=lean)
    stored_last(draft, lean=lean)
    heads = "".join(head(name) for name in sorted(draft.combines)) + heads
    body = "".join(f"{line}\n" for line in without_dead(draft.lines) or ["    pass"])
    size = max(prod(shape) for shape in draft.shapes)
    return SharedProgram(
        text=f"{HEAD}{heads}@tw.jit\ndef kernel({', '.join([*pointers, *SCALARS])}):\n{body}",
        dtype=dtype,
        views=views,
        size=size,
        launches=launches(rng, len(views), size, GRIDS[two_dimensional], aligned=draft.aligned, lean=lean),
    )


def new_draft(rng: Random, *, lean: bool, rows: bool) -> Draft:
    """The decisions before the first statement: dtype, names, shapes, habits."""
    usual = ("int32", "float32") * 3
    dtype = rng.choice((*usual, rng.choice(SIGNED + UNSIGNED), rng.choice(FLOATS)))
    views = [dtype] * rng.choice((1, 2) if lean else (1, 1, 2, 2, 2, 3, 4))
    if dtype not in FLOATS and len(views) > 1 and rng.random() < 0.15:
        views[-1] = rng.choice([other for other in SIGNED + UNSIGNED if BITS[other] <= BITS[dtype]])
    rich = not lean and rng.random() < (0.1 if rows else 0.25)
    shapes, count = (SHAPES, rng.choice((1, 1, 2))) if rich else (SMALL if lean else LARGE, 1)
    drawn = [rng.choice(shapes) for _ in range(count)]
    drawn = [SQUARE] if rich and dtype in PRODUCTS and rng.random() < 0.12 else drawn
    drawn = list(row_shapes(rng)) if rows else drawn
    pointers = {f"p{k}": view for k, view in enumerate(views)} | {"x": dtype, "y": dtype, "g": "int32"}
    draft = Draft(rng, dtype, pointers, tuple(dict.fromkeys(drawn)), aligned=rng.random() < 0.4, rich=rich, rows=rows)
    draft.sharing = rng.choice((0.4, 0.6, 0.9))
    draft.habits = habits_of_rows(rng) if rows else some_habits(rng)
    return draft


def stored_last(draft: Draft, *, lean: bool) -> None:
    """Stores of the last tiles, many with what was reduced last."""
    rng, number = draft.rng, draft.some(Kind(draft.dtype))
    tiles = [name for name, kind in draft.tiles.items() if kind.shape]
    for name in tiles[-1 if lean else -rng.choice((2, 3) if draft.rows else (1, 2)) :]:
        text = f"({name} + {number}).to(tl.{draft.dtype})" if number and rng.random() < 0.6 else name
        store(draft, draft.tiles[name].shape, text)


def launches(
    rng: Random, views: int, size: int, grids: tuple[tuple[tuple[int, ...], int], ...], *, aligned: bool, lean: bool
) -> tuple[Launch, ...]:
    """The launches of the kernel, which take the same machine code.

    So each number is of the same sort in all of them: a multiple of 16, 1, or neither; and no view begins at a
    multiple of 16 bytes unless all do.
    """

    def offset(view: int) -> int:
        if aligned:
            return 16 * rng.choice((0, 0, 0, 1, 2, size // 16))
        return rng.choice((0, 0, 0, 1, 2, 8, size // 4, rng.randrange(size // 2))) * 2 + 1

    n, m, d = some_number(rng, 2, size), some_number(rng, 2, 9), some_number(rng, 2, 7)
    found = []
    for _ in range(1 if lean else rng.choice((1, 1, 2))):
        offsets = [offset(view) for view in range(views)]
        if rng.random() < 0.5:
            offsets = [offsets[0]] * views
        grid, threads = rng.choice(grids)
        found.append(Launch(tuple(offsets), n(), m(), d(), rng.choice((1, 1, 2)), grid, threads, rng.randrange(50)))
    return tuple(found)


def some_number(rng: Random, least: int, most: int) -> Callable[[], int]:
    """Draws numbers of one sort."""
    sort = rng.random()
    if sort < 0.08:
        return lambda: 1
    if sort < 0.2:
        return lambda: rng.choice(range(16, max(most, 16) + 1, 16))
    return lambda: rng.choice([k for k in range(least, most + 1) if k % 16])
