"""Programs of NVIDIA's toolkit: where they are, and of which version.

knobs.nvidia.ptxas.path, knobs.nvidia.ptxas.version
"""

from __future__ import annotations

import os
import re
from functools import cache

from tilewright.support.knob_kinds import base_knobs, env_base
from tilewright.support.named_tuple import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(__file__))


class NvidiaTool(NamedTuple):
    """A program that is there, and its version (`12.8`)."""

    path: str
    version: str

    @staticmethod
    @cache
    def from_path(path: str) -> NvidiaTool | None:
        """The program at `path`, or None when there is none that tells its version."""
        import subprocess

        try:
            told = subprocess.run([path, "--version"], check=True, capture_output=True, timeout=20).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        release = re.search(rb"release (\d+\.\d+)", told)
        return NvidiaTool(path, release[1].decode()) if release else None


class env_nvidia_tool(env_base[str, NvidiaTool]):
    """A program: set as a path, read as a `NvidiaTool`. Without a path, the PATH is searched."""

    def __init__(self, binary: str, meaning: str = "") -> None:
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH", meaning)
        self.binary = binary + (".exe" if os.name == "nt" else "")

    def parse(self, text: str) -> NvidiaTool:
        return self.transform(text)

    def default_in(self, group: base_knobs | None) -> NvidiaTool:
        return self.transform("")

    def transform(self, value: str) -> NvidiaTool:
        bundled = os.path.join(_PACKAGE, "backends", "nvidia", "bin", self.binary)
        from shutil import which

        for path in (value, bundled, which(self.binary)):
            tool = NvidiaTool.from_path(path) if path else None
            if tool:
                return tool
        raise RuntimeError(f"{self.binary} was not found; set {self.key} to its path")
