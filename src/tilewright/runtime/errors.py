"""The errors of launching a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.support.diagnostics import OutOfResources as OutOfResources
from tilewright.support.diagnostics import TilewrightError


class ArgumentError(TilewrightError, TypeError):
    """An argument cannot be passed to a kernel: its type, device or layout is not supported."""


class ArgumentRangeError(ArgumentError, OverflowError):
    """A number that no integer type of a kernel can hold."""


class ReadOnlyError(TilewrightError, ValueError):
    """A kernel stores through an argument that must not be written."""


class InterpreterError(TilewrightError):
    """A kernel failed while it was interpreted."""


class AutotunerError(TilewrightError):
    """No configuration of a kernel works."""

    def __str__(self) -> str:
        return f"Autotuner error: {super().__str__()}"


def require(wanted: int, limit: int, resource: str) -> None:
    """Raise OutOfResources if a kernel wants more of a resource than a GPU has."""
    if wanted > limit:
        raise OutOfResources(wanted, limit, resource)


class CudaError(TilewrightError, RuntimeError):
    """NVIDIA's driver gave an error.

    Attributes:
        function: the driver's function that gave it.
        code: the CUresult; `name` and `text` are CUDA's for it.
    """

    def __init__(self, function: str, code: int, name: str, text: str) -> None:
        super().__init__(function, code, name, text)
        self.function, self.code, self.name, self.text = function, code, name, text

    def __str__(self) -> str:
        hint = _CUDA_HINTS.get(self.code, "")
        return f"{self.name} ({self.code}) from {self.function}: {self.text}{hint and '; '}{hint}"


class MissingDriverError(CudaError):
    """NVIDIA's driver is not installed, or not where it is looked for."""

    def __init__(self, tried: Sequence[str], variable: str) -> None:
        super().__init__("dlopen", 0, "no driver", "")
        self.args = (tried, variable)

    def __str__(self) -> str:
        tried, variable = self.args
        return (
            f"kernels run on NVIDIA GPUs by NVIDIA's driver, and it cannot be loaded: tried {', '.join(tried)}; "
            f"install the driver, or set {variable} to the folder of libcuda.so.1"
        )


_BROKEN = "the process cannot use the GPU any more"
_LATE = f"a kernel did it, perhaps one launched earlier (CUDA_LAUNCH_BLOCKING=1 tells which), and {_BROKEN}"
_CUDA_HINTS = {
    3: "in the child of a fork CUDA cannot be used: start processes with `spawn`",
    209: "the kernel was compiled for another GPU",
    222: "the driver is too old for the PTX: a newer driver, or a ptxas (TRITON_PTXAS_PATH), is needed",
    700: _LATE,
    710: f"a device_assert failed, and {_BROKEN}",
    715: _LATE,
    716: _LATE,
    718: _LATE,
    719: _LATE,
}
