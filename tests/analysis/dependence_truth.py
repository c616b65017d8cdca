"""Claims of the dependence analysis against what enumeration shows, for many pairs and triples of drawn accesses."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import NamedTuple

import numpy as np
from condition_texts import condition_text
from drawn_accesses import drawn_function
from enumerated_accesses import Lanes, Samples, Truth, element_sizes, truths

from tilewright.analysis.guard_conditions import either
from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.analysis.memory_dependences import (
    Dependence,
    Guarded,
    Independent,
    Ordered,
    SameElement,
    dependence,
)
from tilewright.backends.cpu.costs import where_of
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.support.exact_rounding import Array

SAMPLES = 10
LANES = 8
ACCESSES = 40
TRIPLES = 60
MEASURED, MANY = 8, 60
"""Every 8th function is also run with many near arguments, to see which claims could have been better."""


class Wrong(NamedTuple):
    """A claim that enumeration refutes."""

    claim: str
    accesses: tuple[PointerAccess, ...]
    sample: int


class Tally(Counter[str]):
    """How often each answer was given, and how often another one would have been right."""

    @property
    def pairs(self) -> int:
        return sum(self[kind] for kind in ("Independent", "SameElement", "Guarded", "Ordered"))

    @property
    def text(self) -> str:
        kinds = ("Independent", "SameElement", "Guarded", "Ordered")
        shares = ", ".join(f"{kind} {self[kind] / self.pairs:.1%}" for kind in kinds)
        return (
            f"{self.pairs} pairs, {self['triples']} triples: {shares}; "
            f"of {self['measured']} pairs "
            f"{self['needless'] / max(1, self['measured']):.2%} are Ordered needlessly, "
            f"{self['never held'] / max(1, self['measured']):.2%} Guarded by what never holds"
        )


class Case:
    """The accesses of one drawn function, what is claimed of them and what is true in each sample."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.text = drawn_function(rng, ACCESSES, far=seed % 2 == 1)
        self.function = next(iter(parse_module(self.text).regions[0].block))
        self.known = MemoryAccesses()
        self.accesses = [op for op in self.function.walk() if isinstance(op, (Load, Store))]
        self.samples = Samples(self.function, rng, SAMPLES)
        self.rng = rng
        self.lanes = all_lanes(self.samples, self.accesses)
        self.sizes = element_sizes(self.accesses)
        self.safe: dict[tuple[int, int], Array] = {}
        self.plain = plain(self.samples, self.accesses)

    def truth(self, number: int, lanes: Lanes) -> Truth:
        """The truth about an access and all from it on."""
        first = Lanes(lanes.address[number], lanes.active[number])
        others = Lanes(lanes.address[number:], lanes.active[number:])
        shape = self.accesses[number].pointer.type.shape
        fits = np.array([access.pointer.type.shape == shape for access in self.accesses[number:]])
        sizes = self.sizes[number:]
        return truths(first, (self.sizes[number], sizes), others, fits & (sizes == self.sizes[number]))

    def check(self, tally: Tally) -> Wrong | None:
        """The first wrong claim about a pair or a triple."""
        for number, access in enumerate(self.accesses):
            truth = self.truth(number, self.lanes)
            for place, other in enumerate(self.accesses[number:]):
                claim = self.claim(access, other)
                pair = Truth(truth.apart[place], truth.same[place])
                wrong = self.refuted(claim, pair, number, number + place)
                tally[type(claim).__name__] += 1
                if wrong.any():
                    return Wrong(claim_text(claim), (access, other), int(wrong.argmax()))
        return self.check_triples(tally)

    def claim(self, access: PointerAccess, other: PointerAccess) -> Dependence:
        return dependence(self.known.of(access), self.known.of(other), self.known)

    def measure(self, tally: Tally) -> None:
        """Count the claims that could have been better, with regard to many more arguments."""
        samples = Samples(self.function, self.rng, MANY, near=True)
        lanes = all_lanes(samples, self.accesses)
        for number, access in enumerate(self.accesses):
            near, truth = self.truth(number, lanes), self.truth(number, self.lanes)
            for place, other in enumerate(self.accesses[number:]):
                claim = self.claim(access, other)
                usual = self.plain[number] & self.plain[number + place]
                apart = (truth.apart[place] | ~usual).all() and near.apart[place].all()
                same = (truth.same[place] | ~usual).all() and near.same[place].all()
                tally["measured"] += 1
                if isinstance(claim, Ordered):
                    tally["needless"] += bool(apart or same)
                elif isinstance(claim, Guarded) and (apart or same):
                    held = either((claim.apart, claim.same))
                    tally["never held"] += not (samples.holds(held).any() or (usual & self.samples.holds(held)).any())

    def refuted(self, claim: Dependence, truth: Truth, number: int, other: int) -> Array:
        """The samples in which the claim is wrong. Addresses and masks that wrap may lead anywhere."""
        usual = self.plain[number] & self.plain[other]
        apart = same = np.zeros(SAMPLES, np.bool_)
        if isinstance(claim, Guarded):
            apart, same = usual & self.samples.holds(claim.apart), usual & self.samples.holds(claim.same)
        elif isinstance(claim, Independent):
            apart = usual
        elif isinstance(claim, SameElement):
            same = usual
        self.safe[number, other] = apart | same
        return (apart & ~truth.apart) | (same & ~truth.same)

    def check_triples(self, tally: Tally) -> Wrong | None:
        """Run triples in program order, and lane by lane where the claims allow it: memory must be the same."""
        numbers = range(len(self.accesses))
        for _ in range(TRIPLES):
            triple = sorted(self.rng.sample(numbers, 3))
            one, two, three = triple
            fits = {self.accesses[number].pointer.type.shape for number in triple}
            tally["triples"] += 1
            safe = self.safe[one, two] & self.safe[one, three] & self.safe[two, three]
            if len(fits) > 1 or not safe.any():
                continue
            wrong = safe & (self.played(triple, fused=True) != self.played(triple, fused=False)).any((1, 2, 3))
            if wrong.any():
                return Wrong("a triple", tuple(self.accesses[number] for number in triple), int(wrong.argmax()))
        return None

    def played(self, triple: list[int], *, fused: bool) -> Array:
        """The values of each lane of each access: for loads those read, for stores those left in the end."""
        width, lanes = int(self.sizes[triple].max()), self.lanes.address.shape[2]
        bytes = self.lanes.address[triple].transpose(1, 0, 2)[..., None] + np.arange(width)
        active = self.lanes.active[triple].transpose(1, 0, 2)[..., None] & (
            np.arange(width) < self.sizes[triple][:, None, None]
        )
        places = np.unique(bytes, return_inverse=True)[1].reshape(bytes.shape)
        memory = np.zeros((SAMPLES, int(places.max()) + 2), np.int64)
        places = np.where(active, places, memory.shape[1] - 1)
        seen = np.zeros(places.shape, np.int64)
        rows = np.arange(SAMPLES)[:, None]
        steps = [(access, lane) for lane in range(lanes) for access in range(3)]
        for access, lane in steps if fused else sorted(steps):
            where = places[:, access, lane]
            if isinstance(self.accesses[triple[access]], Store):
                memory[rows, where] = 1 + lane + lanes * access + 100 * np.arange(width)
            else:
                seen[:, access, lane] = np.where(active[:, access, lane], memory[rows, where], 0)
        return np.where(active, np.concatenate([memory], 0)[rows[..., None, None], places], 0) + (seen << 32)


def plain(samples: Samples, accesses: list[PointerAccess]) -> Array:
    """Per access the samples in which neither its address nor its mask wraps."""
    wraps = [[samples.wraps_of(value) for value in where_of(access)] for access in accesses]
    return ~np.array([np.logical_or.reduce(either) for either in wraps])


def all_lanes(samples: Samples, accesses: list[PointerAccess]) -> Lanes:
    """The lanes of all accesses, along an axis in front."""
    lanes = [samples.lanes(access, LANES) for access in accesses]
    return Lanes(np.stack([x.address for x in lanes]), np.stack([x.active for x in lanes]))


def claim_text(claim: Dependence) -> str:
    if isinstance(claim, Guarded):
        return f"Guarded: {', '.join(map(condition_text, claim))}"
    return type(claim).__name__


def wrong_text(seed: int, case: Case, wrong: Wrong) -> str:
    """A claim, the accesses that it is about, and the arguments that refute it."""
    lines = [f"seed {seed}: {wrong.claim}", *map(op_text, wrong.accesses)]
    values = case.samples.values
    names = {value.name or "": values[value][wrong.sample] for value in values if not value.type.shape}
    lines.append(", ".join(f"{name} = {number}" for name, number in names.items()))
    for access in wrong.accesses:
        lanes = case.samples.lanes(access, 1)
        lines.append(f"{lanes.address[wrong.sample]} where {lanes.active[wrong.sample]}")
    return "\n".join([*lines, *slice_of(wrong.accesses)])


def slice_of(accesses: tuple[PointerAccess, ...]) -> list[str]:
    """The lines of the ops that the accesses are computed from, in program order."""
    wanted, stack = set[Op](), list[Op](accesses)
    while stack:
        op = stack.pop()
        if op not in wanted:
            wanted.add(op)
            stack += [value.op for value in op.operands if value.op is not None]
    function = next(iter(wanted))
    while function.parent is not None and function.name != "tt.func":
        function = function.parent
    return [op_text(op) for op in function.walk() if op in wanted]


def op_text(op: Op) -> str:
    """The op in one line, with the names of values outside of it."""
    return re.sub(r"%<(\w+)\?>", r"%\1", print_op(op).strip().split("\n")[0])


def first_wrong(seeds: range, tally: Tally) -> str | None:
    """The report of the first wrong claim about the functions with these seeds."""
    for seed in seeds:
        case = Case(seed)
        wrong = case.check(tally)
        if wrong is not None:
            return wrong_text(seed, case, wrong)
        if seed % MEASURED == 0:
            case.measure(tally)
    return None
