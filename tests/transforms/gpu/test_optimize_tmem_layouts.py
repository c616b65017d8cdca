"""Tiles of tensor memory that a program splits or joins: which are loaded or stored half by half, and in what order."""

from __future__ import annotations

import re

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.dialects.ttng_tensor_memory import TmemLoad, TmemStore
from tilewright.ir.core import tile_type
from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.optimize_tmem_layouts import optimize_tmem_layouts

COLUMNS = (1, 2, 4, 8, 16, 32)


def of_threads(column: str, half: str, rest: str) -> str:
    """A layout in which a thread has 64 columns of a row, and four warps each half of the columns.

    `column` and `half` are the basis vectors with a `%d` for the place along the axis; `rest` follows a row's place.
    """
    lanes, warps = (", ".join(f"[{1 << bit}, {rest}]" for bit in bits) for bits in (range(5), range(5, 7)))
    registers = ", ".join(column % place for place in COLUMNS)
    return f"#ttg.linear<{{register = [{registers}], lane = [{lanes}], warp = [{warps}, {half}], block = []}}>"


SUM = of_threads("[0, %d]", "[0, 64]", "0")
IN_HALVES = of_threads("[0, 0, %d]", "[0, 1, 0]", "0, 0")
TURNED = of_threads("[0, %d, 0]", "[0, 0, 1]", "0, 0")
PAIRS, MORE = (
    f"#ttg.blocked<{{sizePerThread = [1, {size}, 2], threadsPerWarp = [{lanes}, 1], warpsPerCTA = [8, 1, 1], "
    "order = [2, 1, 0]}>"
    for size, lanes in ((4, "2, 16"), (2, "1, 32"))
)
SPLIT = """
#stored = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [8, 1], order = [1, 0]}>
#pairs = PAIRS
#others = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [1, 32], warpsPerCTA = [8, 1], order = [1, 0]}>
#more = MORE
#sum = SUM
#halves = IN_HALVES
#turned = TURNED
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 128, colStride = 1>
!memory = !ttg.memdesc<128x128xf32, #memory, #ttng.tensor_memory, mutable>
!half = tensor<128x64xf32, #stored>
!other = tensor<128x64xf32, #others>
!places = tensor<128x64x!tt.ptr<f32>, #stored>
!others = tensor<128x64x!tt.ptr<f32>, #others>
!tile = tensor<128x128xf32, #sum>
!cut = tensor<128x2x64xf32, #halves>
!turned = tensor<128x64x2xf32, #turned>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 8 : i32, ttg.target = "cuda:100"} {
  tt.func public @split(%m: !memory, %p: !places, %q: !others, %t: !ttg.async.token, %z: !tile) {
    %true = arith.constant true
    %sum, %u = ttng.tmem_load %m[%t] : !memory -> !tile
    %v = ttng.tmem_store %z, %m[%u], %true : !tile -> !memory
    %halves = tt.reshape %sum : !tile -> !cut
    %turned = tt.trans %halves {order = array<i32: 0, 2, 1>} : !cut -> !turned
    %pairs = ttg.convert_layout %turned : !turned -> tensor<128x64x2xf32, #pairs>
    %a, %b = tt.split %pairs : tensor<128x64x2xf32, #pairs> -> !half
    %more = ttg.convert_layout %turned : !turned -> tensor<128x64x2xf32, #more>
    %c, %d = tt.split %more : tensor<128x64x2xf32, #more> -> !other
    tt.store %p, %a : !places
    tt.store %p, %b : !places
    tt.store %q, %c : !others
    tt.store %q, %d : !others
    tt.return
  }
}
"""


def optimized(*changes: tuple[str, str]) -> tuple[bool, str]:
    """Whether the pass changes the text, and what is left of it."""
    layouts = [("PAIRS", PAIRS), ("MORE", MORE), ("SUM", SUM), ("IN_HALVES", IN_HALVES), ("TURNED", TURNED)]
    module = Parser(text_of(SPLIT, *layouts, *changes)).module()
    verify(module)
    changed = optimize_tmem_layouts(module)
    verify(module)
    canonicalize(module)
    return changed, print_op(module)


def test_each_half_is_loaded_once_for_all_layouts() -> None:
    changed, text = optimized()
    assert changed
    assert len(re.findall(r"ttng\.tmem_subslice", text)) == len(re.findall(r"ttng\.tmem_load", text)) == 2
    assert "tt.split" not in text
    first, second = re.findall(
        r"ttg\.convert_layout (%\w+) : tensor<128x64xf32, #\w+> -> tensor<128x64xf32, #blocked>", text
    )
    assert first != second
    assert len(re.findall("ttg.convert_layout", text)) == 4


def test_what_comes_behind_the_tile_comes_behind_both_halves() -> None:
    """A store to the same memory waits for the token of the second load, which waits for the first."""
    _, text = optimized()
    assert re.search(
        r"%\w+, (%\w+) = ttng\.tmem_load %\w+\[%t\].*\n(?:.*\n)*?"
        r".*%\w+, (%\w+) = ttng\.tmem_load %\w+\[\1\].*\n(?:.*\n)*?.*ttng\.tmem_store %z, %m\[\2\]",
        text,
    )


def test_a_tile_that_something_else_uses_is_loaded_as_a_whole() -> None:
    use = '    tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %sum : !tile'
    changed, text = optimized(("    %c, %d = tt.split", f"{use}\n    %c, %d = tt.split"))
    assert not changed
    assert "tmem_subslice" not in text


def test_further_blocks_of_rows_stay() -> None:
    """With 64 rows in a block, the second one lies beside the first, so half of the columns are not together."""
    changed, _ = optimized(("blockM = 128", "blockM = 64"))
    assert not changed


JOINED = """
#half = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#pairs = #ttg.blocked<{sizePerThread = [1, 64, 2], threadsPerWarp = [32, 1, 1], warpsPerCTA = [4, 1, 1], order = [2, 0, 1]}>
#turned = #ttg.blocked<{sizePerThread = [1, 2, 64], threadsPerWarp = [32, 1, 1], warpsPerCTA = [4, 1, 1], order = [1, 0, 2]}>
#whole = #ttg.linear<{register = [[0, 64], [0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#stored = #ttg.blocked<{sizePerThread = [1, 128], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 128, colStride = 1>
!memory = !ttg.memdesc<128x128xf32, #memory, #ttng.tensor_memory, mutable>
!half = tensor<128x64xf32, #half>
!whole = tensor<128x128xf32, #whole>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @joined(%m: !memory, %a: !half, %b: !half, %t: !ttg.async.token, %flag: i1) {
    %pairs = tt.join %a, %b : !half -> tensor<128x64x2xf32, #pairs>
    %turned = tt.trans %pairs {order = array<i32: 0, 2, 1>} : tensor<128x64x2xf32, #pairs> -> tensor<128x2x64xf32, #turned>
    %whole = tt.reshape %turned : tensor<128x2x64xf32, #turned> -> !whole
    %moved = ttg.convert_layout %whole : !whole -> tensor<128x128xf32, #stored>
    %u = ttng.tmem_store %moved, %m[%t], %flag : tensor<128x128xf32, #stored> -> !memory
    %sum, %v = ttng.tmem_load %m[%u] : !memory -> tensor<128x128xf32, #stored>
    tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %sum : tensor<128x128xf32, #stored>
    tt.return
  }
}
"""  # noqa: E501 - layouts


def optimized_stores(*changes: tuple[str, str]) -> tuple[bool, str]:
    """Whether the pass changes the text, and what is left of it."""
    module = Parser(text_of(JOINED, *changes)).module()
    verify(module)
    changed = optimize_tmem_layouts(module)
    verify(module)
    canonicalize(module)
    return changed, print_op(module)


def test_halves_are_stored_in_their_order() -> None:
    """The first one waits for what the tile waited for, the second for the first, and what comes behind for it."""
    changed, text = optimized_stores()
    assert changed
    assert "tt.join" not in text
    assert re.search(
        r"(%\w+) = ttng\.tmem_subslice %m \{N = 0 : i32\}.*\n.*(%\w+) = ttng\.tmem_store %a, \1\[%t\], %flag .*\n"
        r".*(%\w+) = ttng\.tmem_subslice %m \{N = 64 : i32\}.*\n.*(%\w+) = ttng\.tmem_store %b, \3\[\2\], %flag .*\n"
        r".*ttng\.tmem_load %m\[\4\]",
        text,
    )


def test_a_joined_tile_that_something_else_uses_is_stored_as_a_whole() -> None:
    use = '    tt.print " y: " {hex = false, isSigned = array<i32: 0>} : %whole : !whole'
    changed, text = optimized_stores(("    %moved", f"{use}\n    %moved"))
    assert not changed
    assert "tmem_subslice" not in text


def test_columns_in_any_order_are_no_halves() -> None:
    changed, _ = optimized_stores(("tt.reshape %turned", "tt.reshape %turned allow_reorder"))
    assert not changed


IN_COLUMNS = SUM.replace(", [0, 32]]", "]").replace("[0, 64]", "[0, 32]")
"""The layout in which the second four of eight warps have the second half of 64 columns."""
REDUCED = """
#columns = COLUMNS
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
!memory = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!tile = tensor<128x64xf32, #columns>
!rows = tensor<128xf32, #ttg.slice<{dim = 1, parent = #columns}>>
!line = tensor<64xf32, #ttg.slice<{dim = 0, parent = #columns}>>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 8 : i32, ttg.target = "cuda:100"} {
  tt.func public @reduced(%m: !memory, %o: !memory, %p: i1) -> !rows {
    %t = ttng.tmem_load %m : !memory -> !tile
    %u = math.exp2 %t : !tile
    %v = ttng.tmem_load %o : !memory -> !tile
    ttng.tmem_store %v, %o, %p : !tile -> !memory
    %r = "tt.reduce"(%u) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (!tile) -> !rows
    tt.return %r : !rows
  }
}
"""
WHOLE_ROWS = "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 32]], warp = [[32, 0], [64, 0], [16, 0]]"
ALONG_COLUMNS = (("{axis = 1 : i32}", "{axis = 0 : i32}"), ("-> !rows", "-> !line"), (": !rows", ": !line"))


def layouts_of_accesses(*changes: tuple[str, str]) -> list[bool]:
    """Whether each load and store is of whole rows, in order."""
    module = Parser(text_of(REDUCED, ("COLUMNS", IN_COLUMNS), *changes)).module()
    verify(module)
    changed = optimize_tmem_layouts(module)
    verify(module)
    accesses = [op for op in module.walk() if isinstance(op, (TmemLoad, TmemStore))]
    values = [op.results[0] if isinstance(op, TmemLoad) else op.value for op in accesses]
    found = [WHOLE_ROWS in str(tile_type(value).encoding) for value in values]
    assert any(found) == changed
    return found


def test_warps_have_whole_rows_of_tiles_that_are_reduced() -> None:
    """So have they of other tiles as long, which are often computed with what the reduction gives."""
    assert layouts_of_accesses() == [True, True, True]


ANOTHER = (('"tt.reduce"(%u)', '"tt.reduce"(%c)'), ("    %v =", "    %c = arith.constant dense<0.0> : !tile\n    %v ="))
FOUR_WARPS = (
    ('num-warps" = 8', 'num-warps" = 4'),
    (IN_COLUMNS, IN_COLUMNS.replace(", [0, 32]]", "]").replace("]], lane", "], [0, 32]], lane")),
)


@pytest.mark.quick
@pytest.mark.parametrize("changes", [ALONG_COLUMNS, ANOTHER, FOUR_WARPS], ids=["columns", "another tile", "four warps"])
def test_other_tiles_keep_their_layouts(changes: tuple[tuple[str, str], ...]) -> None:
    assert layouts_of_accesses(*changes) == [False, False, False]


STORED = """
#rows = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#turned = #ttg.linear<{register = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 32], [0, 64]], block = []}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
!memory = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!tile = tensor<128x64xf32, #rows>
!turned = tensor<64x128xf32, #turned>
!half = tensor<64x128xf16, #turned>
!buffer = !ttg.memdesc<64x128xf16, #shared, #ttg.shared_memory, mutable>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @stored(%m: !memory, %o: !buffer, %d: !tt.tensordesc<64x128xf16, #shared>, %i: i32) {
    %t = ttng.tmem_load %m : !memory -> !tile
    %u = tt.trans %t {order = array<i32: 1, 0>} : !tile -> !turned
    %h = arith.truncf %u : !turned to !half
    STORE
    tt.return
  }
}
"""  # noqa: E501 - layouts
STORES = {
    "store": "ttg.local_store %h, %o : !half -> !buffer",
    "buffer": "%b = ttg.local_alloc %h : (!half) -> !buffer",
    "descriptor": "tt.descriptor_store %d[%i, %i], %h : !tt.tensordesc<64x128xf16, #shared>, !half",
}
OF_MATRICES = "lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]"


def is_loaded_as_matrices(store: str, *changes: tuple[str, str]) -> bool:
    """Whether the load has the layout of the transposed stores of matrices."""
    module = Parser(text_of(STORED.replace("STORE", store), *changes)).module()
    verify(module)
    changed = optimize_tmem_layouts(module)
    verify(module)
    (load,) = module.ops_of(TmemLoad)
    assert (OF_MATRICES in str(tile_type(load.results[0]).encoding)) == changed
    return changed


@pytest.mark.quick
@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
def test_a_tile_that_is_stored_transposed_is_loaded_as_matrices(store: str) -> None:
    assert is_loaded_as_matrices(store)


PRINTED = 'tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %u : !turned'
UPRIGHT = ("transposed = false", "transposed = true")
WIDER = (("xf16", "xf32"), ("%h = arith.truncf %u : !turned to !half", "%h = math.exp2 %u : !half"))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("store", "changes"),
    [
        pytest.param(STORES["store"], [UPRIGHT], id="rows lie in memory as threads have them"),
        pytest.param(f"{STORES['store']}\n {PRINTED}", [], id="something else uses it"),
        pytest.param(STORES["store"], WIDER, id="32 bits"),
        pytest.param("", [], id="nothing stores it"),
    ],
)
def test_other_tiles_are_loaded_by_rows(store: str, changes: list[tuple[str, str]]) -> None:
    assert not is_loaded_as_matrices(store, *changes)


LOADED = (
    STORED[: STORED.index("    %t =")]
    + """    %one = arith.constant dense<1.0> : !half
    %true = arith.constant true
    %l = ttg.local_load %o : !buffer -> !half
    %h = arith.addf %l, %one : !half
    %w = arith.extf %h : !half to !turned
    %t = tt.trans %w {order = array<i32: 1, 0>} : !turned -> !tile
    ttng.tmem_store %t, %m, %true : !tile -> !memory
    tt.return
  }
}
"""
)


def is_put_as_matrices(*changes: tuple[str, str]) -> bool:
    """Whether the store has the layout of the transposed loads of matrices."""
    module = Parser(text_of(LOADED, *changes)).module()
    verify(module)
    changed = optimize_tmem_layouts(module)
    verify(module)
    (store,) = module.ops_of(TmemStore)
    assert (OF_MATRICES in str(tile_type(store.value).encoding)) == changed
    return changed


BRANCH = (
    ("%l = ttg", "%l = scf.if %true -> (!half) {\n %k = ttg"),
    ("!buffer -> !half", "!buffer -> !half\n scf.yield %k : !half\n } else {\n scf.yield %one : !half\n }"),
)


@pytest.mark.quick
@pytest.mark.parametrize("changes", [(), BRANCH], ids=["always", "in a branch"])
def test_a_tile_that_comes_transposed_is_put_there_as_matrices(changes: tuple[tuple[str, str], ...]) -> None:
    assert is_put_as_matrices(*changes)


PRINT_LOADED = PRINTED.replace("%u : !turned", "%h : !half")


@pytest.mark.quick
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([UPRIGHT], id="rows lie in memory as threads need them"),
        pytest.param([("    %w =", f"    {PRINT_LOADED}\n    %w =")], id="something else uses it"),
        pytest.param([("%l = ttg.local_load %o : !buffer -> !half", "%l = arith.negf %one : !half")], id="constants"),
        pytest.param([("(%m", "(%p: !half, %m"), ("addf %l,", "addf %p,")], id="an argument"),
    ],
)
def test_other_tiles_are_put_there_by_rows(changes: list[tuple[str, str]]) -> None:
    assert not is_put_as_matrices(*changes)
