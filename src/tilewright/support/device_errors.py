"""The errors of making code for a device, whoever notices."""

from __future__ import annotations

from tilewright.support.diagnostics import TilewrightError


class OutOfResources(TilewrightError):  # noqa: N818 - Triton's name
    """A kernel needs more of something than there is.

    Attributes:
        required, limit: how much is needed, and how much there is.
        name: the name of the resource.
    """

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(required, limit, name)
        self.required, self.limit, self.name = required, limit, name

    def __str__(self) -> str:
        return f"out of resource: {self.name}, Required: {self.required}, Hardware limit: {self.limit}."


class PTXASError(TilewrightError):
    """NVIDIA's assembler failed; the text is what it said, with the lines of PTX that it was about."""
