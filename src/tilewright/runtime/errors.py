"""What can go wrong when a kernel is launched."""

from __future__ import annotations

from tilewright.support.diagnostics import TilewrightError


class ArgumentError(TilewrightError, TypeError):
    """An argument cannot be passed to a kernel: its type, device or layout is not supported."""


class ReadOnlyError(TilewrightError, ValueError):
    """A kernel stores through an argument that must not be written."""


class OutOfResources(TilewrightError):  # noqa: N818 - Triton's name
    """A kernel needs more of something than there is.

    Attributes:
        required, limit: how much is needed, and how much there is.
        name: of what.
    """

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(required, limit, name)
        self.required, self.limit, self.name = required, limit, name

    def __str__(self) -> str:
        return f"out of resource: {self.name}, Required: {self.required}, Hardware limit: {self.limit}."


class InterpreterError(TilewrightError):
    """A kernel failed while it was interpreted."""


class AutotunerError(TilewrightError):
    """No configuration of a kernel works."""

    def __str__(self) -> str:
        return f"Autotuner error: {super().__str__()}"
