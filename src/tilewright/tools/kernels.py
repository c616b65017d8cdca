"""Kernels and signatures given on command lines.

    find_kernel("kernels.py", "add")
    parse_signature(add, ["*fp32:16", "*fp32:16", "i32", "i32:1", "BLOCK=128"])

A signature has one entry per parameter: a type, with an optional hint after a colon (`:16`, the argument is a multiple
of 16; `:1`, it is 1), or the value of a constant. `NAME=VALUE` names the parameter.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.compiler.signature import CONSTEXPR, ArgumentSpec
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.parameters import KernelParam
from tilewright.support.diagnostics import TilewrightError

_TYPE = re.compile(r"(?P<type>(\*k?)?(i1|[iu](8|16|32|64)|u1|fp(16|32|64)|bf16|fp8\w+))(:(?P<hint>\w*))?")
_HINTS = {None: 0, "1": 1, "16": 16}


class UsageError(Exception):
    """A command line does not say what it should."""


class Argument(NamedTuple):
    """One parameter of a kernel, as a signature has it.

    Attributes:
        type: the type string; empty for constants.
        hint: 16, 1, or 0 for none.
    """

    spec: ArgumentSpec
    type: str = ""
    hint: int = 0


def find_kernel(file: str, name: str = "") -> JITFunction:
    """The kernel `name` in a file, or its only one; the file is executed for it. Kernels of autotuners count, too.

    Raises:
        UsageError: there is no such file or kernel, or the file cannot be executed.
    """
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file}")
    module = _module(Path(file))
    if name:
        kernel = _kernel(getattr(module, name, None))
        if kernel is None:
            raise UsageError(f"{file} has no kernel {name!r}: expected a function with @jit")
        return kernel
    found = [(name, kernel) for name, value in vars(module).items() if (kernel := _kernel(value)) is not None]
    own = {name: kernel for name, kernel in found if kernel.fn.__module__ == module.__name__}
    if len(own) != 1:
        raise UsageError(f"{file} has {', '.join(own) or 'no function with @jit'}: expected FILE.py:KERNEL")
    return own.popitem()[1]


def _kernel(value: Any) -> JITFunction | None:
    """The kernel that a value is, or that is inside: of an autotuner, or of heuristics."""
    while not isinstance(value, JITFunction):
        if isinstance(value, type) or not hasattr(value, "fn"):
            return None
        value = value.fn
    return value


def parse_signature(
    kernel: JITFunction,
    entries: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    guess: Callable[[KernelParam], ArgumentSpec] | None = None,
) -> list[Argument]:
    """The arguments that a signature gives for each parameter of a kernel.

    Args:
        constants: values by parameter name, which entries do not change.
        guess: what to take a parameter for that is not mentioned; without it, its default has to do.
    """
    name, params, known = kernel.fn.__name__, kernel.params, constants or {}
    if len(entries) > len(params):
        raise UsageError(f"{name} has {len(params)} parameters, the signature {len(entries)} entries")
    unknown = [constant for constant in known if constant not in kernel.arg_names]
    if unknown:
        raise UsageError(f"{name} has no parameter {unknown[0]!r}")
    given = dict(zip(kernel.arg_names, entries, strict=False))
    return [_argument(param, given.get(param.name), known, guess) for param in params]


def split_signature(text: str) -> list[str]:
    """The entries of a signature in one text."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def named_value(option: str, text: str) -> tuple[str, Any]:
    """The name and the value that `NAME=VALUE` gives, behind an option of the command line."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: expected NAME=VALUE")
    return name, _value_of(value, f"{option} {text}: expected a number or another constant of Python, not {value!r}")


def _value_of(text: str, error: str) -> Any:
    """The constant that a text stands for; `error` is said if it stands for none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(error) from None


def _argument(
    param: KernelParam,
    entry: str | None,
    constants: Mapping[str, Any],
    guess: Callable[[KernelParam], ArgumentSpec] | None,
) -> Argument:
    if param.name in constants:
        return Argument(ArgumentSpec(param.name, CONSTEXPR, constant=constants[param.name]))
    if entry:
        return _parsed(param.name, entry)
    if param.has_default and (param.is_constexpr or guess is None):
        return Argument(ArgumentSpec(param.name, CONSTEXPR, constant=param.default))
    if guess is None:
        raise UsageError(f"parameter {param.name!r} has no entry in the signature")
    return Argument(guess(param))


def _parsed(name: str, entry: str) -> Argument:
    label, equals, text = entry.rpartition("=")
    if equals and label.strip() != name:
        raise UsageError(f"{entry!r} stands where the parameter {name!r} is")
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        error = f"{text!r} is neither a type (*fp32:16, i32, …) nor a constant"
        return Argument(ArgumentSpec(name, CONSTEXPR, constant=_value_of(text.strip(), error)))
    kind, hint = match["type"], match["hint"]
    if hint not in _HINTS or (hint == "1" and kind[0] not in "iu"):
        raise UsageError(f"{entry!r}: hints are 16 (a multiple of it) and, for integers, 1 (that number)")
    if hint == "1":
        return Argument(ArgumentSpec(name, CONSTEXPR, constant=1), kind, 1)
    return Argument(ArgumentSpec(name, kind, _HINTS[hint] or 1), kind, _HINTS[hint])


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except TilewrightError:
        raise
    except Exception as error:  # noqa: BLE001 - a program of the user, which may fail in any way
        raise UsageError(f"{path} cannot be executed:\n{_traceback_in(path, error)}") from None
    return module


def _traceback_in(path: Path, error: Exception) -> str:
    """The traceback of an error from the frame of a file on."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(path):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame)).rstrip()
