"""Launch hooks and the trace. Without hooks launches bypass this module.

launch_hooks.is_on()                         # also the word that native launches test
launch_hooks.launch(kernel, metadata, run)   # enter hooks, the launch, exit hooks
launch_hooks.divert(1)                       # launches go through Python for other reasons, until divert(-1)

def hook(metadata: LazyDict) -> None:
    metadata.get()          # {"name": "add", "function": …, "stream": 0, "flops": …, "bytes": …}

knobs.runtime.launch_enter_hook.add(hook)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.runtime import trace
from tilewright.runtime.drivers.cpu.launcher import watch
from tilewright.support import knobs
from tilewright.support.locks import fork_safe_lock


class LazyDict:
    """The argument of launch hooks: a dict, and functions that give further entries on demand."""

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


class _State:
    on = False
    diverted = 0
    lock = fork_safe_lock()
    code: object = None
    forget: Callable[[], None] = staticmethod(lambda: None)


def is_on() -> bool:
    """Whether each launch must call hooks or the trace."""
    return _State.on


def on_other_code(forget: Callable[[], None]) -> None:
    """Register `forget`, called when a knob changes what launches without such an option compile to."""
    _State.forget = staticmethod(forget)


def forget() -> None:
    """Make all kernels look up their next launches again."""
    _State.forget()


def divert(by: int) -> None:
    """Count one more, or one fewer, reason why launches must go through Python."""
    with _State.lock:
        _State.diverted += by
        watch(_State.on or _State.diverted > 0)


def launch(kernel: Any, metadata: LazyDict, run: Callable[[], None]) -> None:
    """Launch with hooks around it; an exception in a hook is the launch's."""
    knobs.runtime.launch_enter_hook(metadata)
    with trace.launch(kernel, metadata.get):
        run()
    knobs.runtime.launch_exit_hook(metadata)


def _look() -> None:
    """A knob changed."""
    runtime = knobs.runtime
    chains = (runtime.launch_enter_hook, runtime.launch_exit_hook)
    is_watched = any(chain is not None and chain.calls for chain in chains) or trace.is_on()
    on = is_watched or runtime.add_stages_inspection_hook is not None
    if on != _State.on:
        _State.on = on
        divert(0)
    ours = knobs.tilewright
    code = runtime.debug, ours.sanitize, ours.interruptible, ours.cpu
    if code != _State.code:
        _State.code = code
        _State.forget()


knobs.observe(_look)
_look()
