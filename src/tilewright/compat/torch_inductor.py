"""Changes to Inductor where Tilewright compiles its kernels for CPUs.

Candidates. torch times each for 25 ms and then for 100 ms, which is meant for products. The Triton kernels of a model
have a hundred candidates that take microseconds each, and timing them took a third of the compile time. If the first
program of a candidate computes a whole kernel, no other candidate is timed, unless `max_autotune` asks for it.

Fusion. torch 2.13 cannot time on a CPU whether two kernels are faster as one (`benchmark_fusion`): Python cannot parse
the program that it writes for that, and the device is missing. Kernels are fused without timing, as those of the C++
back end are.

Templates. `max_autotune` also times C++ templates of products. They need a C++ compiler, and torch cannot fuse a Triton
kernel with one: where our kernels are chosen, the templates are no candidates.

Keys of the FX graph cache. torch puts Triton's version into the key where there is a GPU, and nothing of it where there
is none. A cache folder may be shared by environments that differ in the version of Tilewright, in whether the real
Triton is installed (the kernels in the cache import one or the other), and in the library that computes products.

Variances. In kernels that loop over more than 1024 numbers Inductor updates mean and variance with each number, and
divides each time. A kernel that adds up the numbers, and in a second loop the squares of their distances from the mean,
needs no divisions, and reading memory twice takes less time: a group norm of a small U-Net takes 0.64 of the time.

Stored values. Inductor stores a value that several kernels or rows read if its computation has exponentials or
logarithms, and otherwise lets each reader recompute it. Sines, cosines and powers take as long: a small Llama computed
the cosine of each position and frequency for each head of each layer. An embedding table reads an index once for each
column, which torch does not count as rows.

Masked values. Inductor reads memory under a mask, and the default of the load gives the masked-off values. If the
kernel itself has just stored the loaded value, torch 2.13 uses that value without the mask: there were numbers in place
of padding.

Signs. Inductor reads the sign bit of a float32, and compares other types with 0: a -0.0 of float64 had no sign.

Sums by index. Inductor knows some types for which kernels of GPUs have no atomic addition, and leaves them to torch.
Integers of 8 and 16 bits are missing in that list: adding to an int16 by index ended in an error of the kernel.

Sorts and running extremes. Inductor sorts rows of up to 512 numbers in kernels, since a GPU does so in registers. On a
CPU torch's own sort takes 0.5 to 0.9 of the time of a sorting network, for rows of any length and dtype. A running
maximum along a row has a chain of dependent comparisons: torch's own takes a quarter of the time there, but not along
columns.

Atomics. Graphs run one kernel after the other, so no other launch uses the memory to which a kernel adds by index. The
scope of its atomics says so; they are plain additions where one thread runs the launch, as those in C++ are.

Imports. torch copies the text of a kernel and of the functions that it calls. It writes imports for names whose modules
start with `triton`, and ours are modules of Tilewright: `add_imports` makes it write those, too.

    from tilewright.language import load        # a kernel says `load(x + lanes)`
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from math import prod
from typing import Any

from tilewright.compat.signatures import triton_key
from tilewright.compat.torch_blocks import BLOCKS_OF_ROWS
from tilewright.compat.torch_products import are_taken, is_number
from tilewright.runtime.jit import JITFunction
from tilewright.semantics.types import dtype

SCHEDULER = "torch._inductor.scheduler"
CHOICES = "torch._inductor.utils"
CACHES = "torch._inductor.codecache"
WARMUP, TIMED = 1, 10
"""How long a candidate is run before it is timed, and while it is: milliseconds, and once at least."""
VARIANCES = {"cpp.use_two_step_variance_threshold": 1 << 62}
"""Settings of Inductor: the count of numbers up to which a variance is two sums; torch reads it for each CPU kernel."""
PUT, SCATTER = "needs_fallback_due_to_atomic_add_limitations", "use_scatter_fallback"
"""Functions of `CHOICES`, which other modules import by name."""
LOWERINGS = "torch._inductor.lowering"
LONG = {"cos", "pow", "sin", "tan"}
"""Functions, as Inductor names them, that take longer than a load, beside those of which torch knows that."""
KERNELS = "torch._inductor.codegen.triton"
RELAXED, OWN = "sem='relaxed'", "sem='relaxed', scope='launch'"
"""The order of an atomic addition as torch writes it, and with the scope of its launch."""
LANGUAGE = "tilewright.language"
WRITER = "user_defined_triton_kernel_transitive_closure_source_code"
"""The function of torch that gives the text of a kernel."""


class BriefBenchmarker:
    """torch's benchmarker, but for how long kernels for CPUs run."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def benchmark(self, *arguments: Any, device: Any = None, **settings: Any) -> float:
        """The median time of a function in milliseconds."""
        times = {"warmup": WARMUP, "rep": TIMED} if device == "cpu" else {}
        return float(self._original.benchmark(*arguments, device=device, **times | settings))


def time_briefly(heuristics: Any) -> None:
    """Let the module `triton_heuristics` time kernels for CPUs so; what else torch times keeps its own time."""
    if not isinstance(heuristics.benchmarker, BriefBenchmarker):
        heuristics.benchmarker = BriefBenchmarker(heuristics.benchmarker)


def try_whole_kernels(heuristics: Any) -> None:
    """Let the module `triton_heuristics` compile one candidate for kernels on CPUs that one program of it does.

    So it does with kernels whose blocks are known (`torch_blocks.py`).
    """
    original = heuristics.cached_autotune

    def cached_autotune(size_hints: Any, configs: Any, *rest: Any, **named: Any) -> Any:
        asked = named.get("inductor_meta") or {}
        is_tuned = asked.get("max_autotune") or asked.get("max_autotune_pointwise")
        if size_hints and not is_tuned and named["triton_meta"]["device"].type == "cpu":
            whole = [config for config in configs if _is_whole(config.kwargs, size_hints)][:1]
            blocks = asked.get(BLOCKS_OF_ROWS)
            configs = whole or (configs if blocks is None else [heuristics.Config(blocks, num_warps=4, num_stages=1)])
        return original(size_hints, configs, *rest, **named)

    heuristics.cached_autotune = cached_autotune


def _is_whole(blocks: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
    """Whether the blocks are as long as all axes; those that have no block are reduced in one piece."""
    return all(blocks.get(f"{axis.upper()}BLOCK", size) >= size for axis, size in sizes.items())


def fuse_untimed(scheduler: Any) -> None:
    """Let the module `SCHEDULER` fuse kernels for CPUs untimed, but no products whose kernel is yet to choose."""
    times, undecided = scheduler.Scheduler.speedup_by_fusion, scheduler.ir.MultiTemplateBuffer

    def speedup_by_fusion(self: Any, first: Any, second: Any) -> Any:
        if first.get_nodes()[0].get_device().type != "cpu" or scheduler.config.cpu_backend != "triton":
            return times(self, first, second)
        if any(node.is_template() and isinstance(node.get_template_node(), undecided) for node in (first, second)):
            return scheduler.FusionResult.fuse(False)
        with scheduler.config.patch(cpu_backend="cpp"):
            return times(self, first, second)

    scheduler.Scheduler.speedup_by_fusion = speedup_by_fusion


def leave_out_cpp(choices: Any) -> None:
    """Let the module `CHOICES` offer no templates in C++ where kernels for CPUs are Triton's."""
    offered = choices._use_template_for_cpu

    def is_offered(layout: Any) -> bool:
        return choices.config.cpu_backend != "triton" and bool(offered(layout))

    choices._use_template_for_cpu = is_offered


def name_compiler(caches: Any, *, beside: bool) -> None:
    """Let the module `CACHES` distinguish graphs by the compiler of their kernels.

    Args:
        caches: the module.
        beside: whether the real Triton is installed, too.
    """
    details, config = caches.FxGraphHashDetails, caches.config
    original = details.__init__

    def initialize(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        if config.cpu_backend == "triton":
            products = " with products" if are_taken(caches.torch) else ""
            self.kernels = f"{triton_key()}{' beside Triton' if beside else ''}{products}"

    details.__init__ = initialize


def left_to_torch(choices: Any) -> Mapping[str, Callable[..., bool]]:
    """The functions PUT and SCATTER of the module `choices`, which leave narrow integers to torch, too."""
    put, scatter = vars(choices)[PUT], vars(choices)[SCATTER]

    def is_narrow(dtype: Any) -> bool:
        return dtype.itemsize < 4 and not dtype.is_floating_point and choices.config.cpu_backend == "triton"

    def is_put_left(dtype: Any) -> bool:
        return is_narrow(dtype) or bool(put(dtype))

    def is_scatter_left(operator: Any, reduction: Any, dtype: Any, *rest: Any) -> bool:
        return (reduction is not None and is_narrow(dtype)) or bool(scatter(operator, reduction, dtype, *rest))

    return {PUT: is_put_left, SCATTER: is_scatter_left}


SORTS = ("default", "stable")
"""The overloads of `sort`."""
RUNNING = ("cummax", "cummin")
"""The operators that give the extreme so far, and its place."""


def leave_rows(lowerings: Any) -> None:
    """Let the module `LOWERINGS` leave sorts to torch on CPUs, and running extremes of neighbours in memory."""
    aten, known, config, nodes = lowerings.aten, lowerings.lowerings, lowerings.config, lowerings.ir
    by_torch = lowerings.fallback_handler(aten.sort.stable, add_to_fallback_set=False)

    def is_ours(x: Any) -> bool:
        return config.cpu_backend == "triton" and nodes.is_cpu(x) and len(x.get_size()) > 0

    def sort_with(lower: Callable[..., Any]) -> Callable[..., Any]:
        def sort(x: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
            if is_ours(x) and not config.triton.decompose_sort_ops:
                return by_torch(x, stable=bool(stable), dim=dim, descending=descending)
            given = {} if stable is None else {"stable": stable}
            return lower(x, dim=dim, descending=descending, **given)

        return sort

    def extreme_with(lower: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
        def extreme(x: Any, axis: int) -> Any:
            node = lowerings.V.graph.current_node
            step = node.all_input_nodes[0].meta["val"].stride(axis) if is_ours(x) else None
            return own(x, dim=axis) if isinstance(step, int) and step == 1 else lower(x, axis)

        return extreme

    for name in SORTS:
        overload = getattr(aten.sort, name)
        known[overload] = sort_with(known[overload])
    for name in RUNNING:
        overload = getattr(aten, name).default
        own = lowerings.fallback_handler(overload, add_to_fallback_set=False)
        known[overload] = extreme_with(known[overload], own)


def own_sums(kernels: Any) -> None:
    """Let the module `KERNELS` give the atomics of kernels for CPUs the scope of their launch."""
    original = kernels.TritonKernel.store

    def store(self: Any, name: str, index: Any, value: Any, mode: Any = None) -> None:
        original(self, name, index, value, mode)
        if mode == "atomic_add" and kernels.V.graph.get_current_device_or_throw().type == "cpu":
            written = self.stores._lines[-1]
            if hasattr(written, "line"):
                written.line = written.line.replace(RELAXED, OWN)

    kernels.TritonKernel.store = store


def mask_stored(kernels: Any) -> None:
    """Let the module `KERNELS` mask values that it has stored where it is to read them under a mask, on CPUs."""
    overrides, graph = kernels.TritonKernelOverrides, kernels.V
    original = overrides.masked

    def masked(mask: Any, body: Any, other: Any) -> Any:
        given = [each for node in body.graph.find_nodes(op="output") for each in node.args]
        read = [name for each in given if each.target == "load" for _, name, *_ in (each.args,)]
        is_stored = any(name in graph.kernel.cse.store_cache for name in read)
        result = original(mask, body, other)
        if not is_stored or graph.graph.get_current_device_or_throw().type != "cpu":
            return result
        return kernels.ops.where(mask, result, kernels.ops.constant(other, result.dtype))

    overrides.masked = staticmethod(masked)


def store_functions(nodes: Any) -> None:
    """Let the module `torch._inductor.ir` store values with `LONG` functions that are read several times on CPUs."""
    original, config = nodes.StorageBox.should_realize_on_reuse, nodes.config

    def should_realize_on_reuse(self: Any, users: int, **named: Any) -> bool:
        if original(self, users, **named):
            return True
        computed = isinstance(self.data, (nodes.Pointwise, nodes.Reduction))
        if users < 2 or not computed or not nodes.is_cpu(self.data) or config.cpu_backend != "triton":
            return False
        return not LONG.isdisjoint(self.data.inner_fn_opcount().used_ops)

    nodes.StorageBox.should_realize_on_reuse = should_realize_on_reuse


def store_indices(lowerings: Any) -> None:
    """Let the module `LOWERINGS` count each column of a table as a reader of its indices, on CPUs."""
    overload, known = lowerings.aten.embedding.default, lowerings.lowerings
    original, config = known[overload], lowerings.config

    def of_rows(weight: Any, indices: Any, *rest: Any, **named: Any) -> Any:
        columns = weight.get_size()[1:]
        if lowerings.ir.is_cpu(weight) and config.cpu_backend == "triton" and all(map(is_number, columns)):
            indices.mark_reuse(prod(map(int, columns)), graph_reuse=False)
        return original(weight, indices, *rest, **named)

    known[overload] = of_rows


def tell_signs(kernels: Any) -> None:
    """Let the module `KERNELS` ask for the sign bit of floats of any size on CPUs."""
    overrides, graph = kernels.TritonKernelOverrides, kernels.V
    original = overrides.signbit

    def signbit(x: Any) -> str:
        on_cpu = graph.graph.get_current_device_or_throw().type == "cpu"
        exact = f"(libdevice.signbit({x}) != 0) if ({x}).dtype.is_floating() else {x} < 0"
        return exact if on_cpu else str(original(x))

    overrides.signbit = staticmethod(signbit)


def begin_kernels(text: str, kernels: Any) -> None:
    """Let the module `KERNELS` write lines behind the imports of kernels for CPUs."""
    kernel, graph = kernels.TritonKernel, kernels.V
    original = kernel.gen_common_triton_imports

    def gen_common_triton_imports() -> str:
        on_cpu = graph.graph.get_current_device_or_throw().type == "cpu"
        return f"{original()}{text if on_cpu else ''}"

    kernel.gen_common_triton_imports = staticmethod(gen_common_triton_imports)


def add_imports() -> None:
    """Let the texts that torch has of kernels import what they need."""
    wrapper = vars(import_module("torch._inductor.codegen.wrapper"))
    original = wrapper[WRITER]

    def with_imports(kernel: Any, *args: Any, **kwargs: Any) -> str:
        return "\n".join([original(kernel, *args, **kwargs), *sorted(set(_imports(kernel, set())))])

    wrapper[WRITER] = with_imports


def _imports(kernel: Any, seen: set[int]) -> Iterator[str]:
    """The imports of a kernel and of those that it calls."""
    if id(kernel) in seen:
        return
    seen.add(id(kernel))
    used = inspect.getclosurevars(kernel.fn)
    for name, value in {**used.globals, **used.nonlocals}.items():
        if isinstance(value, JITFunction):
            yield from _imports(value, seen)
        else:
            yield from _import(name, value)


def _import(name: str, value: Any) -> Iterator[str]:
    """The import of a function or a dtype of the language; nothing for other values."""
    module = LANGUAGE if isinstance(value, dtype) else getattr(value, "__module__", None) or ""
    if module.startswith(LANGUAGE):
        originals = (original for original, found in vars(import_module(module)).items() if found is value)
        yield from (f"from {module} import {original} as {name}" for original in islice(originals, 1))
