"""Which back end compiles for a target: the CPU's own, or one that an installed package brings along.

    make_backend(GPUTarget("cpu", "x86_64", 0))         # CpuBackend
    make_backend(GPUTarget("toy", 1, 1))                # asks the plug-ins

A package declares a back end as an entry point:

    [project.entry-points."tilewright.backends"]
    toy = "toy_package.backend:ToyBackend"              # the class
    [project.entry-points."triton.backends"]
    toy = "toy_package"                                 # as Triton: the class is in toy_package.compiler

Plug-ins are looked for only when a target is not the CPU's: reading what is installed takes longer than a launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget
from tilewright.backends.cpu.backend import CpuBackend

OWN_GROUP, TRITON_GROUP = "tilewright.backends", "triton.backends"
_built_in: dict[str, type[BaseBackend]] = {"cpu": CpuBackend}


class BackendError(RuntimeError):
    """No back end, or more than one, compiles for a target; or a plug-in is not what it should be."""


@cache
def make_backend(target: GPUTarget) -> BaseBackend:
    """The back end for `target`.

    Raises:
        BackendError: there is none, or there are several.
    """
    built_in = _built_in.get(target.backend)
    if built_in is not None:
        return built_in(target)
    plugins = backends()
    found = {name: plugin for name, plugin in plugins.items() if plugin.supports_target(target)}
    if len(found) != 1:
        known = ", ".join((*_built_in, *plugins))
        raise BackendError(
            f"{len(found)} compatible backends for target ({target.backend}) ({', '.join(found)}): "
            f"there should be one; the back ends here are: {known}"
        )
    return next(iter(found.values()))(target)


@cache
def backends() -> dict[str, type[BaseBackend]]:
    """The back ends of installed packages, by the names of their entry points.

    Raises:
        BackendError: one is not a subclass of `BaseBackend`, or cannot be imported.
    """
    return dict(_plugins())


def _plugins() -> Iterator[tuple[str, type[BaseBackend]]]:
    from importlib.metadata import entry_points  # itself a third of the package's import time

    for group in (OWN_GROUP, TRITON_GROUP):
        for point in entry_points(group=group):
            try:
                found = import_module(f"{point.value}.compiler") if group == TRITON_GROUP else point.load()
            except ImportError as error:
                raise BackendError(
                    f"back end {point.name!r} ({point.value}): it cannot be imported: {error}"
                ) from error
            classes = [found, *vars(found).values()] if isinstance(found, ModuleType) else [found]
            candidates = [value for value in classes if _is_backend(value)]
            if len(candidates) == 1:
                yield point.name, candidates[0]
            elif group == OWN_GROUP:  # the other group also has those of an installed Triton, which are no use here
                raise BackendError(f"back end {point.name!r} ({point.value}): expected one subclass of BaseBackend")


def _is_backend(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseBackend) and not inspect.isabstract(value)
