"""`triton._filecheck`: tests whose comments give the expected TTIR of a kernel.

    @filecheck_test
    @triton.jit
    def test_add():
        # CHECK: arith.addi
        …

The comparison is done by FileCheck: the program of that name on the PATH, or else the package `filecheck` from PyPI.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.backends.base import GPUTarget
from tilewright.backends.registry import make_backend
from tilewright.compat.bindings import ModuleView
from tilewright.runtime import lazy_imports
from tilewright.runtime.parameters import bind
from tilewright.runtime.specialize import argument_spec, specialize
from tilewright.support.diagnostics import TilewrightError

stub_target = GPUTarget("cuda", 100, 32)
"""The target for which `run_parser` reads kernels: nothing is compiled for it."""


class MatchError(ValueError):
    """A text does not have what it should."""

    def __init__(self, message: str, module_str: str) -> None:
        super().__init__(message)
        self.module_str = module_str

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.module_str}"


class NoFileCheckError(TilewrightError, RuntimeError):
    """There is nothing to compare with."""


def run_filecheck(name: str, module_str: str, check_template: str) -> None:
    """Compare a text with what the comments of another say.

    Args:
        name: not used; programs give one.
        check_template: has lines with `CHECK`.

    Raises:
        ValueError: it does not match; what FileCheck says is the message.
        NoFileCheckError: there is no FileCheck.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, template = Path(folder, "module"), Path(folder, "expected")
        text.write_text(module_str)
        template.write_text(check_template)
        command = [*_program(), str(template), "--input-file", str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(_missed(done.stdout + done.stderr, check_template))


def _missed(output: str, check_template: str) -> str:
    """FileCheck's message, beginning as LLVM's does where it was the package's."""
    found = re.match(r".*:(\d+): error: Couldn't match", output)
    if found is None:
        return output
    line = re.sub(r"[ \t]+", " ", check_template.splitlines()[int(found[1]) - 1])
    return f"expected string not found in input\n{line}\n{output}"


def _program() -> list[str]:
    found = shutil.which("FileCheck")
    if found is not None:
        return [found]
    if importlib.util.find_spec("filecheck") is None:
        raise NoFileCheckError("FileCheck is not on the PATH: install it, or the package: pip install filecheck")
    return [sys.executable, "-m", "filecheck"]


def run_parser(
    kernel_fn: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, target: Any = stub_target
) -> ModuleView:
    """A kernel as TTIR before any pass, for a call with these arguments.

    Args:
        args, kwargs: what it is called with; options of the target among them.

    Raises:
        CompilationError: the kernel is wrong.
    """
    backend = make_backend(target)
    values, rest = bind(kernel_fn.fn.__name__, kernel_fn.params, tuple(args), dict(kwargs or {}))
    pairs = zip(values, kernel_fn.params, strict=True)
    specs = tuple(argument_spec(param.name, specialize(value, param)) for value, param in pairs)
    if kernel_fn.is_gluon():
        specs = lazy_imports.specs_for_target(specs, backend.target)
    options = backend.parse_options({"sanitize_overflow": False, **rest})
    return ModuleView(lazy_imports.evaluate(kernel_fn, kernel_fn.fn.__name__, specs, options))


def run_filecheck_test(kernel_fn: Any) -> None:
    """Compare the TTIR of a kernel without parameters with the comments of its source.

    Raises:
        ValueError: it does not match.
    """
    run_filecheck("placeholder", run_parser(kernel_fn).str_nodebug(), inspect.getsource(kernel_fn.fn))


def filecheck_test(fn: Any) -> Callable[[], None]:
    """The decorator that makes a kernel a test."""

    @functools.wraps(fn)
    def test_fn() -> None:
        run_filecheck_test(fn)

    return test_fn
