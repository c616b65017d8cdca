"""The paths of NVIDIA's programs and libraries: set by a knob, or found in the usual folders.

find_ptxas(90)             # ".../ptxas", or None
find_libdevice(90)         # ".../libdevice.10.bc"; MissingToolError where it is not installed
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tilewright.backends.nvidia.targets import FIRST_WITH_SUFFIX
from tilewright.support import knobs
from tilewright.support.nvidia_tools import NvidiaTool, find_file, find_program, programs

LIBDEVICE = "libdevice.10.bc"


class MissingToolError(RuntimeError):
    """A program of NVIDIA's toolkit is not where it was said to be, or nowhere."""


def find_ptxas(capability: int) -> str | None:
    """The assembler for a device: what knobs name, then what is installed; None if nothing is.

    Triton's wheel has two, of which one knows the newer devices. CUDA 13 has none any more for the oldest.

    Raises:
        MissingToolError: a knob names a program that is not there.
    """
    if capability < FIRST_OF_CUDA_13:
        return next(_older_candidates(), None)
    newer = capability >= FIRST_WITH_SUFFIX
    return next(_candidates(newer=newer), None)


FIRST_OF_CUDA_13 = 75
"""The first capability that CUDA 13 has an assembler for."""


def _older_candidates() -> Iterator[str]:
    """The program that a knob names, then those of CUDA 12 and before."""
    knob = type(knobs.nvidia).ptxas
    asked = knob.asked(knobs.nvidia)
    if asked:
        yield _existing(asked, knob.key)
    for path in programs("ptxas"):
        tool = NvidiaTool.from_path(path)
        if tool is not None and int(tool.version.partition(".")[0]) < 13:
            yield path


def _candidates(*, newer: bool) -> Iterator[str]:
    group = type(knobs.nvidia)
    blackwell, usual = group.ptxas_blackwell.asked(knobs.nvidia), group.ptxas.asked(knobs.nvidia)
    if newer and blackwell:
        yield _existing(blackwell, group.ptxas_blackwell.key)
    if usual:
        beside = os.path.join(os.path.dirname(usual), "ptxas-blackwell")
        if newer and os.access(beside, os.X_OK):
            yield beside
        yield _existing(usual, group.ptxas.key)
    for name in ("ptxas-blackwell", "ptxas") if newer else ("ptxas",):
        found = find_program(name)
        if found:
            yield found


def _existing(path: str, key: str) -> str:
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise MissingToolError(f"{key} is {path!r}, and there is no such program")
    return path


def find_nvdisasm() -> str:
    """The program that writes machine code as text.

    Raises:
        MissingToolError: it is not installed, or not where a knob says.
    """
    knob = type(knobs.nvidia).nvdisasm
    asked = knob.asked(knobs.nvidia)
    found = _existing(asked, knob.key) if asked else find_program("nvdisasm")
    if found is None:
        raise MissingToolError(f"nvdisasm was not found; set {knob.key} to its path")
    return found


def find_libdevice(capability: int) -> str:
    """The file of NVIDIA's library of mathematical functions; kernels that call none of them do without.

    Args:
        capability: of the device, beside whose assembler the library may be.

    Raises:
        MissingToolError: it is not installed, or not where a knob says.
    """
    asked = knobs.nvidia.libdevice_path
    if asked:
        if not os.path.isfile(asked):
            raise MissingToolError(f"TRITON_LIBDEVICE_PATH is {asked!r}, and there is no such file")
        return asked
    found = find_file(LIBDEVICE, near=find_ptxas(capability))
    if found is None:
        raise MissingToolError(
            f"the kernel calls functions of NVIDIA's {LIBDEVICE}, which was not found; install nvidia-nvvm, or set "
            "TRITON_LIBDEVICE_PATH to its path"
        )
    return found
