"""The one place of the compatibility layer that asks for torch, and only when something needs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def torch() -> Any:
    """The torch module.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    return import_module("torch")
