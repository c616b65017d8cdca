"""Programs and files of NVIDIA's toolkit: their paths and versions.

    knobs.nvidia.ptxas.path, knobs.nvidia.ptxas.version
    find_program("ptxas")                          # "/usr/local/cuda/bin/ptxas", or None

None of them comes with this package. They are searched at the path of a knob, on the PATH, in NVIDIA's packages on PyPI
(`nvidia-cuda-nvcc`, `nvidia-nvvm`), in the toolkit's usual folder, and in Triton's wheel.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache

from tilewright.support.knob_kinds import base_knobs, env_base, getenv
from tilewright.support.locks import importing
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM, is_raised_by_handler

TOOLKIT = "/usr/local/cuda"
TRITON = os.path.join("triton", "backends", "nvidia")


class NvidiaTool(NamedTuple):
    """A program that is there, and its version (`12.8`)."""

    path: str
    version: str

    @staticmethod
    @cache
    def from_path(path: str) -> NvidiaTool | None:
        """The program at `path`, or None if there is none that reports its version."""
        with importing:
            import subprocess

        try:
            told = subprocess.run([path, "--version"], check=True, capture_output=True, timeout=20).stdout
        except (OSError, subprocess.SubprocessError) as error:
            if is_raised_by_handler(error):
                raise
            return None
        release = re.search(rb"release (\d+\.\d+)", told)
        return NvidiaTool(path, release[1].decode()) if release else None


class env_nvidia_tool(env_base[str, NvidiaTool]):
    """A program: set as a path, read as a `NvidiaTool`. Without a path, the usual places are searched."""

    def __init__(self, binary: str, description: str = "") -> None:
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH", description)
        self.binary = binary

    def parse(self, text: str) -> NvidiaTool:
        return self.transform(text)

    def default_in(self, group: base_knobs | None) -> NvidiaTool:
        return self.transform("")

    def transform(self, value: str) -> NvidiaTool:
        for path in (value, *programs(self.binary)):
            tool = NvidiaTool.from_path(path) if path else None
            if tool:
                return tool
        raise RuntimeError(f"{self.binary} was not found; set {self.key} to its path")

    def asked(self, group: base_knobs) -> str:
        """The path that a program or the environment sets, whatever is there; else nothing."""
        given = vars(group).get(self.name) or getenv(self.key)
        return str(given or "")


def find_program(binary: str) -> str | None:
    """The first program of this name, without calling it for its version."""
    return next(programs(binary), None)


def programs(binary: str) -> Iterator[str]:
    """Every program of this name: on the PATH, then in the usual places."""
    with importing:
        from shutil import which

    on_path = which(binary)
    if on_path:
        yield on_path
    for folder in _folders("bin"):
        path = os.path.join(folder, binary + SYSTEM.program_suffix)
        if os.access(path, os.X_OK):
            yield path


def find_file(name: str, *, near: str | None = None) -> str | None:
    """The first file of this name among the toolkit's libraries.

    Args:
        near: a program of the toolkit, beside whose files it may be, too.
    """
    around = os.path.dirname(os.path.dirname(os.path.realpath(near))) if near else ""
    folders = [*_folders("lib"), *_folders(os.path.join("nvvm", "libdevice"))]
    if around:
        folders += [os.path.join(around, "lib"), os.path.join(around, "nvvm", "libdevice")]
    return next((path for path in (os.path.join(folder, name) for folder in folders) if os.path.isfile(path)), None)


def _folders(inner: str) -> Iterator[str]:
    """The folders of this name in all packages and the toolkit."""
    for entry in sys.path:
        parts = os.path.join(entry, "nvidia")
        if os.path.isdir(parts):
            yield from (os.path.join(parts, part, inner) for part in sorted(os.listdir(parts), reverse=True))
    yield os.path.join(TOOLKIT, inner)
    yield from (os.path.join(entry, TRITON, inner) for entry in sys.path)
