"""Changes of torch where it is older or newer than those that they know, with stand-ins for its modules."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tilewright import jit
from tilewright.compat import aot_inductor, torch_inductor
from tilewright.compat.torch_inductor import (
    PUT,
    SCATTER,
    fuse_untimed,
    left_to_torch,
    mask_stored,
    own_sums,
    try_whole_kernels,
)
from tilewright.compat.torch_launches import launch_directly
from tilewright.compat.torch_layouts import match_divided, tile_long_rows, weigh_weights
from tilewright.language import constexpr, exp, float32, maximum

pytestmark = pytest.mark.quick


@pytest.fixture
def heuristics(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with a tuner that saves kernels for CPUs; no name of torch is unknown yet."""
    monkeypatch.setattr(aot_inductor, "_unknown", [])
    module = ModuleType("heuristics")

    class CachingAutotuner:
        def save_cpu_kernel(self, launcher: object) -> None: ...
        def run(self) -> None: ...
        def bench(self) -> None: ...

    vars(module)["CachingAutotuner"] = CachingAutotuner
    return module


def test_packaging_is_refused_where_the_writer_of_packages_has_changed(heuristics: ModuleType) -> None:
    aot_inductor.note_saved(heuristics)
    aot_inductor.note_trials(ModuleType("programs"))
    with pytest.raises(aot_inductor.PackagingError, match=r"knows it .programs: 'PythonWrapperCodegen'"):
        vars(heuristics)["CachingAutotuner"]().save_cpu_kernel(None)


def test_a_torch_without_packages_for_cpus_stays_as_it_is(heuristics: ModuleType) -> None:
    """Its import of Inductor's modules ended in an AttributeError, also for programs that package nothing."""
    tuner = vars(heuristics)["CachingAutotuner"]
    del tuner.save_cpu_kernel
    run = tuner.run
    aot_inductor.note_saved(heuristics)
    assert tuner.run is run


class Kernel:
    """A stand-in for torch's kernel, whose lines are texts."""

    def __init__(self) -> None:
        self.stores = SimpleNamespace(_lines=[])

    def store(self, name: str, index: object, value: str, mode: str | None = None) -> None:
        self.stores._lines.append(f"tl.atomic_add({name}, {value}, sem='relaxed')")


def test_stores_that_are_written_otherwise_keep_their_scope() -> None:
    graph = SimpleNamespace(get_current_device_or_throw=lambda: SimpleNamespace(type="cpu"))
    kernels = SimpleNamespace(TritonKernel=Kernel, V=SimpleNamespace(graph=graph))
    own_sums(kernels)
    kernel = Kernel()
    kernel.store("sums", 0, "x", "atomic_add")
    assert kernel.stores._lines == ["tl.atomic_add(sums, x, sem='relaxed')"]


@pytest.mark.parametrize(
    ("target", "name", "device", "expected"),
    [
        pytest.param("load", "buf0", "cpu", "where(m, value, 0.5: fp32)", id="stored before"),
        pytest.param("load", "arg0", "cpu", "value", id="loaded under the mask"),
        pytest.param("add", "buf0", "cpu", "value", id="computed, which torch masks"),
        pytest.param("load", "buf0", "cuda", "value", id="a GPU"),
    ],
)
def test_values_that_a_kernel_has_stored_are_masked(target: str, name: str, device: str, expected: str) -> None:
    class Value(str):
        dtype = "fp32"

    class TritonKernelOverrides:
        @staticmethod
        def masked(mask: str, body: Any, other: float) -> str:
            return Value("value")

    ops = SimpleNamespace(where="where({}, {}, {})".format, constant="{}: {}".format)
    graph = SimpleNamespace(get_current_device_or_throw=lambda: SimpleNamespace(type=device))
    kernel = SimpleNamespace(cse=SimpleNamespace(store_cache={"buf0": "value"}))
    kernels = SimpleNamespace(TritonKernelOverrides=TritonKernelOverrides, ops=ops)
    kernels.V = SimpleNamespace(graph=graph, kernel=kernel)
    mask_stored(kernels)
    output = SimpleNamespace(args=[SimpleNamespace(target=target, args=["ops", name])])
    body = SimpleNamespace(graph=SimpleNamespace(find_nodes=lambda op: [output]))
    assert TritonKernelOverrides().masked("m", body, 0.5) == expected


class Node:
    """A stand-in for a node of torch's scheduler."""

    def __init__(self, index: str, ranges: tuple[list[int], list[int]] = ([8, 32], []), device: str = "cpu") -> None:
        self.index, self.ranges, self.device = index, ranges, device

    def get_device(self) -> SimpleNamespace:
        return SimpleNamespace(type=self.device)

    def get_ranges(self) -> tuple[list[int], list[int]]:
        return self.ranges

    @property
    def read_writes(self) -> SimpleNamespace:
        accesses = [Access(self.index), object()]  # the second has no index
        return SimpleNamespace(reads_and_writes=lambda: accesses)


class Access:
    """A stand-in for an access to memory."""

    def __init__(self, index: str) -> None:
        self.index, self.var_names, self.size = index, ("d0", "d1"), (8, 32)


class Tiling(dict[str, int]):
    """A stand-in for axes that are long enough."""

    def __init__(self, axes: str) -> None:
        super().__init__(dict.fromkeys(axes, 64))

    def __hash__(self) -> int:  # type: ignore[override] # stays as it is
        return hash("".join(self))


def _loops(asked: list[Any]) -> Any:
    """A stand-in for the module of loops, which writes down what it is asked for."""

    class SIMDScheduling:
        @classmethod
        def get_nd_tilings(cls, nodes: list[Node], *numbers: int) -> list[Tiling]:
            asked.append(([node.index for node in nodes], *numbers))
            axes = [Tiling(node.index) for node in nodes] + [Tiling("x")]
            return sorted(dict.fromkeys(axes), key=len, reverse=True)

        @classmethod
        def create_tiling(cls, kept: object, reduced: object) -> None: ...

    class SIMDKernel:
        @classmethod
        def is_compatible(cls, groups: Iterable[int], lengths: list[list[int]], reduction_numel: int = 1) -> bool:
            asked.append((tuple(groups), lengths, reduction_numel))
            return len(lengths[0]) > 1

    triton = SimpleNamespace(prefer_nd_tiling=False, max_tiles=2, tile_reductions=False)
    return SimpleNamespace(
        SIMDScheduling=SIMDScheduling,
        SIMDKernel=SIMDKernel,
        EnableReduction=SimpleNamespace(filter=lambda nodes: [node for node in nodes if node != "mark"]),
        scheduler=SimpleNamespace(SchedulerNode=Node),
        MemoryDep=Access,
        config=SimpleNamespace(triton=triton),
        V=SimpleNamespace(graph=_Graph()),
    )


class _Graph:
    """A stand-in for a graph that knows its sizes."""

    def __init__(self) -> None:
        known = {"statically_known_equals": int.__eq__, "statically_known_lt": int.__lt__}
        self.sizevars = SimpleNamespace(replacements={}, **known)


def test_axes_are_those_of_all_nodes_and_asked_for_once() -> None:
    """They are asked for anew for other indices, ranges and graphs, and where other sizes are equal."""
    asked: list[Any] = []
    loops = _loops(asked)
    tilings = loops.SIMDScheduling.get_nd_tilings
    first, second = Node("yx"), Node("zyx")
    expected = tilings([first, second], 256, 1)
    asked.clear()
    tile_long_rows(loops)
    for _ in range(2):
        assert loops.SIMDScheduling.get_nd_tilings([first, "mark", second], 256, 1) == expected
        assert loops.SIMDScheduling.get_nd_tilings([Node("yx")], 256, 1) == [Tiling("yx"), Tiling("x")]
    assert asked == [(["yx"], 256, 1), (["zyx"], 256, 1)]
    first.index = "zx"
    loops.SIMDScheduling.get_nd_tilings([first], 256, 1)
    first.ranges = ([256], [])
    loops.SIMDScheduling.get_nd_tilings([first], 256, 1)
    loops.V.graph.sizevars.replacements["s0"] = "s1"
    loops.SIMDScheduling.get_nd_tilings([first], 256, 1)
    loops.V.graph = _Graph()
    loops.SIMDScheduling.get_nd_tilings([first], 256, 1)
    assert asked[2:] == [(["zx"], 256, 1)] * 4


def test_kernels_for_other_devices_have_the_axes_that_torch_gives_them() -> None:
    asked: list[Any] = []
    loops = _loops(asked)
    tile_long_rows(loops)
    nodes = [Node("yx", device="cuda"), Node("zyx", device="cuda")]
    for _ in range(2):
        loops.SIMDScheduling.get_nd_tilings(nodes, 256, 1)
    assert asked == [(["yx", "zyx"], 256, 1)] * 2


def test_ranges_are_split_into_axes_once() -> None:
    asked: list[Any] = []
    loops = _loops(asked)
    tile_long_rows(loops)
    for _ in range(2):
        assert loops.SIMDKernel.is_compatible(iter((8, 32)), [[8, 32], []])
        assert not loops.SIMDKernel.is_compatible(iter((8, 32)), [[256], []])
        assert loops.SIMDKernel.is_compatible(iter((8, 32)), [[8, 32], []], reduction_numel=4)
    assert len(asked) == 3


class Expression:
    """A stand-in for an expression of sympy."""

    def __init__(self, *args: Expression, kind: str = "", symbol: str = "") -> None:
        self.args, self.is_Add, self.is_Mul = args, kind == "+", kind == "*"
        self.free_symbols = {symbol}.union(*(each.free_symbols for each in args)) - {""}


class Quotient(Expression):
    """A stand-in for a quotient of indices."""


X, SIZE = Expression(symbol="x"), Expression(symbol="s0")
BLOCK = Expression(Quotient(X), SIZE, kind="*")
LEAST = Expression(Quotient(X), X, kind="min")


@pytest.mark.parametrize(
    ("index", "is_compared"),
    [
        pytest.param(X, False, id="x"),
        pytest.param(Expression(X, SIZE, kind="*"), False, id="x * s0"),
        pytest.param(Quotient(X), True, id="x // 4"),
        pytest.param(BLOCK, True, id="x // 4 * s0"),
        pytest.param(Expression(BLOCK, Quotient(X), SIZE, kind="+"), True, id="x // 4 * s0 + x // 4 + s0"),
        pytest.param(Expression(BLOCK, X, kind="+"), False, id="x // 4 * s0 + x"),
        pytest.param(Expression(SIZE, LEAST, kind="*"), False, id="s0 * min(x // 4, x)"),
        pytest.param(SIZE, True, id="s0"),
    ],
)
def test_an_index_is_compared_where_all_of_its_terms_are_quotients(index: Expression, is_compared: bool) -> None:
    class BlockPatternMatcher:
        @staticmethod
        def _preprocess(expression: Expression) -> Expression:
            return expression.args[0]

        @classmethod
        def match_mod_div_block_expr(cls, *what: object) -> tuple[object, ...]:
            return what

    blocks = SimpleNamespace(BlockPatternMatcher=BlockPatternMatcher, FloorDiv=Quotient, ModularIndexing=int)
    match_divided(blocks)
    asked = (Expression(index, kind="identity"), "x", 8, 2)
    assert BlockPatternMatcher.match_mod_div_block_expr(*asked) == (asked if is_compared else None)


WHOLE, ROWS, FLAT = {"YBLOCK": 8, "XBLOCK": 16}, {"YBLOCK": 1, "XBLOCK": 16}, {"XBLOCK": 32}
LOOP, LONG = FLAT | {"R0_BLOCK": 64}, {"XBLOCK": 8, "R0_BLOCK": 512}


@pytest.mark.parametrize(
    ("sizes", "blocks", "named", "left"),
    [
        pytest.param({"y": 8, "x": 16}, [ROWS, WHOLE, WHOLE], {}, [WHOLE], id="whole"),
        pytest.param({"y": 8, "x": 32}, [ROWS, WHOLE], {}, [ROWS, WHOLE], id="no candidate is whole"),
        pytest.param({"x": 32, "r0_": 512}, [{"XBLOCK": 8}, FLAT], {}, [FLAT], id="reduced in one piece"),
        pytest.param({"x": 32, "r0_": 512}, [LONG, LOOP], {}, [LONG, LOOP], id="loop"),
        pytest.param({"y": 8, "x": 16}, [ROWS, WHOLE], {"max_autotune": True}, [ROWS, WHOLE], id="max_autotune"),
        pytest.param({"y": 8, "x": 16}, [ROWS, WHOLE], {"max_autotune_pointwise": True}, [ROWS, WHOLE], id="pointwise"),
        pytest.param({"y": 8, "x": 16}, [ROWS, WHOLE], {"device": "cuda"}, [ROWS, WHOLE], id="a GPU"),
        pytest.param(None, [ROWS, WHOLE], {}, [ROWS, WHOLE], id="a kernel of the user"),
    ],
)
def test_nothing_is_tried_beside_a_program_that_does_all(
    sizes: dict[str, int] | None, blocks: list[dict[str, int]], named: dict[str, Any], left: list[dict[str, int]]
) -> None:
    def cached_autotune(size_hints: object, configs: list[Any], **rest: object) -> list[dict[str, int]]:
        return [config.kwargs for config in configs]

    heuristics = SimpleNamespace(cached_autotune=cached_autotune)
    try_whole_kernels(heuristics)
    configs = [SimpleNamespace(kwargs=each) for each in blocks]
    device = SimpleNamespace(type=named.pop("device", "cpu"))
    assert heuristics.cached_autotune(sizes, configs, triton_meta={"device": device}, inductor_meta=named) == left


def test_launchers_with_other_names_are_torchs_own() -> None:
    class Result:
        def _gen_launcher_code(self, scope: dict[str, object], parameters: object, passed: object) -> str:
            return "by torch"

    active = SimpleNamespace(__module__=__name__)
    heuristics = SimpleNamespace(
        TritonCompileResult=Result,
        get_active_debug_mode=active,
        CachingAutotuner=SimpleNamespace(run=None),
        autograd_profiler=None,
    )
    launch_directly(heuristics)
    assert Result()._gen_launcher_code({"binary": None}, [], []) == "by torch"


class Template:
    """A stand-in for a product whose kernel is yet to choose."""

    def get_nodes(self) -> list[Template]:
        return [self]

    def get_device(self) -> SimpleNamespace:
        return SimpleNamespace(type="cpu")

    def is_template(self) -> bool:
        return True

    def get_template_node(self) -> Template:
        return self


@pytest.mark.parametrize(("backend", "decides"), [("cpp", "torch"), ("triton", False)])
def test_undecided_products_are_fused_as_before_by_other_back_ends(backend: str, decides: object) -> None:
    """Inductor's C++ back end in the same process did not fuse what follows a product any more."""

    class Scheduler:
        def speedup_by_fusion(self, first: Template, second: Template) -> str:
            return "torch"

    scheduler = SimpleNamespace(
        Scheduler=Scheduler,
        ir=SimpleNamespace(MultiTemplateBuffer=Template),
        config=SimpleNamespace(cpu_backend=backend),
        FusionResult=SimpleNamespace(fuse=lambda is_faster: is_faster),
    )
    fuse_untimed(scheduler)
    assert Scheduler().speedup_by_fusion(Template(), Template()) == decides


@pytest.mark.parametrize(("size", "is_float", "by_torch"), [(1, False, False), (4, False, True), (2, True, True)])
def test_narrow_integers_are_left_to_torch_and_all_that_it_keeps(size: int, is_float: bool, by_torch: bool) -> None:
    choices = SimpleNamespace(config=SimpleNamespace(cpu_backend="triton"))
    vars(choices).update({PUT: lambda dtype: by_torch, SCATTER: lambda *args: by_torch})
    dtype = SimpleNamespace(itemsize=size, is_floating_point=is_float)
    left = left_to_torch(choices)
    assert left[PUT](dtype)
    assert left[SCATTER](None, "sum", dtype)
    choices.config.cpu_backend = "cpp"
    assert left[PUT](dtype) is by_torch


@pytest.mark.parametrize(
    ("backend", "forced", "device", "pixels", "wanted"),
    [
        *[("triton", False, "cpu", 4, False), ("triton", False, "cpu", 6, True), ("triton", True, "cpu", 4, True)],
        *[("cpp", False, "cpu", 4, True), ("triton", False, "cuda", 4, True)],
    ],
)
def test_images_with_fewer_numbers_than_weights_stay_as_they_are(
    backend: str, forced: bool, device: str, pixels: int, wanted: bool
) -> None:
    """The weights have 18 numbers; image and result have twice and once the pixels, of which one extent is a symbol."""

    def tensor(*shape: Any) -> SimpleNamespace:
        return SimpleNamespace(meta={"val": SimpleNamespace(shape=shape, device=SimpleNamespace(type=device))})

    symbol, unknown = (SimpleNamespace(node=SimpleNamespace(hint=hint)) for hint in (pixels, None))
    result = tensor(unknown, symbol)
    result.args, result.target = (tensor(2, symbol), tensor(2, 1, 3, 3)), "convolution"
    graph = SimpleNamespace(
        GraphLowering=SimpleNamespace(decide_layout_opt=lambda gm, *, is_inference: is_inference),
        config=SimpleNamespace(cpu_backend=backend, force_layout_optimization=forced),
        torch=SimpleNamespace(
            ops=SimpleNamespace(aten=SimpleNamespace(convolution=SimpleNamespace(default=result.target)))
        ),
    )
    weigh_weights(graph)
    module = SimpleNamespace(graph=SimpleNamespace(nodes=[SimpleNamespace(target="relu"), result]))
    assert graph.GraphLowering.decide_layout_opt(module, is_inference=True) is wanted
    assert not graph.GraphLowering.decide_layout_opt(module, is_inference=False)


@jit
def inner(x):
    return maximum(exp(x), 0.0)


@jit
def outer(x, N: constexpr):
    return inner(x).to(float32) if N else outer(x, N + 1)


def test_names_of_the_language_are_imported_for_a_kernel_and_all_that_it_calls() -> None:
    assert sorted(torch_inductor._imports(outer, set())) == [
        "from tilewright.language import float32 as float32",
        "from tilewright.language.math import exp as exp",
        "from tilewright.language.operations import maximum as maximum",
    ]
