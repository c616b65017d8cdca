"""Generated kernels: statements, functions, control flow, and the program around them.

program(Random(7), gpu=False).text   the source of a module with a function `kernel`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import memory_forms
import movements
from kernel_expressions import Draft, condition, expression, scalar
from kinds import DTYPES, LARGEST_TILE, Kind
from memory_forms import store

assert movements  # its import enters productions

NEARLY = ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "rsqrt", "sigmoid")
"""Functions whose results are the same but for rounding."""
FAR = (
    "2147483641 + {}, 2147483647, 3",
    "2147483641 + {}, -2147483640, 2",
    "{}, 2147483647, 1073741824",
    "-2147483648 + {}, 2147483647, 1073741824",
    "2147483645, {} + 2147483640, -2",
)
"""Bounds of loops at the ends of the numbers, as of one number; on GPUs such a counter wraps, as with Triton."""
HEAD = """import tilewright as tw
import tilewright.language as tl


@tw.jit
def no_nan(x):
    return tl.where(x == x, x, 0.0)


"""


@dataclass(frozen=True)
class Program:
    """A generated kernel and how to launch it.

    Attributes:
        text: the source of the module.
        grid: the extents of the grid.
        n, m: the scalars.
        seed: of the numbers in the arrays.
        outputs: by array, the elements of each program.
        counted: the arrays in which lanes of all programs meet.
        inputs: dtypes of the arrays that are read.
        aliased: whether outputs and inputs of a dtype are one array, at different places.
        options: of the launch.
    """

    text: str
    grid: tuple[int, ...] = (1,)
    n: int = 3
    m: int = 1
    seed: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    counted: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    aliased: bool = False
    options: dict[str, int] = field(default_factory=dict)


def program(rng: Random, *, gpu: bool = False, size: int = 8) -> Program:
    """A random program of about `size` statements."""
    draft = Draft(rng, gpu=gpu, shapes=some_shapes(rng))
    for _ in range(rng.choice((0, 0, 1, 2))):
        helper(draft)
    heads = draft.lines
    draft.lines = []
    draft.scope = {"s0": Kind("int32"), "s1": Kind("int32"), "pid": Kind("int32")}
    block(draft, 1, rng.randint(2, size))
    for name, kind in list(draft.scope.items()):
        if (name not in ("s0", "s1", "pid") and rng.random() < 0.5) or name == list(draft.scope)[-1]:
            store(draft, 1, kind, name)
    grid = rng.choice(((1,), (1,), (3,), (2, 2)))
    outputs = dict(draft.outputs)
    return Program(
        text=module_text(draft, heads),
        grid=grid,
        n=rng.choice((1, 3, 8, 16, 37, 1, 3, 8, 16, 37, 0, -1, 2**31 - 1, -(2**31))),
        m=rng.choice((0, 1, 2, 5)),
        seed=rng.randrange(100),
        outputs=outputs,
        counted=tuple(sorted(draft.counted)),
        inputs=tuple(sorted(draft.inputs)),
        aliased=grid == (1,) and not gpu and rng.random() < 0.15,
        options={"num_warps": rng.choice((1, 2, 4, 8)), "num_stages": rng.choice((1, 3))},
    )


def module_text(draft: Draft, helpers: list[str]) -> str:
    """The whole module."""
    arrays = [f"x_{dtype}" for dtype in sorted(draft.inputs)] + sorted(draft.outputs)
    arrays += [f"a_{name}" for name in sorted(draft.counted)]
    widths = [f"WIDTH_{array}: tl.constexpr" for array in sorted(draft.outputs)]
    signature = ", ".join([*arrays, "n", "m", *widths])
    start = (
        "    pid = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)\n"
        "    s0 = tl.cast(n, tl.int32)\n    s1 = tl.cast(m, tl.int32) + pid\n"
    )
    heads = "".join(f"{head}\n\n" for head in draft.heads) + "".join(f"{line}\n" for line in helpers)
    body = "".join(f"{line}\n" for line in draft.lines)
    return f"{HEAD}{heads}@tw.jit\ndef kernel({signature}):\n{start}{body}"


def some_shapes(rng: Random) -> list[tuple[int, ...]]:
    """A few shapes that fit each other, sometimes one of size 1 or large."""
    extents = [rng.choice((1, 2, 4, 8, 16, 16, 32)) for _ in range(3)]
    a, b, c = extents
    candidates = [(a,), (b,), (a, b), (b, a), (a, 1), (1, b), (a, b, c), (c, a), (16, 16), (rng.choice((64, 256)),)]
    fitting = [shape for shape in candidates if Kind("", shape).size <= LARGEST_TILE]
    return [(), *rng.sample(fitting, min(len(fitting), rng.randint(1, 4)))]


def helper(draft: Draft) -> None:
    """A function that kernels call: of tiles and scalars, perhaps one that returns early or stays a call."""
    rng = draft.rng
    inner = Draft(rng, gpu=draft.gpu, shapes=draft.shapes, in_helper=True, heads=draft.heads, names=draft.names)
    kinds = [some_kind(draft) for _ in range(rng.randint(1, 3))]
    inner.scope = {f"p{i}": kind for i, kind in enumerate(kinds)}
    result = some_kind(draft)
    name = draft.name("helper")
    inner.names = draft.names
    inner.returns = result
    is_scalar = all(not kind.shape for kind in kinds)
    decorator = "@tw.jit(noinline=True)" if is_scalar and rng.random() < 0.4 else "@tw.jit"
    inner.say(0, decorator)
    inner.say(0, f"def {name}({', '.join(inner.scope)}):")
    block(inner, 1, rng.randint(0, 2))
    if rng.random() < 0.3:
        inner.say(1, f"if {condition(inner, 0)}:")
        inner.say(2, f"return {expression(inner, result, 1)}")
    inner.say(1, f"return {expression(inner, result, 2)}")
    draft.lines += [*inner.lines, "", ""]
    draft.names = inner.names
    draft.helpers[name] = (kinds, result)


def some_kind(draft: Draft) -> Kind:
    """A kind of variable."""
    return Kind(draft.rng.choice(DTYPES), draft.rng.choice(draft.shapes))


# --- statements -------------------------------------------------------------------------------------------------


def block(draft: Draft, depth: int, size: int) -> None:
    """Some statements; what they assign first is out of sight behind them, unless they are the kernel's own."""
    outer = dict(draft.scope)
    for _ in range(size):
        forms = [new, new, again, again, swap]
        if not draft.in_helper:
            forms += [stored, stored, stored_nearly, special]
        if depth < 4:
            forms += [branch, branch, carried_tuple]
        if draft.loops < 2:
            forms += [loop, loop, repeat, unroll]
        if depth == 1 and not draft.in_helper:
            forms.append(leave)
        if draft.loops:
            forms += [leave_loop, leave_loop]
        draft.rng.choice(forms)(draft, depth)
    if depth > 1:
        draft.scope = outer
    if draft.lines[-1].endswith(":"):
        draft.say(depth, "pass")


def new(draft: Draft, depth: int) -> None:
    """A new variable."""
    kind = some_kind(draft)
    text = expression(draft, kind, draft.rng.randint(1, 3))
    name = draft.name("v")
    draft.say(depth, f"{name} = {text}")
    draft.scope[name] = kind


def again(draft: Draft, depth: int) -> None:
    """Another value for a variable."""
    names = [name for name in draft.scope if name != "pid" and not name.startswith("i")]
    if not names:
        return new(draft, depth)
    name = draft.rng.choice(names)
    draft.say(depth, f"{name} = {expression(draft, draft.scope[name], draft.rng.randint(1, 3))}")
    return None


def swap(draft: Draft, depth: int) -> None:
    """Two variables of a kind change places."""
    for name, kind in draft.scope.items():
        others = [other for other in draft.variables(kind) if other not in (name, "pid") and other[0] != "i"]
        if name != "pid" and name[0] != "i" and others:
            other = draft.rng.choice(others)
            draft.say(depth, f"{name}, {other} = {other}, {name}")
            return
    new(draft, depth)


def stored(draft: Draft, depth: int) -> None:
    """A store."""
    kind = some_kind(draft)
    store(draft, depth, kind, expression(draft, kind, 2))


def stored_nearly(draft: Draft, depth: int) -> None:
    """A store of what is only nearly the same in all ways of running."""
    kind = Kind("float32", draft.rng.choice(draft.shapes))
    text = f"tl.{draft.rng.choice(NEARLY)}(tl.clamp({expression(draft, kind, 1)}, -20.0, 20.0))"
    store(draft, depth, kind, text, nearly=True)


def special(draft: Draft, depth: int) -> None:
    """Block pointers, descriptors, atomics."""
    form = draft.rng.choice((memory_forms.block_pointer, memory_forms.descriptor, None, None))
    shaped = [shape for shape in draft.shapes if shape]
    if form and shaped:
        form(draft, depth, Kind(draft.rng.choice(DTYPES[1:]), draft.rng.choice(shaped)))
    else:
        draft.rng.choice((memory_forms.atomic, memory_forms.atomic_result))(draft, depth)


def loop(draft: Draft, depth: int) -> None:
    """A loop with a counter."""
    rng = draft.rng
    counter = draft.name("i")
    low, high = str(rng.randint(0, 2)), scalar(draft, 0, 3)
    forms = [high, f"{low}, {high}", "0, 7, 3", "3, 0, -1", f"{high}, -1, -1", f"0, {high}, 2"]
    forms += [] if draft.gpu else [form.format(high) for form in FAR]
    bounds = rng.choice(forms)
    word = "range" if rng.random() < 0.7 else "tl.range"
    hints = rng.choice(("", ", num_stages=2", ", loop_unroll_factor=2", ", flatten=True")) if word != "range" else ""
    draft.say(depth, f"for {counter} in {word}({bounds}{hints}):")
    draft.scope[counter] = Kind("int32")
    body(draft, depth + 1)
    del draft.scope[counter]
    otherwise(draft, depth)


def unroll(draft: Draft, depth: int) -> None:
    """A loop that the compiler unrolls."""
    counter = draft.name("i")
    draft.say(depth, f"for {counter} in tl.static_range({draft.rng.choice(('2', '1, 4, 2', '2, 0, -1'))}):")
    name = draft.name("v")
    draft.say(depth + 1, f"{name} = tl.cast({counter}, tl.int32)")
    draft.scope[name] = Kind("int32")
    body(draft, depth + 1)
    del draft.scope[name]
    otherwise(draft, depth)


def repeat(draft: Draft, depth: int) -> None:
    """A while loop of a few rounds."""
    left = draft.name("left")
    draft.say(depth, f"{left} = {scalar(draft, 0, 3)}")
    test = draft.rng.choice(
        (f"{left} > 0", f"({left} > 0) & ({condition(draft, 0)})", f"{left} > 0 and ({condition(draft, 0)})")
    )
    draft.say(depth, f"while {test}:")
    draft.say(depth + 1, f"{left} -= 1")
    body(draft, depth + 1)
    otherwise(draft, depth)


def body(draft: Draft, depth: int) -> None:
    """The statements of a loop, which changes at least one variable."""
    draft.loops += 1
    again(draft, depth)
    block(draft, depth, draft.rng.randint(0, 2))
    draft.loops -= 1


def otherwise(draft: Draft, depth: int) -> None:
    """An `else` for a loop that no `break` has left, sometimes."""
    if draft.rng.random() < 0.2:
        draft.say(depth, "else:")
        block(draft, depth + 1, draft.rng.randint(1, 2))


def leave_loop(draft: Draft, depth: int) -> None:
    """`break`, `continue` or `return`, under a condition."""
    draft.say(depth, f"if {condition(draft)}:")
    if draft.rng.random() < 0.3:
        block(draft, depth + 1, 1)
    value = f"return {expression(draft, draft.returns, 1)}" if draft.returns else "return"
    draft.say(depth + 1, draft.rng.choice(("break", "break", "continue", "continue", value)))


def branch(draft: Draft, depth: int) -> None:
    """if, elif, else."""
    draft.say(depth, f"if {condition(draft)}:")
    block(draft, depth + 1, draft.rng.randint(1, 2))
    if draft.rng.random() < 0.3:
        draft.say(depth, f"elif {condition(draft, 0)}:")
        block(draft, depth + 1, draft.rng.randint(1, 2))
    if draft.rng.random() < 0.5:
        draft.say(depth, "else:")
        block(draft, depth + 1, draft.rng.randint(1, 2))


def carried_tuple(draft: Draft, depth: int) -> None:
    """A tuple that a loop or a branch changes."""
    kinds = [some_kind(draft), some_kind(draft)]
    name, first, second = draft.name("t"), draft.name("v"), draft.name("v")
    draft.say(depth, f"{name} = ({', '.join(expression(draft, kind, 1) for kind in kinds)})")
    counter = draft.name("i")
    draft.say(
        depth, draft.rng.choice((f"for {counter} in range({scalar(draft, 0, 3)}):", f"if {condition(draft, 0)}:"))
    )
    outer = dict(draft.scope)
    draft.scope |= {f"{name}[0]": kinds[0], f"{name}[1]": kinds[1]}
    draft.say(depth + 1, f"{name} = ({', '.join(expression(draft, kind, 1) for kind in kinds)})")
    draft.scope = outer
    draft.say(depth, f"{first}, {second} = {name}")
    draft.scope |= {first: kinds[0], second: kinds[1]}


def leave(draft: Draft, depth: int) -> None:
    """An early return."""
    draft.say(depth, f"if {condition(draft)}:")
    stored(draft, depth + 1)
    draft.say(depth + 1, "return")
