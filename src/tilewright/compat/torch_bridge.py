"""The only module of the compatibility layer that imports torch, and only when it is needed.

`when_imported` calls a function with a module of another package, as soon as the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import Lock
from types import ModuleType
from typing import Any, cast


def torch() -> Any:
    """The torch module.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    return import_module("torch")


Then = Callable[[ModuleType], None]


def when_imported(name: str, then: Then) -> None:
    """Call `then` with the module `name`, once: now, or when it is imported first.

    Where the import calls it, its exceptions are those of the import, and it waits for the next one.
    """
    with _finder.lock:
        _finder.waiting.setdefault(name, []).append(then)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    if sys.modules.get(name) is not None:  # None is what programs put there to forbid an import
        module = import_module(name)  # another thread may be executing it
        for each in _finder.taken(name):
            each(module)


class _Finder(MetaPathFinder):
    """Finds modules that something waits for as the other finders do, and goes on when one has been executed.

    A program that only looks for a module, with `importlib.util.find_spec`, changes nothing. The finder stays in its
    list: if it went, another thread that is going through the finders would skip one.

    Attributes:
        waiting: the functions to call, by the name of the module that they wait for.
        lock: held while `waiting` changes, and never while a module is imported or a function called.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[Then]] = {}
        self.lock = Lock()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the other finders, with a loader that goes on to what waits for the module."""
        if fullname not in self.waiting:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = cast(Loader, _GoingOn(spec.loader))
        return spec

    def taken(self, name: str) -> list[Then]:
        """The functions that wait for a module, which are then forgotten."""
        with self.lock:
            return self.waiting.pop(name, [])

    def go_on(self, module: ModuleType) -> None:
        """Call what waits for a module; if one of the functions raises an error, all of them wait for it again."""
        taken = self.taken(module.__name__)
        try:
            for then in taken:
                then(module)
        except BaseException:
            with self.lock:
                self.waiting[module.__name__] = taken + self.waiting.get(module.__name__, [])
            raise


class _GoingOn:
    """A loader that executes a module by the loader of another finder, which may have several modules."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which then has the other loader, and go on."""
        spec = module.__spec__
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader
        self._loader.exec_module(module)
        _finder.go_on(module)


_finder = _Finder()
