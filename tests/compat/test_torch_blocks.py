"""Blocks of kernels over several axes on CPUs, and what they compute once, with stand-ins for torch's modules."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.compat.torch_blocks import (
    BLOCKS_OF_ROWS,
    LEAST_BLOCKS,
    PROGRAM,
    blocks_across,
    blocks_of,
    blocks_of_sums,
    note_rows,
)
from tilewright.compat.torch_inductor import store_functions, store_indices, try_whole_kernels

pytestmark = pytest.mark.quick

Run = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param({"y": 512, "x": 768}, (4, 256), id="a part of the row that divides it"),
        pytest.param({"y": 512, "x": 4096}, (1, 1024), id="a program of one row"),
        pytest.param({"y": 3, "x": 32}, (4, 32), id="all"),
        pytest.param({"y": 64, "x": 1000}, (8, 128), id="blocks of which few are masked"),
        pytest.param({"y": 64, "x": 4000}, (8, 128), id="longer ones than divide it"),
        pytest.param({"y": 64, "x": 96}, (32, 32), id="few parts that divide it"),
        pytest.param({"y": 64, "x": 7}, (64, 8), id="short rows"),
        pytest.param({"z": 16, "y": 128, "x": 16}, (1, 64, 16), id="rows of one image"),
        pytest.param({"z": 16, "y": 4, "x": 32}, (8, 4, 32), id="several images"),
        pytest.param({"y": 1, "x": 0}, (1, 1), id="empty"),
    ],
)
def test_blocks_are_long_rows_first(sizes: dict[str, int], expected: tuple[int, ...]) -> None:
    found = blocks_of(sizes)
    assert tuple(found[f"{axis.upper()}BLOCK"] for axis in sizes) == expected
    assert all(block & (block - 1) == 0 for block in found.values())


@pytest.mark.parametrize(
    ("kept", "summed", "is_down", "expected"),
    [
        pytest.param({"x": 4096}, 512, True, {"XBLOCK": 256, "R0_BLOCK": 4}, id="columns"),
        pytest.param({"x": 512}, 512, True, {"XBLOCK": 64, "R0_BLOCK": 16}, id="columns for several programs"),
        pytest.param({"y": 32, "x": 32}, 2048, True, {"YBLOCK": 1, "XBLOCK": 32, "R0_BLOCK": 32}, id="few columns"),
        pytest.param({"x": 4096}, 3, True, {"XBLOCK": 256, "R0_BLOCK": 4}, id="few rows"),
        pytest.param({"x": 512}, 4096, False, {"XBLOCK": 1, "R0_BLOCK": 4096}, id="rows"),
        pytest.param({"x": 512}, 5000, False, {"XBLOCK": 1, "R0_BLOCK": 8192}, id="a row that ends in its block"),
        pytest.param({"x": 512}, 10000, False, None, id="long rows"),
    ],
)
def test_blocks_of_sums(kept: dict[str, int], summed: int, is_down: bool, expected: dict[str, int] | None) -> None:
    assert blocks_of_sums(kept, summed, is_down=is_down) == expected


@pytest.mark.parametrize(("run", "columns"), [(0, 256), (512, 256), (64, 64), (96, 32), (100, 16), (16, 16)])
def test_blocks_of_columns_end_where_neighbours_do(run: int, columns: int) -> None:
    assert blocks_of_sums({"x": 6272}, 64, is_down=True, run=run)["XBLOCK"] == columns


@pytest.mark.parametrize(
    ("sizes", "along", "expected"),
    [
        pytest.param({"y": 512, "x": 768}, "xy", {"YBLOCK": 16, "XBLOCK": 64}, id="a matrix"),
        pytest.param({"z": 16, "y": 32, "x": 4096}, "xy", {"ZBLOCK": 2, "YBLOCK": 16, "XBLOCK": 64}, id="channels"),
        pytest.param({"z": 9, "y": 32, "x": 7}, "xz", {"ZBLOCK": 16, "YBLOCK": 2, "XBLOCK": 8}, id="the outer axis"),
        pytest.param({"y": 512, "x": 768}, "y", None, id="one axis only"),
        pytest.param({"z": 16, "y": 512, "x": 768}, "xyz", None, id="three ways"),
        pytest.param({"z": 16, "y": 32, "x": 4096}, "x", {"ZBLOCK": 1, "YBLOCK": 16, "XBLOCK": 64}, id="one way"),
        pytest.param({"x": 4096}, "x", None, id="one axis"),
    ],
)
def test_blocks_across(sizes: dict[str, int], along: str, expected: dict[str, int] | None) -> None:
    assert blocks_across(sizes, set(along)) == expected


class Index(dict[str, int]):
    """A stand-in for a sum of symbols times numbers."""

    free_symbols = property(dict.keys)
    coeff = dict.__getitem__


class Place:
    """A stand-in for an index in which no symbol has a coefficient."""

    def __init__(self, place: Callable[[int, int], int]) -> None:
        self.place, self.free_symbols = place, {"x0", "y0"}

    def coeff(self, symbol: str) -> int:
        return 0

    def subs(self, values: dict[str, int]) -> int:
        return self.place(values["y0"], values["x0"])


class Kernel:
    """A stand-in for torch's kernel of 64 rows of 96, whose elements `x0` counts; `x1` is a quotient."""

    def __init__(self, *, is_reduced: bool = False, is_kept: bool = False) -> None:
        rows, elements, parts = (
            SimpleNamespace(symbol=lambda name=name: name, divisor=divisor, length=96)
            for name, divisor in (("y0", 1), ("x0", 1), ("x1", 8))
        )
        self.range_trees = [
            SimpleNamespace(prefix="y", nodes={"y": rows}),
            SimpleNamespace(prefix="x", nodes={"x": elements, "x // 8": parts}, numel=96),
        ]
        if is_reduced:
            terms = SimpleNamespace(symbol=lambda: "r0", divisor=1)
            self.range_trees.append(SimpleNamespace(prefix="r0_", nodes={"r0": terms}))
        self.inside_reduction, self.numels = is_reduced, {"y": 64, "x": 96, "r0_": 32}
        self.persistent_reduction = is_kept
        self.seen: list[object] = []

    def load(self, name: str, index: Index) -> None:
        self.seen.append(index)

    def store(self, name: str, index: Index, value: object, mode: str | None = None) -> None:
        self.seen.append(index)

    def inductor_meta_per_kernel(self) -> dict[str, Any]:
        return {"num_load": 1}


ROW, COLUMN, QUOTIENT = Index(x0=1, y0=96), Index(x0=64, y0=1), Index(x1=5, y0=1)
SUM_OF_ROW, SUM_OF_COLUMN = Index(r0=1, x0=32), Index(r0=96, x0=1)
REPEATED = Place(lambda y, x: y % 32 + 64 * (x % 8))
MIRRORED = Place(lambda y, x: 96 * y + abs(63 - abs(x - 1)))
BY_TURNS = Place(lambda y, x: 96 * y + 4096 * (x % 2) + x // 2)
SHUFFLED = Place(lambda y, x: 96 * (x % 64) + 8 * (y % 16))


def _nowhere(y: int, x: int) -> int:
    """As torch's own functions of symbols: a remainder of a negative number is refused."""
    raise AssertionError(y - x)


NOWHERE, NO_DIVISOR = Place(_nowhere), Place(lambda y, x: x % (y // 2))
ROWS_OF_64, COLUMNS_OF_LINES = {"XBLOCK": 32, "YBLOCK": PROGRAM // 32}, {"XBLOCK": 64, "YBLOCK": 16}
DOWN, ALONG = {"XBLOCK": 64, "YBLOCK": 1, "R0_BLOCK": 16}, {"XBLOCK": 1, "YBLOCK": 1, "R0_BLOCK": 32}


@pytest.mark.parametrize(
    ("loaded", "stored", "device", "is_reduced", "blocks"),
    [
        pytest.param(ROW, ROW, "cpu", False, ROWS_OF_64, id="rows"),
        pytest.param(QUOTIENT, ROW, "cpu", False, ROWS_OF_64, id="other symbols are no steps of the row"),
        pytest.param(Index(y0=1), ROW, "cpu", False, ROWS_OF_64, id="one number per row"),
        pytest.param(COLUMN, ROW, "cpu", False, COLUMNS_OF_LINES, id="loads across"),
        pytest.param(ROW, COLUMN, "cpu", False, COLUMNS_OF_LINES, id="stores across"),
        pytest.param(Index(x0=64), ROW, "cpu", False, COLUMNS_OF_LINES, id="no neighbours"),
        pytest.param(Index(x0=-1, y0=96), ROW, "cpu", False, ROWS_OF_64, id="backwards"),
        pytest.param(Index(x0=2, y0=96), ROW, "cpu", False, ROWS_OF_64, id="every other one"),
        pytest.param(REPEATED, ROW, "cpu", False, COLUMNS_OF_LINES, id="columns, again and again"),
        pytest.param(MIRRORED, ROW, "cpu", False, ROWS_OF_64, id="rows that are mirrored at their ends"),
        pytest.param(SHUFFLED, ROW, "cpu", False, COLUMNS_OF_LINES, id="every eighth column"),
        pytest.param(BY_TURNS, ROW, "cpu", False, ROWS_OF_64, id="two rows by turns"),
        pytest.param(NOWHERE, ROW, "cpu", False, COLUMNS_OF_LINES, id="a remainder that torch refuses"),
        pytest.param(NO_DIVISOR, ROW, "cpu", False, COLUMNS_OF_LINES, id="a size that is 0 where another is 1"),
        pytest.param(ROW, ROW, "cuda", False, None, id="a GPU"),
        pytest.param(ROW, ROW, "cpu", True, None, id="a reduction of numbers that stay"),
        pytest.param(SUM_OF_ROW, ROW, "cpu", True, ALONG, id="sums of rows"),
        pytest.param(SUM_OF_COLUMN, Index(r0=1), "cpu", True, DOWN, id="sums of columns, and a weight for each row"),
        pytest.param(SUM_OF_COLUMN, SUM_OF_ROW, "cpu", True, None, id="sums of both"),
    ],
)
def test_kernels_say_their_blocks(
    loaded: Index, stored: Index, device: str, is_reduced: bool, blocks: dict[str, int] | None
) -> None:
    class Own(Kernel): ...

    sizes = SimpleNamespace(optimization_hint=int)
    graph = SimpleNamespace(get_current_device_or_throw=lambda: SimpleNamespace(type=device), sizevars=sizes)
    note_rows(SimpleNamespace(TritonKernel=Own, V=SimpleNamespace(graph=graph)))
    kernel = Own(is_reduced=is_reduced)
    kernel.load("x", loaded)
    kernel.store("y", stored, 0, mode=None)
    expected = {} if blocks is None else {BLOCKS_OF_ROWS: blocks}
    assert kernel.inductor_meta_per_kernel() == {"num_load": 1, **expected}
    assert kernel.seen == [loaded, stored]


def test_blocks_are_as_large_as_tensor_descriptors_need_them() -> None:
    """A descriptor's block has at least 16 bytes along its last axis, which no compiler of Triton takes shorter."""

    class Own(Kernel):
        def inductor_meta_per_kernel(self) -> dict[str, Any]:
            return {LEAST_BLOCKS: {"XBLOCK": 4}}

    sizes = SimpleNamespace(optimization_hint=int)
    graph = SimpleNamespace(get_current_device_or_throw=lambda: SimpleNamespace(type="cpu"), sizevars=sizes)
    note_rows(SimpleNamespace(TritonKernel=Own, V=SimpleNamespace(graph=graph)))
    kernel = Own(is_reduced=True)
    kernel.load("x", SUM_OF_ROW)
    assert kernel.inductor_meta_per_kernel()[BLOCKS_OF_ROWS] == ALONG | {"XBLOCK": 4}


@pytest.mark.parametrize("others", [(), (Index(x0=1, y0=96),)])
def test_rows_that_are_read_both_ways_have_torchs_blocks(others: tuple[Index, ...]) -> None:
    """The gradient of a mirrored padding adds up loads from both ends: 3.3 of the time in long rows."""

    class Own(Kernel): ...

    sizes = SimpleNamespace(optimization_hint=int)
    graph = SimpleNamespace(get_current_device_or_throw=lambda: SimpleNamespace(type="cpu"), sizevars=sizes)
    note_rows(SimpleNamespace(TritonKernel=Own, V=SimpleNamespace(graph=graph)))
    kernel = Own()
    for index in (Index(x0=-1, y0=96), *others):
        kernel.load("x", index)
    kernel.store("y", ROW, 0)
    assert (BLOCKS_OF_ROWS in kernel.inductor_meta_per_kernel()) is not bool(others)


def test_kernels_without_a_loop_along_their_sums_have_blocks_of_columns() -> None:
    class Own(Kernel): ...

    graph = SimpleNamespace(
        get_current_device_or_throw=lambda: SimpleNamespace(type="cpu"), sizevars=SimpleNamespace(optimization_hint=int)
    )
    note_rows(SimpleNamespace(TritonKernel=Own, V=SimpleNamespace(graph=graph)))
    for loaded, blocks in ((SUM_OF_COLUMN, {"YBLOCK": 1, "XBLOCK": 64}), (SUM_OF_ROW, None)):
        kernel = Own(is_reduced=True, is_kept=True)
        kernel.load("x", loaded)
        assert kernel.inductor_meta_per_kernel().get(BLOCKS_OF_ROWS) == blocks


@pytest.mark.parametrize(("is_kept", "blocks"), [(True, {"YBLOCK": 1, "XBLOCK": 32}), (False, None)])
def test_sums_along_two_axes_have_blocks_of_columns(is_kept: bool, blocks: dict[str, int] | None) -> None:
    """An average of `channels_last` images: 32 channels lie side by side, and other pixels follow."""

    class Own(Kernel): ...

    graph = SimpleNamespace(
        get_current_device_or_throw=lambda: SimpleNamespace(type="cpu"), sizevars=SimpleNamespace(optimization_hint=int)
    )
    note_rows(SimpleNamespace(TritonKernel=Own, V=SimpleNamespace(graph=graph)))
    kernel = Own(is_reduced=True, is_kept=is_kept)
    kernel.numels["r1_"] = 8
    more = SimpleNamespace(symbol=lambda: "r1", divisor=1)
    channels = SimpleNamespace(symbol=lambda: "x2", divisor=1, length=32)
    kernel.range_trees.append(SimpleNamespace(prefix="r1_", nodes={"r1": more}))
    kernel.range_trees[1].nodes["x % 32"] = channels
    kernel.load("x", Index(r0=960, r1=32, x2=1))
    kernel.store("y", Index(x0=1), 0)
    assert kernel.inductor_meta_per_kernel().get(BLOCKS_OF_ROWS) == blocks


def _candidates(size_hints: object, configs: list[Any], **rest: object) -> list[dict[str, int]]:
    return [config.kwargs for config in configs]


SQUARE, ROWS = {"YBLOCK": 32, "XBLOCK": 32}, {"YBLOCK": 4, "XBLOCK": 256}


@pytest.mark.parametrize(
    ("sizes", "facts", "device", "expected"),
    [
        pytest.param({"y": 64, "x": 256}, {BLOCKS_OF_ROWS: ROWS}, "cpu", ROWS, id="rows"),
        pytest.param({"y": 32, "x": 32}, {BLOCKS_OF_ROWS: ROWS}, "cpu", SQUARE, id="one program does all"),
        pytest.param({"y": 64, "x": 256}, {BLOCKS_OF_ROWS: ROWS, "max_autotune": True}, "cpu", SQUARE, id="tuned"),
        pytest.param({"y": 64, "x": 256}, {}, "cpu", SQUARE, id="nothing is known"),
        pytest.param({"y": 64, "x": 256}, {BLOCKS_OF_ROWS: ROWS}, "cuda", SQUARE, id="a GPU"),
    ],
)
def test_known_blocks_are_the_only_candidate(
    sizes: dict[str, int], facts: dict[str, Any], device: str, expected: dict[str, int]
) -> None:
    def config(kwargs: dict[str, int], **rest: int) -> SimpleNamespace:
        return SimpleNamespace(kwargs=kwargs)

    heuristics = SimpleNamespace(cached_autotune=_candidates, Config=config)
    try_whole_kernels(heuristics)
    meta = {"device": SimpleNamespace(type=device)}
    assert heuristics.cached_autotune(sizes, [config(SQUARE)], triton_meta=meta, inductor_meta=facts) == [expected]


class Pointwise:
    """A stand-in for what a kernel computes with the functions `used`."""

    def __init__(self, *used: str, device: str = "cpu") -> None:
        self.used, self.device = used, device

    def inner_fn_opcount(self) -> SimpleNamespace:
        return SimpleNamespace(used_ops=set(self.used))


@pytest.mark.parametrize(
    ("data", "users", "backend", "is_stored"),
    [
        pytest.param(Pointwise("load", "cos"), 2, "triton", True, id="cosine"),
        pytest.param(Pointwise("load", "cos"), 1, "triton", False, id="one reader"),
        pytest.param(Pointwise("load", "mul"), 2, "triton", False, id="a product"),
        pytest.param(Pointwise("load", "cos"), 2, "cpp", False, id="C++"),
        pytest.param(Pointwise("load", "cos", device="cuda"), 2, "triton", False, id="a GPU"),
        pytest.param(object(), 2, "triton", False, id="nothing is computed"),
        pytest.param(Pointwise("torch's"), 2, "cpp", True, id="torch stores it"),
    ],
)
def test_long_functions_that_are_read_again_are_stored(data: Any, users: int, backend: str, is_stored: bool) -> None:
    class StorageBox:
        def __init__(self) -> None:
            self.data = data

        def should_realize_on_reuse(self, users: int, *, graph_reuse: bool = True) -> bool:
            return "torch's" in getattr(self.data, "used", ())

    class Reduction: ...

    nodes = SimpleNamespace(StorageBox=StorageBox, Pointwise=Pointwise, Reduction=Reduction)
    nodes.is_cpu, nodes.config = lambda node: node.device == "cpu", SimpleNamespace(cpu_backend=backend)
    store_functions(nodes)
    assert StorageBox().should_realize_on_reuse(users, graph_reuse=False) is is_stored


class Columns:
    """A stand-in for a size that is an expression."""

    is_Integer = False


@pytest.mark.parametrize(
    ("size", "backend", "device", "readers"),
    [
        pytest.param([100, 8], "triton", "cpu", [8], id="columns"),
        pytest.param([100, Columns()], "triton", "cpu", [], id="any number of columns"),
        pytest.param([100, 8], "cpp", "cpu", [], id="C++"),
        pytest.param([100, 8], "triton", "cuda", [], id="a GPU"),
    ],
)
def test_indices_are_read_by_each_column(size: list[Any], backend: str, device: str, readers: list[int]) -> None:
    seen: list[int] = []
    indices = SimpleNamespace(mark_reuse=lambda users, *, graph_reuse: seen.append(users))
    weight = SimpleNamespace(get_size=lambda: size, device=device)
    embedding = SimpleNamespace(default="embedding.default")
    known: dict[Any, Any] = {embedding.default: lambda *args, **named: (args, named)}
    lowerings = SimpleNamespace(aten=SimpleNamespace(embedding=embedding), lowerings=known)
    lowerings.ir = SimpleNamespace(is_cpu=lambda node: node.device == "cpu")
    lowerings.config = SimpleNamespace(cpu_backend=backend)
    store_indices(lowerings)
    assert known[embedding.default](weight, indices, 3, sparse=False) == ((weight, indices, 3), {"sparse": False})
    assert seen == readers


KERNELS = """
import torch
from torch._inductor.utils import run_and_get_code

def kernels(function, *inputs):
    torch._dynamo.reset()
    found, (code,) = run_and_get_code(torch.compile(function, backend="tilewright"), *inputs)
    torch.testing.assert_close(found, function(*inputs))
    lines = [line for line in code.splitlines() if not line.startswith("#")]
    return [part for part in "\\n".join(lines).split("@triton.jit")[1:]], "blocks_of_rows" in code

def rotated(x, y):
    angle = torch.arange(x.shape[1])[:, None] * 0.01
    return x * angle.cos() + y, y * angle.cos() - x

def embedded(table, x):
    return torch.nn.functional.embedding(x.log().long(), table) + 1

def gated(x):
    return x[:, :96].sigmoid() * x[:, 96:]

def turned(x):
    return x.t().contiguous()

def spaced(x):
    return x.t()[::2, ::3].contiguous()

def padded(x):
    chosen = x.sigmoid()
    return torch.nn.functional.pad(chosen, (1, 2)).var(-1), chosen * 1

x, y = torch.randn(4, 64, 96), torch.randn(4, 64, 96)
parts, _ = kernels(rotated, x, y)
print(sum("math.cos(" in part for part in parts), len(parts) > 1)
parts, _ = kernels(embedded, torch.arange(80.0).view(10, 8), torch.arange(1.0, 300.0))
print(["math.log(" in part for part in parts], ["tl.load" in part for part in parts])
print(*(kernels(function, torch.randn(64, 192))[1] for function in (gated, turned, spaced)))
parts, _ = kernels(lambda x: x.var(-1) + x.mean(-1), torch.randn(3, 3000) + 1000)
print("welford" in "".join(parts))
print(len(kernels(padded, torch.randn(8, 13, 1))[0]))
"""


@pytest.mark.needs_torch
@pytest.mark.slow
def test_kernels_of_a_graph(run: Run) -> None:
    """Cosines are computed once, logarithms once for each index; kernels of rows, of turned ones and of every other
    element of columns know their blocks.

    A variance is a sum of squares behind the one of the mean. Values that a kernel stores and pads are masked.
    """
    assert run(KERNELS, workers=True) == ["1 True", "[True, False] [True, True]", "True True True", "False", "1"]


IN_WORKERS = """
import gc, torch
from torch._inductor.async_compile import AsyncCompile

def gated(x):
    return x[:, :768].sigmoid() * x[:, 768:]

torch.compile(lambda x: x + 3, backend="tilewright")(torch.ones(3))
AsyncCompile.wait_pool_ready()
x = torch.randn(512, 1536)
torch.testing.assert_close(torch.compile(gated, backend="tilewright")(x), gated(x))
kernels = [each for each in gc.get_objects() if type(each).__name__ == "CachingAutotuner"]
blocks = [launcher.config.kwargs for kernel in kernels for launcher in kernel.launchers]
print(*(each for each in blocks if "YBLOCK" in each))
"""


@pytest.mark.needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("triton", [False, pytest.param(True, marks=pytest.mark.needs_triton)])
def test_compile_workers_choose_the_same_blocks(run: Run, triton: bool) -> None:
    """They know a kernel by its text, and had torch's square blocks."""
    assert run(IN_WORKERS, triton=triton, workers=True) == ["{'XBLOCK': 256, 'YBLOCK': 4}"]
