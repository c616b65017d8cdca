"""Tilewright for CPUs in a process where `import triton` finds the real Triton.

The text that Inductor generates for a kernel imports Triton, as do modules of torch that it uses. For a CPU the text is
continued by

    from tilewright.compat.beside_triton import triton, tl, triton_heuristics, triton_helpers, libdevice, tl_math

which replaces those names by our `triton` (the same package as under `tilewright run`, by its full name) and by second
copies of torch's modules `COPIED`, in which `import triton` finds ours. Kernels for GPUs use the originals. The copies
can be imported by their full names, which a compile worker needs when it sends a kernel to its parent.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tilewright.compat import finder
from tilewright.compat.aot_inductor import complete_wrappers
from tilewright.compat.signatures import triton_key
from tilewright.compat.torch_launches import change_heuristics
from tilewright.compat.torch_starts import remembered
from tilewright.runtime.build import current_backend

OURS = "tilewright.compat.path.triton"
"""The full name of our package `triton`."""
RUNTIME = "torch._inductor.runtime"
COPIED = ("triton_compat", "static_triton_launcher", "triton_helpers", "triton_heuristics")
"""The modules of `RUNTIME` that take names from Triton or make classes of them."""
TEXT = "from tilewright.compat.beside_triton import triton, tl, triton_heuristics, triton_helpers, libdevice, tl_math\n"
"""The line behind the imports of a kernel for a CPU."""


def use_for_cpus() -> None:
    """Let Inductor's keys of caches name Tilewright.

    Dynamo knows the real Triton's kernels: ours run between graphs. AOTInductor packages none for CPUs.
    """
    _replace(f"{RUNTIME}.triton_compat", "triton_key", _key)
    _replace("torch.utils._triton", "triton_backend", _backend)
    complete_wrappers()
    import_module("torch._dynamo.trace_rules").add("tilewright")  # our launches, no part of graphs, are not traced


def _replace(module: str, path: str, wrapper: Callable[[Callable[[], Any]], Any]) -> None:
    """Wrap a function of torch."""
    owner = reduce(getattr, path.split(".")[:-1], cast(Any, import_module(module)))
    name = path.rpartition(".")[2]
    made = wrapper(getattr(owner, name))
    setattr(owner, name, staticmethod(made) if isinstance(owner, type) else made)


def _key(original: Callable[[], str]) -> Callable[[], str]:
    def key() -> str:
        """A text that differs between versions of Triton, and of Tilewright."""
        spec = find_spec("triton")
        folder = None if spec is None else spec.submodule_search_locations
        theirs = remembered("triton", Path(folder[0]), original) if folder else original()
        return f"{theirs}-{triton_key()}"

    return key


def _backend(original: Callable[[], Any]) -> Callable[[], Any]:
    def backend() -> Any:
        """Triton's back end, or ours where Triton finds no GPU."""
        try:
            return original()
        except RuntimeError:
            return current_backend()

    return cache(backend)


def __getattr__(name: str) -> Any:
    """A name that kernels import from here; anything else is torch's."""
    made = {"triton": OURS, "tl": f"{OURS}.language"}
    if name in made:
        return import_module(made[name])
    if name in ("libdevice", "tl_math"):
        return getattr(_copy("triton_helpers"), name.removeprefix("tl_"))
    if name in COPIED:
        return _copy(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _copy(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name}")


class Copies:
    """Finds and executes second copies of torch's modules, whose imports find ours; without importlib.abc's classes."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a copy, or None for any other module."""
        package, _, module = name.rpartition(".")
        if package != __name__ or module not in COPIED:
            return None
        return ModuleSpec(name, cast(Any, self), origin=_original(name).origin)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Python makes it."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Execute the code of torch's module in its copy."""
        spec = _original(module.__name__)
        vars(module).update(__file__=spec.origin, __builtins__=vars(builtins) | {"__import__": _import})
        exec(cast(Any, spec.loader).get_code(spec.name), vars(module))
        if spec.name.endswith(".triton_compat"):
            # The cache of tuning, not copied, makes configs of the real class, and torch's heuristics tell configs from
            # dictionaries by `Config` while they make some by `triton.Config`: the kernels of a list of tensors.
            vars(module)["Config"] = vars(module)["triton"].Config = import_module(spec.name).Config
        if spec.name.endswith(".triton_heuristics"):
            change_heuristics(module)


def _original(copy: str) -> ModuleSpec:
    return cast(ModuleSpec, find_spec(f"{RUNTIME}.{copy.rpartition('.')[2]}"))


def _import(
    name: str,
    namespace: Mapping[str, Any] | None = None,
    local: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """`__import__` of the copies."""
    whole = resolve_name("." * level + name, RUNTIME) if level else name
    root, _, rest = whole.partition(".")
    if root == finder.ROOT:
        found = import_module(f"{OURS}.{rest}" if rest else OURS)
        return found if names else import_module(OURS)
    if whole == RUNTIME and names and set(names) <= set(COPIED):
        return sys.modules[__name__]
    package, _, module = whole.rpartition(".")
    if package == RUNTIME and module in COPIED:
        return _copy(module)
    return builtins.__import__(whole, namespace, local, names or ())


__path__: list[str] = []  # the copies are found by `Copies`, and by nothing else
sys.meta_path.append(cast(Any, Copies()))
