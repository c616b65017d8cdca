"""`torch.compile(model, backend="tilewright")`: Inductor writes Triton kernels for the CPU, Tilewright compiles them.

    import torch
    model = torch.compile(model, backend="tilewright")    # torch finds it by the entry point of the package

Inductor requires a package `triton`. If none is installed, ours is registered under that name, for torch: nothing else
of the process changes. torch looks for Triton once per process, and may not have found it before this is imported (a
model was compiled with another back end): then its modules are updated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module, reload
from importlib.abc import Loader
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, ParamSpec, cast

from tilewright.compat import finder
from tilewright.compat.aot_inductor import HEURISTICS, note_saved
from tilewright.compat.beside_triton import TEXT, use_for_cpus
from tilewright.compat.torch_blocks import note_rows
from tilewright.compat.torch_bridge import torch, when_imported
from tilewright.compat.torch_images import (
    DECOMPOSITIONS,
    gather_folds,
    join_borders,
    keep_images,
    keep_padding,
    split_variances,
)
from tilewright.compat.torch_inductor import (
    CACHES,
    CHOICES,
    KERNELS,
    LOWERINGS,
    SCHEDULER,
    VARIANCES,
    add_imports,
    begin_kernels,
    fuse_untimed,
    leave_out_cpp,
    leave_rows,
    left_to_torch,
    mask_stored,
    name_compiler,
    own_sums,
    store_functions,
    store_indices,
    tell_signs,
)
from tilewright.compat.torch_launches import TEXT as CHANGES_OF_HEURISTICS
from tilewright.compat.torch_launches import change_heuristics
from tilewright.compat.torch_layouts import (
    BLOCKS,
    GRAPH,
    LOOPS,
    NODES,
    TILED,
    has_fixed_sizes,
    keep_upsampling,
    match_divided,
    order_symbols,
    tile_long_rows,
    weigh_weights,
    whole_gradients,
)
from tilewright.compat.torch_products import TEMPLATES, choose_blocks, take_products
from tilewright.compat.torch_recurrent import DECOMPOSITIONS as LAYERS
from tilewright.compat.torch_recurrent import MODULES, replace_layers, take_modules
from tilewright.compat.torch_starts import (
    COMMON,
    FRAMES,
    TRACER,
    capture_rarely_collected,
    name_for_logs,
    no_collections,
    parse_later,
    rare_collections,
    remember_key,
)
from tilewright.compat.torch_sums import PASSES, change_sums
from tilewright.compat.torch_threads import use_threads
from tilewright.support.diagnostics import TilewrightError
from tilewright.tools.run_command import PACKAGE_PATH

Parameters = ParamSpec("Parameters")
OLDEST_TORCH = (2, 12)
"""The oldest version of torch, major and minor, whose Inductor is known to work with this back end."""


class TorchBackendError(TilewrightError):
    """`backend="tilewright"` cannot work with what is installed."""


def tilewright(
    graph: Any, inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Compile a graph that Dynamo has captured.

    Kernels run on as many threads as torch has now, unless `TILEWRIGHT_NUM_THREADS` gives a number.

    Args:
        graph: a `torch.fx.GraphModule`.
        inputs: its inputs, as tensors that have shapes and no data.
        mode: one of `torch.compile`'s, such as `"max-autotune-no-cudagraphs"`.
        options: settings of Inductor by name, such as `{"max_autotune": True}`.

    Returns:
        a function of the graph's inputs.

    Raises:
        RuntimeError: the mode, or an option, is none of Inductor's.
    """
    use_threads(torch())
    with no_collections():
        import_module(INDUCTOR)
    on_cpus = all(each.device.type == "cpu" for each in inputs if hasattr(each, "device"))
    settings = {"cpu_backend": "triton", **(TILED | VARIANCES if on_cpus else {}), **(options or {})}
    is_whole = on_cpus and has_fixed_sizes(inputs) and _is_trained(graph, inputs)
    with rare_collections(), whole_gradients() if is_whole else nullcontext():
        return torch()._TorchCompileInductorWrapper(mode, settings, None)(graph, inputs)


def _is_trained(graph: Any, inputs: Sequence[Any]) -> bool:
    """Whether a graph is to have gradients, too."""
    tensors = (*inputs, *graph.parameters())
    return bool(torch().is_grad_enabled()) and any(getattr(each, "requires_grad", False) for each in tensors)


SHOWN = "_shows_tilewright"
"""The name in torch that says that all of this is done, also where this module is executed anew."""
INDUCTOR = "torch._inductor.compile_fx"
"""The module that imports all of Inductor."""
CHANGES: tuple[tuple[str, Callable[[Any], None]], ...] = (
    (FRAMES, capture_rarely_collected),
    (TRACER, name_for_logs),
    (COMMON, parse_later),
    (CACHES, remember_key),
    (SCHEDULER, fuse_untimed),
    (CHOICES, leave_out_cpp),
    (KERNELS, own_sums),
    (KERNELS, mask_stored),
    (KERNELS, note_rows),
    (KERNELS, tell_signs),
    (GRAPH, weigh_weights),
    (GRAPH, keep_upsampling),
    (LOOPS, tile_long_rows),
    (BLOCKS, match_divided),
    (NODES, order_symbols),
    (NODES, store_functions),
    (LOWERINGS, store_indices),
    (LOWERINGS, take_products),
    (LOWERINGS, leave_rows),
    (DECOMPOSITIONS, keep_images),
    (DECOMPOSITIONS, join_borders),
    (LOWERINGS, keep_padding),
    (LOWERINGS, gather_folds),
    (LOWERINGS, split_variances),
    (TEMPLATES, choose_blocks),
    (PASSES, change_sums),
    (MODULES, take_modules),
    (LAYERS, replace_layers),
)
"""The changes of modules of torch, which wait for these."""


def show_triton() -> None:
    """Make `import triton` work in this process, and in those that torch starts to compile.

    A real Triton stays what it is: ours goes beside it. Called again, this does nothing.

    Raises:
        TorchBackendError: torch is too old, or has changed since.
    """
    if SHOWN in vars(torch()):
        return
    _check_version(torch().__version__)
    found = find_spec("triton")
    is_beside = found is not None and found.origin != str(PACKAGE_PATH / "triton" / "__init__.py")
    if is_beside:
        finder.only_for_torch = True
        use_for_cpus()
    elif found is None:
        finder.only_for_torch = True
        sys.path.append(str(PACKAGE_PATH))  # torch gives its compile workers this path
        _ask_again()
    _forget_keys()
    heuristics = import_module(HEURISTICS)
    for change in (_load_numbers, _leave_to_torch, add_imports):
        known(change)()
    known(change_heuristics)(heuristics)
    begin = partial(begin_kernels, TEXT if is_beside else CHANGES_OF_HEURISTICS)
    when_imported(KERNELS, known(begin))
    when_imported(CACHES, known(partial(name_compiler, beside=is_beside)))
    for name, of_module in CHANGES:
        when_imported(name, known(of_module))
    setattr(torch(), SHOWN, True)


def known(change: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """A change of torch, which explains what it means that torch has not what is to be changed."""

    def change_or_explain(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            change(*args, **kwargs)
        except (AttributeError, KeyError) as error:
            raise TorchBackendError(
                f"torch {torch().__version__} is not as this version of Tilewright knows it ({error}): "
                "a newer Tilewright may know it, or install an older torch"
            ) from error

    return change_or_explain


def _check_version(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise TorchBackendError(
            f'torch.compile(backend="tilewright") needs torch {oldest} or newer, and {version} is installed: '
            f"pip install 'torch>={oldest}'"
        )


RELOADED = (
    "torch._inductor.runtime.triton_compat",
    "torch._inductor.runtime.static_triton_launcher",
    "torch._inductor.runtime.triton_helpers",
    HEURISTICS,
)
"""The modules of torch that take names from Triton or make classes of them, in the order of their imports."""
HINTS = "torch._inductor.runtime.hints"
DESCRIPTOR = "AttrsDescriptorWrapper"
"""A module whose classes others have taken, so that it stays, and its one function that depends on Triton."""


def _ask_again() -> None:
    """Let torch look for Triton again where it has looked before."""
    for name in ("torch.utils._triton", "torch._inductor.utils"):
        if name in sys.modules:
            _forget(sys.modules[name])
    for name in RELOADED:
        if name in sys.modules:
            _reload(sys.modules[name])
    if HEURISTICS in sys.modules:
        note_saved(sys.modules[HEURISTICS])
    if HINTS in sys.modules:
        made_again = vars(_executed_anew(sys.modules[HINTS]))[DESCRIPTOR]
        _replace({DESCRIPTOR: vars(sys.modules[HINTS])[DESCRIPTOR]}, {DESCRIPTOR: made_again})
    _set_conditional_imports(import_module("triton"))


def _set_conditional_imports(triton: ModuleType) -> None:
    """Give names to modules that look for Triton at their tops."""
    for module, names in {
        "torch._dynamo.utils": {"triton": triton},
        "torch._inductor.template_heuristics.triton": {"TritonConfig": triton.Config},
        "torch._inductor.ir": {"triton": triton, "triton_version": triton.__version__, "has_triton": True},
    }.items():
        if module in sys.modules:
            vars(sys.modules[module]).update(names)
    if "torch._dynamo.utils" in sys.modules:
        sys.modules["torch._dynamo.utils"].common_constant_types.add(triton.language.dtype)


def _load_numbers() -> None:
    """Let kernels for CPUs load tensors without axes as they load others.

    Inductor would pass the number in such a tensor, as a GPU needs it, and takes the pointer for it where the kernel
    writes there, too.
    """
    name = "should_unwrap_unspec_arg"
    original = vars(import_module("torch._inductor.codegen.triton_utils"))[name]
    graph = import_module("torch._inductor.virtualized").V

    def is_number(tensor: str) -> bool:
        return bool(original(tensor)) and graph.graph.get_current_device_or_throw().type != "cpu"

    _replace({name: original}, {name: is_number})


def _leave_to_torch() -> None:
    choices = import_module(CHOICES)
    left = left_to_torch(choices)
    _replace({name: vars(choices)[name] for name in left}, left)


def _forget_keys() -> None:
    """Let the keys of torch's caches name what compiles now."""
    caches = sys.modules.get("torch._inductor.codecache")
    if caches is not None:
        caches.triton_key.clear()
        caches.CacheBase.get_system.cache_clear()


def _forget(module: ModuleType) -> None:
    """Empty the caches of a module's functions."""
    for function in vars(module).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def _reload(module: ModuleType) -> None:
    """Execute a module again, and give what is new to those that have taken the old."""
    old = dict(vars(module))
    reload(module)
    _replace(old, {name: value for name, value in vars(module).items() if name in old and old[name] is not value})


def _replace(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Replace names wherever a module of torch has them from the old module."""
    for module in [vars(module) for name, module in list(sys.modules.items()) if name.startswith("torch.")]:
        module.update({name: new[name] for name in new.keys() & module.keys() if module[name] is old[name]})


def _executed_anew(module: ModuleType) -> Any:
    """A second copy of a module."""
    assert module.__spec__ is not None
    copy = module_from_spec(module.__spec__)
    cast(Loader, module.__spec__.loader).exec_module(copy)
    return copy


with no_collections():
    show_triton()  # now, since Dynamo asks for Triton before it calls `tilewright`
