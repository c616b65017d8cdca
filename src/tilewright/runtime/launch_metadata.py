"""The argument of launch hooks: a dict that is made complete only when somebody asks.

def hook(metadata: LazyDict) -> None:
    metadata.get()          # {"name": "add", "function": …, "stream": 0, "flops": …, "bytes": …}

knobs.runtime.launch_enter_hook.add(hook)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class LazyDict:
    """A dict, and functions that give further entries when it is asked for."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.extras: list[tuple[Callable[..., Mapping[str, Any]], Sequence[Any]]] = []

    def get(self) -> dict[str, Any]:
        """The whole dict; functions are called once."""
        while self.extras:
            function, arguments = self.extras.pop(0)
            self.data |= function(*arguments)
        return self.data

    def add(self, function: Callable[..., Mapping[str, Any]], arguments: Sequence[Any]) -> None:
        """Let `function(*arguments)` give further entries."""
        self.extras.append((function, arguments))
