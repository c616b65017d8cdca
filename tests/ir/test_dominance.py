"""Dominance in functions of random blocks, by its definition: who is reached only through whom."""

from __future__ import annotations

import random

import pytest

from tilewright.dialects.tt_function import Func
from tilewright.ir.dominance import dominates, dominator_children, follows, in_order, predecessors, successors
from tilewright.ir.parser import parse_module

Graph = dict[int, list[int]]


def drawn(seed: int) -> Graph:
    """Up to eight blocks and the first one, to which none goes; each has up to two ways on."""
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    return {block: [rng.randrange(1, count) for _ in range(rng.randint(block == 0, 2))] for block in range(count)}


def text_of(graph: Graph) -> str:
    """A function of these blocks, each of which has two values; the second one is in a region."""
    lines = []
    for block, to in graph.items():
        lines += [f"^b{block}:"] if block else []
        lines += [
            f"  %v{block} = arith.constant {block} : i32",
            f"  %w{block} = scf.if %c -> (i32) {{",
            f"    %x{block} = arith.constant 7 : i32",
            f"    scf.yield %x{block} : i32",
            "  } else {",
            "    scf.yield %n : i32",
            "  }",
            ["  tt.return", "  cf.br ^b%d", "  cf.cond_br %%c, ^b%d, ^b%d"][len(to)] % tuple(to),
        ]
    return "\n".join(["tt.func @f(%c: i1, %n: i32) {", *lines, "}"])


def reached(graph: Graph, without: int | None = None) -> set[int]:
    """The blocks that there is a way to from the first one, which does not lead through `without`."""
    found, waiting = set[int](), [] if without == 0 else [0]
    while waiting:
        block = waiting.pop()
        if block not in found and block != without:
            found.add(block)
            waiting += graph[block]
    return found


def dominators(graph: Graph) -> dict[int, set[int]]:
    """The other blocks through which all ways to each lead."""
    every = reached(graph)
    return {block: {other for other in every - {block} if block not in reached(graph, other)} for block in every}


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(3))
def test_random_functions(seed: int) -> None:
    for number in range(12):
        graph = drawn(100 * seed + number)
        (function,) = parse_module(text_of(graph)).ops_of(Func)
        region = function.regions[0]
        blocks, above = region.blocks, dominators(graph)
        index = {block: place for place, block in enumerate(blocks)}
        assert {index[block]: [index[to] for to in successors(block)] for block in blocks} == graph
        before = {index[block]: [*map(index.__getitem__, those)] for block, those in predecessors(region).items()}
        assert before == {block: [other for other in graph if block in graph[other]] for block in graph}
        tree = {index[block]: {*map(index.__getitem__, below)} for block, below in dominator_children(region).items()}
        assert tree == {
            block: {other for other in above if block in above[other] and len(above[other]) == len(above[block]) + 1}
            for block in above
        }
        for place, block in enumerate(blocks):
            value, chosen, end = block
            inner, last = chosen.regions[0].block
            assert [follows(a, b) for a in block for b in block] == [a > b for a in range(3) for b in range(3)]
            assert not follows(inner, value)
            assert dominates(inner.result, last)
            assert not dominates(inner.result, end)
            for other, its_block in enumerate(blocks):
                (first, *_), (_, its_choice, its_end) = its_block, its_block
                inside = its_choice.regions[0].block.terminator
                is_above = other in above and place in above[other]
                for op, is_later in ((first, False), (its_choice, True), (inside, True), (its_end, True)):
                    assert dominates(value.result, op) == (is_above or (place == other and is_later))
                    assert dominates(function.body.args[0], op) == (other in above)
                assert dominates(chosen.result, inside) == is_above


@pytest.mark.parametrize("wanted", [[], [2], [0, 3], [3, 1, 0], [2, 4, 1, 3]])
def test_values_in_program_order(wanted: list[int]) -> None:
    constants = "\n".join(f"%v{number} = arith.constant {number} : i32" for number in range(6))
    ops = parse_module(f"tt.func @f() {{\n{constants}\ntt.return\n}}").regions[0].block.ops()[0].regions[0].block.ops()
    found = in_order([ops[number].results[0] for number in wanted], ops[5])
    assert found == [ops[number].results[0] for number in sorted(wanted)]
