"""Functions of Triton that no CPU can offer: they can be imported, and raise when called.

AMD's back end specialises arguments, and raises when it would compile.

nvsmi = unavailable("triton.testing.nvsmi", "it asks the driver of an NVIDIA GPU")
nvsmi()        # NotOnCpu: triton.testing.nvsmi does not exist on a CPU: it asks the driver of an NVIDIA GPU
HIPBackend.get_int_specialization(32, align=True)      # "D"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.backends.base import BaseBackend, GPUTarget, Language, StageTable
from tilewright.support.diagnostics import TilewrightError


class NotOnCpu(TilewrightError, NotImplementedError):  # noqa: N818 - says what is the case
    """A function of Triton that has no meaning on a CPU was called."""


def unavailable(name: str, reason: str) -> Callable[..., Any]:
    """A function that raises `NotOnCpu` with the `name` of what was called and the `reason`."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotOnCpu(f"{name} does not exist on a CPU: {reason}")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


class HIPBackend(BaseBackend):
    """AMD's GPUs."""

    @classmethod
    def supports_target(cls, target: GPUTarget) -> bool:
        """Whether `target` is a machine of this kind."""
        return target.backend == "hip"

    def hash(self) -> str:
        return f"{self.target.backend}-{self.target.arch}"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Refuses."""
        raise NotOnCpu(f"Tilewright does not compile for {self.target.backend}")

    def add_stages(self, stages: StageTable, options: Any, language: Language = Language.TRITON) -> None:
        """Refuses."""
        self.parse_options({})
