"""A module of Tilewright under Triton's name."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def public_names(module: ModuleType) -> dict[str, Any]:
    """The objects of `module`, without its modules and private names, or those of its `__all__`; and an `__all__`."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    return {name: getattr(module, name) for name in names} | {"__all__": list(names)}
