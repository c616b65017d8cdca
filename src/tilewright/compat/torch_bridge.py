"""The one place of the compatibility layer that asks for torch, and only when something needs it.

`when_imported` calls a function with a module of another package, as soon as the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
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
        then(import_module(name))  # another thread may be executing it
        return
    _finder.waiting.setdefault(name, []).append(then)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder(MetaPathFinder):
    """Finds modules that something waits for as the other finders do, and goes on when one has been executed.

    A program that only asks whether a module is there, with `importlib.util.find_spec`, changes nothing. The finder
    stays where it is: if it went, another thread that is going through the finders would skip one.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[Then]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the other finders, with a loader that goes on to what waits for the module."""
        if fullname not in self.waiting:
            return None
        others = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((found for found in others if found is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_go_on(module: ModuleType) -> None:
                execute(module)
                for then in self.waiting.pop(fullname, ()):
                    then(module)

            vars(spec.loader)["exec_module"] = execute_and_go_on
        return spec


_finder = _Finder()
