"""`tilewright show`: what a kernel becomes at each stage.

    tilewright show examples/vector_add.py:add -s "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"
    tilewright show kernels.py:softmax --stage ttir --stage asm

Parameters that the signature leaves out are taken for i32, or for aligned fp32 pointers where the name ends in `ptr`;
constants have their defaults or come with `-c NAME=VALUE`.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.compiler.signature import CONSTEXPR, ArgumentSpec
from tilewright.runtime.build import KernelRequest, make_kernel
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.parameters import KernelParam

TYPE = re.compile(r"(\*k?)?(i1|[iu](8|16|32|64)|u1|fp(16|32|64)|bf16|fp8\w+)(:(?P<divisibility>\d+))?")
STAGES = ("source", "ttir", "ttcir", "llir", "asm")


class UsageError(Exception):
    """The command line does not say what to show."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    command.add_argument("kernel", metavar="FILE.py:KERNEL", help="a file and the kernel in it")
    command.add_argument("-s", "--signature", metavar="TYPES", help='types and constants: "*fp32:16, i32, 128"')
    command.add_argument("-c", "--constant", action="append", default=[], metavar="NAME=VALUE", help="a constant")
    command.add_argument("--stage", action="append", choices=STAGES, help="only this stage (may be repeated)")


def run(options: argparse.Namespace) -> int:
    """Print the stages.

    Raises:
        UsageError: file, kernel or signature are not as they should be.
        CompilationError: the kernel is wrong.
    """
    kernel = find_kernel(options.kernel)
    constants = dict(_named_value(text) for text in options.constant)
    compiled = compile_for(kernel, _split(options.signature or ""), constants)
    for stage in options.stage or [name for name in STAGES if name in compiled.asm]:
        if not options.stage or len(options.stage) > 1:
            print(f"// ----- {stage} -----")
        print(compiled.asm[stage])
    return 0


def find_kernel(text: str) -> JITFunction:
    """The kernel that `file.py:name` names.

    Raises:
        UsageError: there is no such file or kernel.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not Path(file).is_file():
        raise UsageError(f"{text}: expected FILE.py:KERNEL with a file that exists")
    found: Any = getattr(_module(Path(file)), name, None)
    while not isinstance(found, JITFunction):
        if not hasattr(found, "fn"):
            raise UsageError(f"{file} has no kernel {name!r}: expected a function with @jit")
        found = found.fn  # of an autotuner, or of heuristics
    return found


def compile_for(kernel: JITFunction, signature: Sequence[str], constants: dict[str, Any]) -> CompiledKernel:
    """Compile `kernel` for types given as text, without launching it.

    Args:
        kernel: the kernel.
        signature: one text per parameter, from the left; fewer are filled up.
        constants: values by parameter name.

    Raises:
        UsageError: the signature does not fit.
    """
    if len(signature) > len(kernel.params):
        raise UsageError(
            f"{kernel.fn.__name__} has {len(kernel.params)} parameters, the signature {len(signature)} types"
        )
    unknown = [name for name in constants if name not in kernel.arg_names]
    if unknown:
        raise UsageError(f"{kernel.fn.__name__} has no parameter {unknown[0]!r}")
    given = dict(zip(kernel.arg_names, signature, strict=False))
    specs = [_spec(param, given.get(param.name, ""), constants) for param in kernel.params]
    return make_kernel(KernelRequest(kernel, kernel.fn.__name__, lambda: kernel.src, specs, {}))


def _spec(param: KernelParam, text: str, constants: dict[str, Any]) -> ArgumentSpec:
    match = TYPE.fullmatch(text)
    if match and param.name not in constants:
        return ArgumentSpec(param.name, text.partition(":")[0], int(match["divisibility"] or 1))
    if param.name in constants:
        return ArgumentSpec(param.name, CONSTEXPR, constant=constants[param.name])
    if text:
        return ArgumentSpec(param.name, CONSTEXPR, constant=_value(text.rpartition("=")[2]))
    return _guess(param)


def _guess(param: KernelParam) -> ArgumentSpec:
    """What a parameter is taken for that the command line says nothing of."""
    if param.is_constexpr:
        if not param.has_default:
            raise UsageError(f"the constant {param.name!r} has no value: add -c {param.name}=VALUE")
        return ArgumentSpec(param.name, CONSTEXPR, constant=param.default)
    is_pointer = param.name.lower().endswith(("ptr", "ptrs", "pointer"))
    guessed = ArgumentSpec(param.name, "*fp32", 16) if is_pointer else ArgumentSpec(param.name, "i32")
    return ArgumentSpec(param.name, param.annotation_type) if param.annotation_type else guessed


def _split(signature: str) -> list[str]:
    return [part.strip() for part in signature.split(",") if part.strip()]


def _named_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"-c {text}: expected NAME=VALUE")
    return name, _value(value)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(f"{text!r} is neither a type (*fp32:16, i32, …) nor a constant") from None


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module
