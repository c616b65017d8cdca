"""The choice of the back end for a target: the CPU's, NVIDIA's, or that of an installed plug-in package.

    make_backend(GPUTarget("cpu", "x86_64", 0))         # CpuBackend
    make_backend(GPUTarget("cuda", 90, 32))             # NvidiaBackend
    make_backend(GPUTarget("toy", 1, 1))                # looks in the plug-ins

A package declares a back end as an entry point:

    [project.entry-points."tilewright.backends"]
    toy = "toy_package.backend:ToyBackend"              # the class
    [project.entry-points."triton.backends"]
    toy = "toy_package"                                 # as Triton: the class is in toy_package.compiler

Plug-ins are looked up only when no built-in back end supports the target, because reading the list of installed
packages takes longer than a launch.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.support.locks import importing
from tilewright.support.named_tuple import NamedTuple

OWN_GROUP, TRITON_GROUP = "tilewright.backends", "triton.backends"
NVIDIA = "cuda"
_built_in: dict[str, type[BaseBackend]] = {"cpu": CpuBackend}


class BackendError(RuntimeError):
    """No back end, or more than one, compiles for a target; or a plug-in is not what it should be."""


class Plugins(NamedTuple):
    """The back ends that installed packages declare, by the names of their entry points.

    Attributes:
        backends: the classes.
        unusable: back ends written for Triton, and why they are no use here.
    """

    backends: dict[str, type[BaseBackend]]
    unusable: dict[str, str]


@cache
def make_backend(target: GPUTarget) -> BaseBackend:
    """The back end for `target`.

    Raises:
        BackendError: there is none, or there are several.
    """
    built_in = _nvidia() if target.backend == NVIDIA else _built_in.get(target.backend)
    if built_in is not None:
        return built_in(target)
    found = plugins()
    fitting = {name: backend for name, backend in found.backends.items() if backend.supports_target(target)}
    if len(fitting) == 1:
        return next(iter(fitting.values()))(target)
    unusable = "".join(f"; {name} is no use here: {reason}" for name, reason in found.unusable.items())
    raise BackendError(
        f"{len(fitting)} compatible backends for target ({target.backend}) ({', '.join(fitting)}), and one is needed; "
        f"the back ends here are: {', '.join((*_built_in, NVIDIA, *found.backends))}{unusable}"
    )


def _nvidia() -> type[BaseBackend]:
    with importing:
        from tilewright.backends.nvidia.backend import NvidiaBackend  # most processes do without

    return NvidiaBackend


@cache
def plugins() -> Plugins:
    """The back ends of installed packages.

    Raises:
        BackendError: one that was written for Tilewright cannot be imported, or is no subclass of `BaseBackend`.
    """
    with importing:
        from importlib.metadata import entry_points  # itself a third of the package's import time

    found = Plugins({}, {})
    for group in (OWN_GROUP, TRITON_GROUP):
        for point in entry_points(group=group):
            try:
                found.backends[point.name] = _backend_class(point, group)
            except (ImportError, BackendError) as error:
                if group == OWN_GROUP:
                    raise BackendError(f"back end {point.name!r} ({point.value}): {error}") from error
                found.unusable[point.name] = str(error)  # an installed Triton brings some along
    return found


def _backend_class(point: Any, group: str) -> type[BaseBackend]:
    found = import_module(f"{point.value}.compiler") if group == TRITON_GROUP else point.load()
    classes = [found, *vars(found).values()] if isinstance(found, ModuleType) else [found]
    candidates: list[type[BaseBackend]] = [value for value in classes if _is_backend(value)]
    if len(candidates) != 1:
        raise BackendError(f"expected one subclass of BaseBackend, found {len(candidates)}")
    return candidates[0]


def _is_backend(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseBackend) and not inspect.isabstract(value)
