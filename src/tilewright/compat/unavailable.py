"""Functions of Triton that no CPU can offer: the names exist, so that programs can import them; calls raise.

nvsmi = unavailable("triton.testing.nvsmi", "it asks the driver of an NVIDIA GPU")
nvsmi()        # NotOnCpu: triton.testing.nvsmi does not exist on a CPU: it asks the driver of an NVIDIA GPU
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.support.diagnostics import TilewrightError


class NotOnCpu(TilewrightError, NotImplementedError):  # noqa: N818 - says what is the case
    """A function of Triton that has no meaning on a CPU was called."""


def unavailable(name: str, reason: str) -> Callable[..., Any]:
    """A function that raises `NotOnCpu` with the `name` of what was called and the `reason`."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotOnCpu(f"{name} does not exist on a CPU: {reason}")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse
