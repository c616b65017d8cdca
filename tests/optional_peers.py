"""Libraries and programs that some tests compare with and that `.[test]` does not install: one marker for each.

    @pytest.mark.needs_torch
    def test_tensors() -> None:
        import torch

skips with the reason of `PEERS` where torch is missing. A module that needs one as a whole says so at its top:

    pytestmark = pytest.mark.needs_torch
    torch = optional_peers.module("torch")

`pytest --peers` runs only the tests with such a marker, and the fast ones of the folders of `MORE_WITH_PEERS`.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tilewright.backends.nvidia.tools import MissingToolError, find_libdevice, find_ptxas
from tilewright.support import knobs

TESTS = Path(__file__).parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def has_modules(*names: str) -> Callable[[], bool]:
    return lambda: all(find_spec(name) is not None for name in names)


def has_program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def has_triton() -> bool:
    """Whether `triton` is Triton: `python -m tilewright run` shows our own package under that name."""
    found = find_spec("triton")
    return found is not None and "tilewright" not in str(found.origin)


def has_ptxas() -> bool:
    return find_ptxas(90) is not None


def has_nvdisasm() -> bool:
    assembler = find_ptxas(80)
    return assembler is not None and Path(assembler).with_name("nvdisasm").exists()


def has_libdevice() -> bool:
    try:
        find_libdevice(90)
    except MissingToolError:
        return False
    return True


SITE_MODULES = "sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_design", "sphinx_copybutton", "jupytext", "ipykernel"
"""The packages that the extra `docs` installs, except matplotlib."""

PEERS: dict[str, tuple[Callable[[], bool], str]] = {
    "needs_binutils": (has_program("readelf"), "no binutils on this machine"),
    "needs_cc": (has_program("cc"), "no C compiler (cc) on this machine"),
    "needs_chromium": (has_program(*BROWSERS), "no Chromium is installed"),
    "needs_dask": (has_modules("dask", "distributed"), "Dask (dask[array], distributed) is not installed"),
    "needs_docs": (has_modules(*SITE_MODULES, "matplotlib"), "the extra `docs` is not installed"),
    "needs_fla": (has_modules("fla", "einops"), "fla-core is not installed"),
    "needs_gdb": (has_program("gdb"), "no gdb on this machine"),
    "needs_gxx": (has_program("g++"), "no C++ compiler (g++) on this machine"),
    "needs_libdevice": (has_libdevice, "libdevice is not installed"),
    "needs_liger": (has_modules("liger_kernel"), "liger-kernel is not installed"),
    "needs_llvm_mc": (has_program("llvm-mc"), "no assembler of LLVM (llvm-mc) on this machine"),
    "needs_mpi4py": (
        lambda: has_modules("mpi4py")() and has_program("mpiexec")(),
        "no mpi4py, or no mpiexec of Open MPI, on this machine",
    ),
    "needs_matplotlib": (has_modules("matplotlib", "pandas"), "matplotlib and pandas are not installed"),
    "needs_nvdisasm": (has_nvdisasm, "nvdisasm is not installed"),
    "needs_ptxas": (has_ptxas, "ptxas is not installed"),
    "needs_pyright": (has_modules("basedpyright"), "basedpyright is not installed"),
    "needs_ray": (has_modules("ray"), "Ray is not installed"),
    "needs_redis": (has_program("redis-server"), "redis-server is not installed"),
    "needs_tqdm": (has_modules("tqdm"), "tqdm is not installed"),
    "needs_torch": (has_modules("torch"), "torch is not installed"),
    "needs_transformers": (has_modules("transformers"), "transformers is not installed"),
    "needs_triton": (has_triton, "Triton is not installed"),
    "needs_triton_python": (
        lambda: "TRITON_PYTHON" in os.environ,
        "TRITON_PYTHON names no interpreter with Triton 3.9",
    ),
    "needs_triton_tree": (lambda: "TRITON_TREE" in os.environ, "TRITON_TREE names no checkout of Triton"),
    "needs_xarray": (has_modules("xarray"), "xarray is not installed"),
    "needs_valgrind": (has_program("valgrind"), "no valgrind on this machine"),
}
"""By marker: whether the peer is here, and the reason that a test gives for skipping without it."""


@cache
def missing(marker: str) -> str:
    """The reason why tests with this marker skip; an empty text where the peer is here."""
    is_here, reason = PEERS[marker]
    return "" if is_here() else reason


MORE_WITH_PEERS = ("gluon", "nvidia")
"""Folders whose tests run without any peer; with `--peers` they give all PTX to NVIDIA's assembler, too."""


def gains(item: pytest.Item) -> bool:
    """Whether the test needs peers or checks more with them."""
    folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
    is_fast = item.get_closest_marker("slow") is None
    return (folder in MORE_WITH_PEERS and is_fast) or bool(needed_by(item))


def has_kernels_assembled(item: pytest.Item) -> bool:
    """Whether what a test compiles for NVIDIA's GPUs is given to their assembler, which takes a fifth of its time."""
    return item.config.getoption("--peers") or not {"needs_ptxas", "needs_nvdisasm"}.isdisjoint(needed_by(item))


def ptxas_of_knobs(capability: int) -> str | None:
    """`find_ptxas` where none is installed: a knob may still name one."""
    kinds, group = type(knobs.nvidia), knobs.nvidia
    return find_ptxas(capability) if kinds.ptxas.asked(group) or kinds.ptxas_blackwell.asked(group) else None


def needed_by(item: pytest.Item) -> list[str]:
    """The markers of the peers that a test needs."""
    return [mark.name for mark in item.iter_markers() if mark.name in PEERS]


def module(name: str) -> Any:
    """The module of a peer that a whole test module needs, which skips where it is not here."""
    reason = missing(f"needs_{name.partition('.')[0]}")
    if reason:
        pytest.skip(reason, allow_module_level=True)
    return importlib.import_module(name)
