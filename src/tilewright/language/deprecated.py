"""Deprecated names of Triton's language: they still work, and a warning gives the present name.

tl.math.tanh(x)       tl.extra.libdevice.tanh(x)
tl.libdevice.pow      tl.extra.libdevice.pow
tl.printf("x", x)     tl.device_print("x", x)

Until 2.2 all of libdevice was in `tl.math`, and before that in `tl.libdevice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tilewright.support.deprecation import warn_deprecated

LIBDEVICE = "tl.extra.libdevice"
NAMES: Mapping[str, str] = {
    "tl.float8e4": "tl.float8e4nv",
    "tl.float8e4b15x4": "tl.float8e4b15",
    "tl.globaltimer": "tl.extra.cuda.globaltimer",
    "tl.libdevice": LIBDEVICE,
    "tl.printf": "tl.device_print",
    "tl._experimental_descriptor_load": "desc.load(offsets)",
    "tl._experimental_descriptor_store": "desc.store(offsets, value)",
    "tl._experimental_make_tensor_descriptor": "tl.make_tensor_descriptor",
    "tl.extra.globaltimer": "tl.extra.cuda.globaltimer",
    "tl.extra.smid": "tl.extra.cuda.smid",
    "tl.math.max": "tl.maximum",
    "tl.math.min": "tl.minimum",
}
"""Deprecated names → present ones; besides, all of libdevice was in `tl.math`."""
OBJECTS: Mapping[str, str] = {
    "tl._experimental_descriptor_load": "tl.descriptors.experimental_descriptor_load",
    "tl._experimental_descriptor_store": "tl.descriptors.experimental_descriptor_store",
}
"""Deprecated names → paths of their objects, where the present name is that of another object."""


def deprecated(module: str, name: str) -> Any:
    """The object that `name` of `module` was, with a warning that says where it is now.

    Args:
        module: `tl`, `tl.math` or `tl.extra`.
        name: the name of an attribute that the module has not.

    Raises:
        AttributeError: it never had one of that name.
    """
    old = f"{module}.{name}"
    now = NAMES.get(old) or _in_libdevice(module, name)
    if now is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_deprecated(old, now)
    return _named(OBJECTS.get(old, now))


def _in_libdevice(module: str, name: str) -> str | None:
    """The present name of a function of libdevice with this deprecated name; else None."""
    held = module == "tl.math" and not name.startswith("_") and name in _named(LIBDEVICE).__all__
    return f"{LIBDEVICE}.{name}" if held else None


def _named(path: str) -> Any:
    """The object that kernels write as `path`."""
    module, _, name = path.replace("tl", "tilewright.language", 1).rpartition(".")
    return getattr(import_module(module), name)
