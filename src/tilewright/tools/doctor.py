"""`tilewright doctor`: the parts of an installation, and remedies for missing or broken ones.

    ok     Python           CPython 3.12.4, /usr/bin/python3
    wrong  cache            /home/me/.tilewright/cache (0777): everybody may write to it
                            -> make it your own, or set TRITON_CACHE_DIR to another folder
    note   ptxas            not found
                            -> nothing but cubins needs it: pip install nvidia-cuda-nvcc, or set TRITON_PTXAS_PATH

`wrong` marks parts that fail, or that are slow although results are right; it makes the exit status 1. A `note`
requires no action.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tilewright
import tilewright.language as tl
from tilewright.backends.llvm import machine
from tilewright.backends.nvidia.tools import MissingToolError, find_libdevice, find_ptxas
from tilewright.runtime.cache.folders import make_private, problem_of, write_whole
from tilewright.runtime.cache.upkeep import entries
from tilewright.runtime.drivers.cpu import launcher, process, python_memory
from tilewright.runtime.jit import jit
from tilewright.support import knobs, tested_versions
from tilewright.support.diagnostics import TilewrightError
from tilewright.support.nvidia_tools import NvidiaTool
from tilewright.support.system import SYSTEM
from tilewright.tools.run_command import PACKAGE_PATH

OK, NOTE, WRONG = "ok", "note", "wrong"
_CAPABILITY = 90  # of the GPU whose tools are looked for
_PROBE = ".doctor"  # a file that is written to the cache folder and deleted
_PROGRAMS, _SIZE = 64, 128
_FREE_BYTES = 16 << 20  # a disk with less has no room for a few kernels
_LLVM_TEXT = "define i32 @f(i32 %x) {\n  ret i32 %x\n}\n"
_BROKEN = (ImportError, OSError, RuntimeError, AttributeError, ValueError)
"""The exceptions that broken installations and settings raise."""


class Line(NamedTuple):
    """One line of the page: OK, NOTE or WRONG, of what, what was found, and what to do."""

    state: str
    subject: str
    fact: str
    remedy: str = ""


def run(options: argparse.Namespace) -> int:
    """Print a line for each thing that was looked at; returns 1 if something is wrong."""
    is_wrong = False
    for line in lines():
        is_wrong |= line.state == WRONG
        print(f"{line.state:6} {line.subject:16} {line.fact}")
        if line.remedy:
            print(f"{'':23} -> {line.remedy}")
        sys.stdout.flush()  # should the next check end the process
    return int(is_wrong)


def lines() -> Iterator[Line]:
    """The page; a check that fails is a line of it."""
    for check in CHECKS:
        try:
            yield from check()
        except _BROKEN as error:
            yield Line(WRONG, check.__name__, f"cannot be looked at: {_one_line(error)}", "see the lines above")


def interpreter() -> Iterator[Line]:
    """Tilewright itself, and the Python that runs it."""
    yield Line(OK, "Tilewright", f"{tilewright.__version__}, {Path(tilewright.__file__).parent}")
    name = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    problem = python_memory.why_unsupported()
    if problem:
        yield Line(WRONG, "Python", f"{name}: {problem}", "take a usual build of CPython: launches are slow in others")
    elif untested := tested_versions.python_problem():
        yield Line(NOTE, "Python", f"{name}: {untested}", "if something fails, try one of these")
    else:
        yield Line(OK, "Python", name)


def settings() -> Iterator[Line]:
    """The environment variables, of which each has to be readable."""
    wrong = False
    for group in filter(lambda group: isinstance(group, knobs.base_knobs), vars(knobs).values()):
        for name, knob in group.knob_descriptors.items():
            try:
                if not isinstance(knob, knobs.env_nvidia_tool):  # those are looked for below
                    getattr(group, name)
            except ValueError as error:
                wrong = True
                yield Line(WRONG, "settings", _one_line(error), "`tilewright settings` says what there is")
    if not wrong:
        yield Line(OK, "settings", "all environment variables can be read")


def libraries() -> Iterator[Line]:
    """The packages that `pip install` brings along."""
    for name in tested_versions.TESTED:
        yield _library(name)


def _library(name: str) -> Line:
    asked = f"pip install '{tested_versions.requirement(name)}'"
    try:
        version = importlib.metadata.version(name)
        importlib.import_module(name)
    except importlib.metadata.PackageNotFoundError:
        return Line(WRONG, name, "not installed", asked)
    except _BROKEN as error:
        return Line(WRONG, name, f"cannot be imported: {_one_line(error)}", asked)
    problem = tested_versions.problem_of(name, version)
    if not problem:
        return Line(OK, name, version)
    state = WRONG if tested_versions.is_too_old(name, version) else NOTE
    return Line(state, name, problem, asked if state == WRONG else "if something fails, try a release before it")


def llvm() -> Iterator[Line]:
    """Whether LLVM compiles for the machine that kernels are compiled for."""
    try:
        target = machine.host_target(knobs.tilewright.cpu)
        machine.compile_object(_LLVM_TEXT, target)
        version = ".".join(map(str, importlib.import_module("llvmlite.binding").llvm_version_info))
    except machine.UnknownCpuError:
        return  # the next lines tell
    except (machine.LlvmError, *_BROKEN) as error:
        yield Line(WRONG, "LLVM", f"compiles nothing: {_one_line(error)}", "install llvmlite anew")
    else:
        yield Line(OK, "LLVM", f"{version}, compiles for {target.cpu}")


def processor() -> Iterator[Line]:
    """The CPU that was found, and the one that code is generated for."""
    try:
        found = machine.host_target()
    except machine.UnknownCpuError as error:
        yield Line(WRONG, "CPU found", str(error), "kernels run in interpreters only: TRITON_INTERPRET=1")
        return
    yield Line(OK, "CPU found", _features(found))
    try:
        used = machine.host_target(knobs.tilewright.cpu)
    except machine.UnknownCpuError as error:
        yield Line(WRONG, "CPU used", str(error), "set TILEWRIGHT_CPU to one of these, or unset it")
        return
    if used.identity == found.identity:
        yield Line(OK, "CPU used", f"all of that; vectors have {used.vector_bits} bits")
    elif used.runs_here():
        yield Line(NOTE, "CPU used", f"TILEWRIGHT_CPU: {_features(used)}", "unset it for all that the CPU can do")
    else:
        yield Line(WRONG, "CPU used", f"{knobs.tilewright.cpu}: its code cannot run here", "unset TILEWRIGHT_CPU")


def _features(target: machine.Target) -> str:
    return f"{target.cpu} ({', '.join(target.features)}), tuned for {target.tune}"


def kept_kernels() -> Iterator[Line]:
    """The folder of compiled kernels, and the class that looks after it."""
    yield _cache_line(Path(knobs.cache.dir).expanduser())
    manager = knobs.cache.manager_class
    if manager is not None:
        yield Line(OK, "cache manager", f"{manager.__module__}:{manager.__name__}")


def _cache_line(root: Path) -> Line:
    problem = _cache_problem(root)
    place = f"{root} ({stat.S_IMODE(root.stat().st_mode):04o})" if os.access(root, os.F_OK) else str(root)
    if problem is not None:
        remedy = "make it your own, or set TRITON_CACHE_DIR to another folder"
        return Line(WRONG, "cache", f"{place}: {problem}; each process compiles its kernels", remedy)
    if shutil.disk_usage(root).free < _FREE_BYTES:
        return Line(WRONG, "cache", f"{place}: the disk is full", "`tilewright cache clear`, or free some space")
    found = list(entries(root))
    size = sum(entry.size for entry in found) / (1 << 20)
    limit = f" of {knobs.tilewright.cache_size / (1 << 20):.0f}" if knobs.tilewright.cache_size else ""
    return Line(OK, "cache", f"{place}: {len(found)} kernels, {size:.1f}{limit} MiB")


def _cache_problem(root: Path) -> str | None:
    """The reason why no kernel can be kept in a folder, which is made if it is not there; None if one can."""
    try:
        problem = problem_of(root)
    except FileNotFoundError:
        problem = None
    if problem is None:
        try:
            make_private(root)
            write_whole(root / _PROBE, b"")
            (root / _PROBE).unlink()
        except OSError as error:
            return f"cannot be written to: {error.strerror}"
    return problem


def launches() -> Iterator[Line]:
    """The native launcher and its threads, then a kernel that uses them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the lines say it
        is_native, runtime = launcher.is_native(), process.native_runtime()
        kernel = _kernel_line()
    if is_native and runtime is not None:
        yield Line(OK, "native launcher", "kernels are launched without Python")
        yield _pool_line(runtime.threads())
    else:
        fact = f"not there: {process.why_slow_launches()}"
        yield Line(WRONG, "native launcher", fact, "without it launches take some 30 µs more, and run on one thread")
    yield kernel


def _pool_line(threads: int) -> Line:
    cpus, asked = SYSTEM.usable_cpus(), knobs.tilewright.num_threads
    fact = f"{threads} threads on {cpus} CPUs"
    if asked > cpus:
        return Line(NOTE, "thread pool", fact, "TILEWRIGHT_NUM_THREADS asks for more threads than there are CPUs")
    if 0 < asked < cpus:
        return Line(NOTE, "thread pool", fact, "TILEWRIGHT_NUM_THREADS asks for fewer than there could be")
    return Line(OK, "thread pool", fact)


def _numbered(out_ptr, size: tl.constexpr):  # type: ignore[no-untyped-def]  # in the tile language
    place = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(out_ptr + place, place)


def _kernel_line() -> Line:
    """Compiles a kernel, or gets it from the cache, and runs it."""
    out = np.full(_PROGRAMS * _SIZE, -1, np.int32)
    start = time.perf_counter()
    try:
        jit(_numbered)[(_PROGRAMS,)](out, size=_SIZE)
    except (TilewrightError, machine.LlvmError, machine.UnknownCpuError, *_BROKEN) as error:
        return Line(WRONG, "a kernel", f"fails: {_one_line(error)}", "see the lines above; if all are ok, report it")
    took = f"{1000 * (time.perf_counter() - start):.0f} ms"
    if not np.array_equal(out, np.arange(out.size)):
        return Line(WRONG, "a kernel", "gives wrong numbers", "report it, with this page")
    if knobs.runtime.interpret:
        return Line(NOTE, "a kernel", f"interpreted, right, {took}", "unset TRITON_INTERPRET to have kernels compiled")
    return Line(OK, "a kernel", f"made ready and run in {took}, right")


def assembler() -> Iterator[Line]:
    """NVIDIA's programs, which nothing but code for GPUs needs."""
    package = "pip install nvidia-cuda-nvcc, or set TRITON_PTXAS_PATH"
    try:
        path = find_ptxas(_CAPABILITY)
    except MissingToolError as error:
        yield Line(WRONG, "ptxas", str(error), "set it to the path of the program, or unset it")
        return
    tool = None if path is None else NvidiaTool.from_path(path)
    if path is None:
        yield Line(NOTE, "ptxas", "not found", f"nothing but cubins needs it: {package}")
    elif tool is None:
        yield Line(WRONG, "ptxas", f"{path} does not run, or is no ptxas", package)
    else:
        yield Line(OK, "ptxas", f"{tool.version}, {path}")
    try:
        yield Line(OK, "libdevice", find_libdevice(_CAPABILITY))
    except MissingToolError as error:
        state = WRONG if knobs.nvidia.libdevice_path else NOTE
        yield Line(state, "libdevice", _one_line(error), "only GPU kernels that call its functions need it")


def torch() -> Iterator[Line]:
    """torch, if it is there, and whether launches read its tensors without Python."""
    if find_spec("torch") is None:
        yield Line(NOTE, "torch", "not installed", "nothing needs it but kernels on its tensors: pip install torch")
        return
    try:
        module = importlib.import_module("torch")
        access = python_memory.tensor_access(module)
    except _BROKEN as error:
        yield Line(WRONG, "torch", f"cannot be imported: {_one_line(error)}", "install it anew, or uninstall it")
        return
    if access is None:
        fact = f"{module.__version__}, whose tensors are laid out in an unknown way"
        yield Line(NOTE, "torch", fact, "launches on them go through Python: some 30 µs more")
    else:
        yield Line(OK, "torch", f"{module.__version__}, launches read its tensors without Python")


def triton() -> Iterator[Line]:
    """The package that `import triton` finds, here and in `tilewright run`."""
    ours = PathFinder.find_spec("triton", [str(PACKAGE_PATH)])
    if ours is None:
        yield Line(WRONG, "import triton", f"{PACKAGE_PATH} lacks its package `triton`", "install Tilewright anew")
        return
    if sys.flags.ignore_environment:
        yield Line(NOTE, "import triton", "Python was told to ignore PYTHONPATH", "`tilewright run` needs it")
        return
    found = find_spec("triton")
    if found is None or found.origin is None:
        yield Line(OK, "import triton", "finds nothing here, and Tilewright in `tilewright run`")
    elif ours.origin is not None and Path(found.origin).samefile(ours.origin):
        yield Line(OK, "import triton", "finds Tilewright")
    else:
        yield Line(OK, "import triton", f"finds {Path(found.origin).parent} here, and Tilewright in `tilewright run`")


def _one_line(error: BaseException) -> str:
    """The first line that says something."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


CHECKS: tuple[Callable[[], Iterator[Line]], ...] = (
    interpreter,
    settings,
    libraries,
    llvm,
    processor,
    kept_kernels,
    launches,
    assembler,
    torch,
    triton,
)
"""The checks in the order of the page: what later lines need comes first."""
