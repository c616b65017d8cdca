"""Changes of torch where it is older or newer than those that they know, with stand-ins for its modules."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

from tilewright.compat import aot_inductor
from tilewright.compat.torch_inductor import PUT, SCATTER, fuse_untimed, left_to_torch, own_sums
from tilewright.compat.torch_launches import launch_directly
from tilewright.compat.torch_layouts import match_once


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


def test_an_index_is_taken_apart_once_per_graph() -> None:
    """Callers may change the lists that they get, and another graph, which knows other sizes, is asked anew."""
    asked: list[tuple[object, ...]] = []

    class BlockPatternMatcher:
        @classmethod
        def match_mod_div_block_expr(cls, *what: object) -> tuple[list[object], ...] | None:
            asked.append(what)
            return None if what[0] == "none" else ([*what], [cls])

    class Graph:
        """A graph that knows its sizes."""

    first, second = Graph(), Graph()
    blocks = SimpleNamespace(BlockPatternMatcher=BlockPatternMatcher, V=SimpleNamespace(graph=first))
    match_once(blocks)
    match = BlockPatternMatcher.match_mod_div_block_expr
    index, none = ("index", "x", 8, 2), ("none", "x", 8, 2)
    for graph in (first, first, second):
        blocks.V.graph = graph
        dims, owner = match(*index) or ([], [])
        assert (dims, owner) == ([*index], [BlockPatternMatcher])
        dims.clear()
        assert match(*none) is None
    assert asked == [index, none, index, none]
    assert match("index", "x", 8, 3) == (["index", "x", 8, 3], [BlockPatternMatcher])


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
