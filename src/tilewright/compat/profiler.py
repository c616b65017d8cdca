"""`triton.profiler`, a profiler of GPUs: on a CPU programs that use it run, and nothing is recorded.

session = proton.start("matmul", hook="triton")      # warns that nothing is recorded
with proton.scope("fp16"):                           # runs the block
    matmul[grid](…)
proton.finalize()                                    # writes no file

Marks inside kernels, of which Triton's profiler takes times, are no code, as in Triton unless a session asks for them:

import triton.profiler.language as pl
with pl.scope("loads"):                              # or pl.enter_scope("loads") … pl.exit_scope("loads")
    x = tl.load(…)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, overload

Function = Callable[..., Any]

DEFAULT_PROFILE_NAME = "proton"
SESSION = 0
"""The number of every session: none records anything."""


def start(name: str | None = None, **options: Any) -> int:
    """Warn that nothing is recorded; `name` and `options` are those of a profile. Gives the number of a session."""
    warnings.warn(
        "triton.profiler records nothing on a CPU; TILEWRIGHT_TRACE=file.json notes its launches", stacklevel=2
    )
    return SESSION


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing: sessions record nothing, and there is nothing to write."""


activate = deactivate = finalize = enter_state = exit_state = _nothing


@overload
def profile(func: Function, **options: Any) -> Function: ...
@overload
def profile(func: None = None, **options: Any) -> Callable[[Function], Function]: ...
def profile(func: Any = None, **options: Any) -> Any:
    """A decorator that leaves functions as they are."""
    return (lambda function: function) if func is None else func


@contextmanager
def scope(name: str = "", metrics: Mapping[str, Any] | None = None) -> Iterator[None]:
    """A part of a profile under a name: for `with`, and as a decorator."""
    yield


state = metadata_state = cpu_timed_scope = scope


def enter_scope(name: str | None = None, *, metrics: Mapping[str, Any] | None = None, **options: Any) -> int:
    """Begin, or end, a scope; gives the number of it."""
    return SESSION


exit_scope = enter_scope


class BaseMode:
    """How a session is to record, for `start(mode=…)`; its options, such as `metric_type`, say nothing here."""

    def __init__(self, *_: Any, **options: Any) -> None:
        self.options = options


class InstrumentationMode(BaseMode):
    """By marks inside kernels."""


class Default(InstrumentationMode):
    """Times of all marks."""


class MMA(InstrumentationMode):
    """Times of matrix products."""


class PCSampling(BaseMode):
    """By looking at the program counter now and then."""


class KernelScope:
    """A part of a kernel under a name, for `with` in a kernel."""

    def __init__(self, name: str, _semantic: Any = None) -> None:
        self.name = name

    def __enter__(self) -> None:
        """Begins the part."""

    def __exit__(self, *_: Any) -> None:
        """Ends it."""


class Event:
    """A transaction of a kernel whose beginning and end are marked; it holds nothing."""


def allocate_event(name: str, _semantic: Any = None) -> Event:
    """A transaction under a name."""
    return Event()


mark = _nothing
"""`enter_scope`, `start_event` and their like inside kernels."""
