"""Kernels that pass objects around: tensor descriptors and plain classes with tiles in them."""

import tilewright as tw
import tilewright.language as tl
from tilewright.language.aggregates import aggregate


@tw.jit
def _first_block(desc):
    return desc.load([0, 0])


@tw.jit
def descriptor_to_helper(x, out):
    desc = tl.make_tensor_descriptor(x, [8, 16], [16, 1], [4, 16])
    rows = tl.arange(0, 4)[:, None]
    tl.store(out + rows * 16 + tl.arange(0, 16)[None, :], _first_block(desc) + desc.load([4, 0]))


@aggregate
class Counter:
    """A running sum."""

    total: tl.tensor
    step: tl.constexpr

    @tw.jit
    def moved(self, by):
        return Counter(self.total + by * self.step, self.step)


@tw.jit
def carried_object(x, n):
    counter = Counter(tl.load(x), 2)
    for i in range(n):
        counter = counter.moved(i)
        if i == 1:
            counter = counter.moved(10)
    tl.store(x, counter.total)


@aggregate
class Interval:
    """Numbers from a first one on; its arithmetic is its own."""

    first: tl.tensor
    size: tl.constexpr
    steps: tl.tuple = (1, 2)

    def starting(first):
        return Interval(first, 8)

    @tw.jit
    def __add__(self, by):
        return Interval(self.first + by, self.size, self.steps)

    @tw.jit
    def __getitem__(self, number):
        return self.first + number * self.steps[1]


@tw.jit
def _ignored(interval, kind: tl.constexpr, more):
    pass


@tw.jit
def operators_of_aggregate(x, n):
    interval = Interval.starting(tl.load(x)) + n
    _ignored(interval, "a kind", (n, 2.5))
    tl.store(x + tl.arange(0, interval.size), interval[3])
