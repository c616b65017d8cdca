"""`triton.profiler`, a profiler of GPUs: on a CPU programs that use it run, and nothing is recorded.

session = proton.start("matmul", hook="triton")      # warns that nothing is recorded
with proton.scope("fp16"):                           # runs the block
    matmul[grid](…)
proton.finalize()                                    # writes no file
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
