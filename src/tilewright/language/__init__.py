"""The language of kernels: `import tilewright.language as tl` has Triton's names.

@jit
def double(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, 2 * tl.load(x + offsets, mask=offsets < n), mask=offsets < n)
"""

from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

from tilewright.language.deprecated import deprecated as _deprecated

_IN_SIGNATURES = ("const", "constexpr")
"""The names that stand in the signatures of kernels; all others are in `names`."""

_lazy: dict[str, Any] = {}
"""Accessed objects by name: while a name refers to this object, kernels that use it depend on nothing else."""


def __getattr__(name: str) -> Any:
    if name in _IN_SIGNATURES:
        _give({name: getattr(import_module("tilewright.semantics.constexpr"), name)})
    elif PathFinder.find_spec(f"{__name__}.{name}", __path__):  # files here import each other, in any order
        _give({name: import_module(f"{__name__}.{name}")})
    elif "__all__" not in _lazy and (name == "__all__" or not name.startswith("_")):
        members = import_module("tilewright.language.names").ALL
        _give({**members, "__all__": sorted(members)})
    if name not in _lazy:
        return _deprecated("tl", name)
    return _lazy[name]


def _give(names: dict[str, Any]) -> None:
    _lazy.update(names)
    globals().update({name: value for name, value in names.items() if name not in globals()})


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
