"""Run by Triton's interpreter, and by `tilewright run`: the names of `triton.experimental.gluon`, with parameters.

Output: JSON, by module and name; of functions and classes the names of the parameters, of anything else null.

    {"language": {"arange": ["start", "end", "layout"], "constexpr.type": null, …}, …}
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from typing import Any

ROOT = "triton.experimental.gluon"
NVIDIA = (
    "ampere", "ampere.async_copy", "ampere.mbarrier", "hopper", "hopper.cluster", "hopper.mbarrier", "hopper.tma",
    "blackwell", "blackwell.tma", "blackwell.clc", "rubin", "rubin.mbarrier",
)  # fmt: skip
MODULES = (
    "language", "language.amd", "language.extra", "language.fpsan", "language.nvidia", "nvidia", "nvidia.hopper",
    "nvidia.blackwell", *(f"language.nvidia.{name}" for name in NVIDIA),
)  # fmt: skip
HIDDEN = ("_semantic", "_generator", "_builder", "self", "cls")


def parameters(thing: Any) -> list[str] | None:
    thing = thing if inspect.isclass(thing) else getattr(thing, "fn", thing)
    if not callable(thing):
        return None
    try:
        found = [name for name in inspect.signature(thing).parameters if name not in HIDDEN]
    except (TypeError, ValueError):
        return None
    return list(fields(thing)) if found == ["args", "fields"] else found


def fields(record: Any) -> list[str]:
    """The fields of a layout, in the order in which they are given."""
    own = [name for kind in reversed(record.__mro__) for name in vars(kind).get("__annotations__", {})]
    return [name for name in own if name not in ("_fields", "no_view")]


def names(path: str) -> dict[str, list[str] | None]:
    """The public names of a module, and of its classes; none of a module that is not there."""
    try:
        module = importlib.import_module(f"{ROOT}.{path}")
    except ImportError:
        return {}
    found: dict[str, list[str] | None] = {}
    for name in getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]:
        thing = getattr(module, name)
        found[name] = None if inspect.ismodule(thing) else parameters(thing)
        if inspect.isclass(thing):
            found.update({f"{name}.{member}": None for member in dir(thing) if not member.startswith("_")})
    return found


json.dump({path: names(path) for path in MODULES}, sys.stdout)
