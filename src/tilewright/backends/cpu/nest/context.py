"""The state of the lowering of a nest: loops, chunk, values computed so far, and the level of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.backends.cpu.nest.lane_values import (
    LANE,
    ActiveLaneBound,
    Address,
    Affine,
    Index,
    Lane,
    ModuloRange,
    Offsets,
    Uniform,
    Vector,
    level_of,
)
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.sections import Section
from tilewright.backends.llvm.spelling import constant_vector, iota, vector
from tilewright.backends.llvm.writer import LlvmWriter, Placement
from tilewright.ir.core import Op, Value

Memo = dict[tuple[Value, Index], Lane]
Hoisted = dict[tuple[object, ...], str]
"""Instructions in front of the nests of a block, and their results."""


class _Names:
    """Names of what has been written, by keys that end with a level."""

    def __init__(self) -> None:
        self._levels: dict[object, dict[tuple[object, ...], str]] = {}

    def get(self, key: tuple[object, ...]) -> str | None:
        level = self._levels.get(key[-1])
        return None if level is None else level.get(key)

    def __setitem__(self, key: tuple[object, ...], name: str) -> None:
        self._levels.setdefault(key[-1], {})[key] = name

    def forget(self, level: int) -> None:
        """All names at this level, and at deeper ones."""
        self._levels = {k: names for k, names in self._levels.items() if isinstance(k, int) and k < level}


@dataclass
class MovedRows:
    """The contiguous rows that a loop loads and stores."""

    loads: list[Address] = field(default_factory=list)
    stores: list[Address] = field(default_factory=list)


class Context:
    """The state while one nest is written.

    Attributes:
        w: the writer.
        scalar: the LLVM value of a scalar, or the address of a buffer, from outside the nest.
        lanes: W, the lanes of one chunk.
        extent: the number of lanes that the loop over chunks covers.
        lane_level: the level of the loop over chunks.
        depth: the level at which code is written now.
        insertion_points: for each level above `depth`, a section to which lines can be added.
        fast: a fast version is being written; it may rely on conditions that it assumes.
        guards: the conditions that the code being written relies on, a bit for each in `conditions`.
        memoised_guards: the guards that each memoised value requires.
        conditions: every condition that was ever assumed, and its bit.
        programs: the number of programs of the grid, an i64, for nests that every program runs once; else None.
        wraps: fast versions of ranges modulo something allow for one wrap.
        optimize_size: little code counts for more than speed: no fast versions, nothing unrolled.
        streaming: stores bypass the caches.
        unmasked: every mask is known to be on in all lanes.
        moved: the rows that the loop loads and stores are collected here.
        next_rows: for loads whose row the next program finds some bytes further, these bytes, while it is prefetched.
        position: the lane at which the current chunk starts, an i64.
        active_lane_bound: the bound of the loop over chunks that a mask gives, an i64; all lanes below it are active.
        hoisted: what stands in front of earlier nests, and may be used again; None where the nest is in a branch.
        reduced: results of the reductions that are finished.
    """

    def __init__(self, w: LlvmWriter, scalar: Callable[[Value], str], depth: int) -> None:
        self.w = w
        self.scalar = scalar
        self.lanes = 1
        self.extent = 1
        self.lane_level = depth
        self.depth = 0
        self.insertion_points: list[Section] = []
        self.fast = False
        self.guards = 0
        self.memoised_guards: dict[tuple[bool, tuple[Value, Index]], int] = {}
        self.conditions: dict[str, int] = {}
        self.position = "0"
        self.active_lane_bound = ""
        self.hoisted: Hoisted | None = None
        self.reduced: dict[Value, Lane] = {}
        self.redirected: str | None = None
        self.programs: str | None = None
        self.optimize_size = False
        self.wraps = False
        self.streaming = False
        self.unmasked = False
        self.moved: MovedRows | None = None
        self.next_rows: dict[Op, str] = {}
        self._memos: dict[tuple[bool, int, int], Memo] = {}
        self._names = _Names()

    @property
    def target(self) -> Target:
        return self.w.target

    # ---- where code goes ----

    def emit(self, level: int, instruction: str) -> str:
        """An instruction without effects, at `level`; the same instruction is written once."""
        return self._once((instruction, level), level, lambda w: w.emit(instruction))

    def _once(self, key: tuple[object, ...], level: int, write: Callable[[LlvmWriter], str]) -> str:
        """The name of the result for `key`, at `level`; written once, and in front of nests once for all of them."""
        name = self._names.get(key)
        if name is None:
            shared = self.hoisted if level == 0 and self.depth else None
            name = shared.get(key) if shared is not None else None
            if name is None:
                with self.at(level) as w:
                    name = write(w)
            if shared is not None:
                shared[key] = name
            self._names[key] = name
        return name

    def intrinsic(self, level: int, name: str, a: str, b: str) -> str:
        """An i64 intrinsic of two operands, at `level`."""
        return self._once((name, a, b, level), level, lambda w: w.intrinsic(name, "i64", a, b))

    def at(self, level: int) -> Placement:
        """Let the writer's lines go to `level`."""
        return self.w.at(self.w.section if level >= self.depth else self.insertion_points[level])

    @contextmanager
    def narrowed(self, count: int) -> Iterator[None]:
        """Chunks of every `count`-th lane, on an axis of as many elements fewer; LANE counts those."""
        lanes, extent, position, moved = self.lanes, self.extent, self.position, self.moved
        self.lanes, self.extent, self.moved = lanes // count, extent // count, None
        start, _ = self.divided_number(Uniform(position, self.lane_level), count)
        self.position = start.name
        yield
        self.lanes, self.extent, self.position, self.moved = lanes, extent, position, moved

    # ---- what is known already ----

    def known(self, key: tuple[Value, Index]) -> Lane | None:
        """The lanes of a value that has been computed in this iteration of the loops."""
        memos = self._memos
        for level in range(self.depth + 1):
            memo = memos.get((self.fast, self.lanes, level))
            if memo is not None and (found := memo.get(key)) is not None:
                return found
        return None

    def remember(self, key: tuple[Value, Index], lane: Lane) -> None:
        level = min(level_of(lane), self.depth)
        self._memos.setdefault((self.fast, self.lanes, level), {})[key] = lane

    def forget(self, level: int) -> None:
        """Forget values of `level` and deeper: a loop body has ended, or a new chunk starts."""
        self._memos = {k: v for k, v in self._memos.items() if k[-1] < level}
        self._names.forget(level)

    # ---- what the fast version relies on ----

    def assume(self, condition: str) -> None:
        """Rely on an i1 that is known in front of the loop."""
        self.guards |= self.conditions.setdefault(condition, 1 << len(self.conditions))

    def assumed(self) -> list[str]:
        """The conditions among the guards."""
        return [condition for condition, bit in self.conditions.items() if self.guards & bit]

    # ---- lanes as vectors ----

    def as_vector(self, lane: Lane, element: str) -> Vector:
        """`lane` as one value per lane, of LLVM type `element`."""
        if isinstance(lane, Vector):
            return lane
        level = max(level_of(lane), 0 if isinstance(lane, Uniform) else self.lane_level)
        key = (lane, element, self.lanes, level)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._spread(lane, element, level)
        return Vector(name, level)

    def _spread(
        self, lane: Uniform | Affine | ModuloRange | ActiveLaneBound | Address, element: str, level: int
    ) -> str:
        with self.at(level) as w:
            if isinstance(lane, Uniform):
                return w.splat(lane.name, element, self.lanes)
            if isinstance(lane, Affine):
                return self._affine_vector(lane, element, w)
            if isinstance(lane, ActiveLaneBound):
                return self._active_lanes_vector(lane, w)
            if isinstance(lane, ModuloRange):
                return self._modulo_vector(lane, element, w)
            return self._pointers(lane, w)

    def _affine_vector(self, lane: Affine, element: str, w: LlvmWriter) -> str:
        lanes = self.lanes
        start = self.start_of(lane, element)
        if lanes == 1:
            return start
        type = vector(element, lanes)
        if lane.stride.lstrip("-").isdigit():
            steps = iota(lanes, element)
            if lane.stride != "1":
                steps = constant_vector([int(lane.stride) * i for i in range(lanes)], element)
        else:
            steps = w.emit(f"mul {type} {w.splat(lane.stride, element, lanes)}, {iota(lanes, element)}")
        return steps if start == "0" else w.emit(f"add {type} {w.splat(start, element, lanes)}, {steps}")

    def start_of(self, lane: Affine, element: str) -> str:
        """The value on the first lane of the chunk."""
        if lane.local:
            return lane.base
        at = max(lane.level, self.lane_level)
        position = self.position
        if element != "i64" and not position.isdigit():
            position = self.cached_cast(position, element)
        return self.add(lane.base, self.multiply(position, lane.stride, element, at), element, at)

    def cached_cast(self, position: str, element: str) -> str:
        key = ("position", position, element, self.lane_level)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self.emit(self.lane_level, f"trunc i64 {position} to {element}")
        return name

    def _active_lanes_vector(self, lane: ActiveLaneBound, w: LlvmWriter) -> str:
        """iota < count - position, in 32 bits: the count is first brought into 0 … extent."""
        bounded = self.intrinsic(lane.level, "llvm.smin", lane.below, str(self.extent))
        bounded = self.intrinsic(lane.level, "llvm.smax", bounded, "0")
        count = self.emit(lane.level, f"trunc i64 {bounded} to i32")
        position = self.position if self.position.isdigit() else self.cached_cast(self.position, "i32")
        left = self.subtract(count, position, "i32", max(lane.level, self.lane_level))
        return w.emit(f"icmp sgt {vector('i32', self.lanes)} {w.splat(left, 'i32', self.lanes)}, {iota(self.lanes)}")

    def _modulo_vector(self, lane: ModuloRange, element: str, w: LlvmWriter) -> str:
        type = vector(element, self.lanes)
        straight = self._affine_vector(Affine(lane.base, "1", lane.level), element, w)
        wrapped = w.emit(f"sub {type} {straight}, {w.splat(lane.modulus, element, self.lanes)}")
        return w.select(
            self._active_lanes_vector(ActiveLaneBound(lane.below, lane.level), w),
            type,
            straight,
            wrapped,
            lanes=self.lanes,
        )

    def _pointers(self, lane: Address, w: LlvmWriter) -> str:
        offset = self.as_vector(lane.offset, "i64").name
        type = vector("i64", self.lanes)
        return w.emit(f"getelementptr {lane.element}, ptr {lane.base.name}, {type} {offset}")

    # ---- integer arithmetic with constants folded ----

    def add(self, a: str, b: str, element: str, level: int) -> str:
        if a == "0":
            return b
        if b == "0":
            return a
        if _is_number(a) and _is_number(b):
            return _wrapped(int(a) + int(b), element)
        return self.emit(level, f"add {element} {a}, {b}")

    def subtract(self, a: str, b: str, element: str, level: int) -> str:
        if b == "0":
            return a
        if _is_number(a) and _is_number(b):
            return _wrapped(int(a) - int(b), element)
        return self.emit(level, f"sub {element} {a}, {b}")

    def multiply(self, a: str, b: str, element: str, level: int) -> str:
        if "0" in (a, b):
            return "0"
        if a == "1":
            return b
        if b == "1":
            return a
        if _is_number(a) and _is_number(b):
            return _wrapped(int(a) * int(b), element)
        return self.emit(level, f"mul {element} {a}, {b}")

    def extend(self, a: str, source: str, target: str, level: int, *, signed: bool = True) -> str:
        """An integer in a wider or narrower type."""
        if source == target:
            return a
        narrower = int(source[1:]) > int(target[1:])
        if _is_number(a):
            return _wrapped(int(a) if signed else int(a) % (1 << int(source[1:])), target)
        opcode = "trunc" if narrower else "sext" if signed else "zext"
        return self.emit(level, f"{opcode} {source} {a} to {target}")

    # ---- indices: i64 lanes ----

    def scaled(self, lane: Offsets, factor: int) -> Offsets:
        """An index times a number known now."""
        if factor == 1:
            return lane
        if isinstance(lane, Uniform):
            return Uniform(self.multiply(lane.name, str(factor), "i64", lane.level), lane.level)
        if isinstance(lane, Affine):
            base, stride = (self.multiply(part, str(factor), "i64", lane.level) for part in (lane.base, lane.stride))
            return Affine(base, stride, lane.level, lane.local)
        return self._index_op("mul", lane, Uniform(str(factor), 0))

    def plus(self, a: Offsets, b: Offsets) -> Offsets:
        """The sum of two indices."""
        if isinstance(a, Uniform):
            a, b = b, a
        level = max(level_of(a), level_of(b))
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self.add(a.name, b.name, "i64", level), level)
        if isinstance(a, Affine | ModuloRange) and isinstance(b, Uniform):
            return a._replace(base=self.add(a.base, b.name, "i64", level), level=level)
        if isinstance(a, Affine) and isinstance(b, Affine) and a.local == b.local:
            base, stride = (self.add(x, y, "i64", level) for x, y in ((a.base, b.base), (a.stride, b.stride)))
            return Affine(base, stride, level, a.local)
        return self._index_op("add", a, b)

    def divided(self, lane: Offsets, extent: int) -> tuple[Offsets, Offsets]:
        """Quotient and remainder of a non-negative index by a power of two."""
        if extent == 1:
            return lane, Uniform("0", 0)
        if isinstance(lane, Uniform):
            return self.divided_number(lane, extent)
        if isinstance(lane, Affine) and lane.stride == "1" and lane.base == "0" and self.extent <= extent:
            return Uniform("0", 0), lane
        if isinstance(lane, Affine) and lane.stride == "1" and extent >= self.lanes and self._starts_aligned(lane):
            level = max(lane.level, self.lane_level)
            start = self.start_of(lane, "i64")
            quotient, rest = self.divided_number(Uniform(start, level), extent)
            return quotient, Affine(rest.name, "1", rest.level, local=True)
        shift, mask = extent.bit_length() - 1, extent - 1
        return self._index_op("lshr", lane, Uniform(str(shift), 0)), self._index_op("and", lane, Uniform(str(mask), 0))

    def divided_number(self, number: Uniform, extent: int) -> tuple[Uniform, Uniform]:
        """`divided` of one number for all lanes."""
        if extent == 1:
            return number, Uniform("0", 0)
        (name, level), shift, mask = number, extent.bit_length() - 1, extent - 1
        if _is_number(name):
            return Uniform(str(int(name) >> shift), level), Uniform(str(int(name) & mask), level)
        high = Uniform(self.emit(level, f"lshr i64 {name}, {shift}"), level)
        return high, Uniform(self.emit(level, f"and i64 {name}, {mask}"), level)

    def counts_elements(self, lane: Lane) -> bool:
        """Whether `lane` counts the elements of a whole axis, or is one of them."""
        return isinstance(lane, Uniform) or (isinstance(lane, Affine) and lane == LANE)

    def flipped(self, index: Uniform, bits: int) -> Uniform:
        """An index XOR `bits`."""
        if not bits:
            return index
        if _is_number(index.name):
            return Uniform(str(int(index.name) ^ bits), index.level)
        return Uniform(self.emit(index.level, f"xor i64 {index.name}, {bits}"), index.level)

    def _starts_aligned(self, lane: Affine) -> bool:
        """Whether chunks start at multiples of W, as those of the whole axis do."""
        return lane.base == "0" and not lane.local

    def _index_op(self, opcode: str, a: Offsets, b: Offsets) -> Vector:
        x, y = self.as_vector(a, "i64"), self.as_vector(b, "i64")
        level = max(x.level, y.level)
        return Vector(self.emit(level, f"{opcode} {vector('i64', self.lanes)} {x.name}, {y.name}"), level)

    # ---- small facts worth keeping ----

    def cached(self, key: tuple[object, ...]) -> str | None:
        """A name kept by `cache`; the last entry of the key is its level."""
        return self._names.get((self.fast, *key))

    def cache(self, key: tuple[object, ...], name: str) -> str:
        self._names[(self.fast, *key)] = name
        return name


def _wrapped(number: int, element: str) -> str:
    """The literal for `number` modulo the range of a signed integer type."""
    bits = int(element[1:])
    return str((number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))


def _is_number(name: str) -> bool:
    return name.lstrip("-").isdigit()
