"""The one place of the compatibility layer that asks for torch, and only when something needs it.

`when_imported` calls a function with a module of another package, as soon as the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def torch() -> Any:
    """The torch module.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    return import_module("torch")


Then = Callable[[ModuleType], None]


def when_imported(name: str, then: Then) -> None:
    """Call `then` with the module `name`: now, or when it is imported first."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Before(name, then))


class _Before(MetaPathFinder):
    """Finds one module, once, and goes on to `then` when it has been executed."""

    def __init__(self, name: str, then: Then) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have, with a loader that goes on to `then`: some wait for the same module."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_go_on(module: ModuleType) -> None:
                execute(module)
                self.then(module)

            vars(spec.loader)["exec_module"] = execute_and_go_on
        return spec
