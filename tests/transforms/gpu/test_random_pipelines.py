"""Random loops with random latencies compute the same when they are pipelined."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_pipeline_loops import HEAD, results

import tilewright.dialects
from long_runs import first_of
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops

assert tilewright.dialects.__all__

STORE = "tt.store %yp, {}, %mask : !pointers"


class RandomLoop:
    """A loop that carries tiles and a pointer, loads (also through loaded indices), computes, branches and stores."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.carried = [f"%s{i}" for i in range(self.random.randint(1, 3))]
        self.tiles = list(self.carried)
        for _ in range(self.random.randint(3, 9)):
            self.random.choices([self.load, self.chain, self.arithmetic, self.branch], [3, 1, 4, 1])[0]()
        self.new = [name for name in self.tiles if name not in self.carried]

    def name(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def tile(self) -> str:
        return self.random.choice(self.tiles)

    def latency(self) -> str:
        chosen = self.random.choice([None, 1, 2, 2, 3])
        return "" if chosen is None else f" {{tt.latency = {chosen} : i32}}"

    def load(self) -> None:
        mask = self.random.choice(["", ", %mask, %zeros", ", %mask, %fill"])
        self.tiles.append(self.name(f"tt.load %p{mask}{self.latency()} : !pointers"))

    def chain(self) -> None:
        at = self.name(f"tt.load %ip{self.latency()} : !indices")
        pointers = self.name(f"tt.addptr %xs, {at} : !pointers, !offsets")
        self.tiles.append(self.name(f"tt.load {pointers}{self.latency()} : !pointers"))

    def arithmetic(self) -> None:
        op = self.random.choice(["arith.addf", "arith.subf", "arith.maximumf"])
        self.tiles.append(self.name(f"{op} {self.tile()}, {self.tile()} : !tile"))

    def branch(self) -> None:
        condition = self.name(f"arith.cmpi {self.random.choice(['slt', 'eq'])}, %k, %c1 : i32")
        if self.random.random() < 0.5:
            self.lines.append(f"scf.if {condition} {{ {STORE.format(self.tile())} }}")
            return
        arms = [f"{{ scf.yield {self.tile()} : !tile }}" for _ in range(2)]
        self.tiles.append(self.name(f"scf.if {condition} -> (!tile) {arms[0]} else {arms[1]}"))

    @property
    def text(self) -> str:
        if not self.new:
            self.arithmetic()
            self.new = self.tiles[-1:]
        types = ", ".join(["!tile"] * len(self.carried) + ["!pointers"])
        initial = ", ".join([*(f"{name} = %zeros" for name in self.carried), "%p = %xp"])
        yielded = ", ".join([*(self.random.choice(self.new) for _ in self.carried), "%q"])
        results = ", ".join([*(f"%r{i}" for i in range(len(self.carried))), "%end"])
        body = "\n".join([*self.lines, "%q = tt.addptr %p, %step : !pointers, !offsets"])
        stores = "\n".join(
            f"%o{i} = tt.addptr %yp, %zero : !pointers, !offsets\ntt.store %o{i}, %t{i} : !pointers"
            for i in range(len(self.carried))
        )
        sums = "\n".join(
            f"%t{i} = arith.addf %r{i}, {f'%t{i - 1}' if i else '%zeros'} : !tile" for i in range(len(self.carried))
        )
        return f"""{HEAD}
        %zero = arith.constant dense<0> : !offsets
        {results} = scf.for %k = %c0 to %n step %c1 iter_args({initial}) -> ({types}) : i32 {{
        {body}
        scf.yield {yielded} : {types}
        }}
        {sums}
        {stores}
        tt.return }} }}"""


def check(seed: int) -> bool:
    """The pipelined loop computes the same; returns whether there was something to pipeline."""
    text = RandomLoop(seed).text
    before, module = parse_module(text), parse_module(text)
    verify(before)
    schedule_loops(module)
    pipeline_loops(module)
    canonicalize(module)
    verify(module)
    for steps in (0, 1, 2, 5):
        for expected, found in zip(results(before, steps), results(module, steps), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{steps} steps of\n{text}\nas\n{print_op(module)}")
    return _has_copies(module)


def _has_copies(module: Op) -> bool:
    return any(op.name == "ttg.async_copy_global_to_local" for op in module.walk())


@pytest.mark.spared
def test_random_loops() -> None:
    assert sum(map(check, range(15))) > 3


@pytest.mark.slow
@pytest.mark.parametrize("block", first_of(10, 2))
def test_more_random_loops(block: int) -> None:
    assert sum(map(check, range(15 + 50 * block, 65 + 50 * block))) > 15
