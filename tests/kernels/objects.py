"""Kernels that pass objects around: tensor descriptors and plain classes with tiles in them."""

from dataclasses import dataclass

import tilewright as tw
import tilewright.language as tl


@tw.jit
def _first_block(desc):
    return desc.load([0, 0])


@tw.jit
def descriptor_to_helper(x, out):
    desc = tl.make_tensor_descriptor(x, [8, 16], [16, 1], [4, 16])
    rows = tl.arange(0, 4)[:, None]
    tl.store(out + rows * 16 + tl.arange(0, 16)[None, :], _first_block(desc) + desc.load([4, 0]))


@dataclass(frozen=True)
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
