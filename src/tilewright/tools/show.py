"""`tilewright show`: a kernel at each stage of compilation.

    tilewright show examples/vector_add.py:add -s "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"
    tilewright show kernels.py:softmax --stage ttir --stage asm
    tilewright show kernels.py:softmax --stage ptx                  # for the GPU that TILEWRIGHT_GPU_ARCH names

Parameters missing in the signature are taken as i32, or as aligned fp32 pointers if the name ends in `ptr`; constants
have their defaults or come with `-c NAME=VALUE`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tilewright.compiler.signature import ArgumentSpec
from tilewright.runtime.build import build, current_backend
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.parameters import KernelParam
from tilewright.runtime.sources import ASTSource
from tilewright.tools.kernels import UsageError, find_kernel, named_value, parse_signature, split_signature

STAGES = ("source", "ttir", "ttcir", "loops", "llir", "asm")
GPU_STAGES = ("ttgir", "ptx", "sass")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_kernel_arguments(command)
    stages = (*STAGES, *GPU_STAGES)
    command.add_argument("--stage", action="append", choices=stages, help="only this stage (may be repeated)")


def add_kernel_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments that say which kernel, for which parameters."""
    command.add_argument("kernel", metavar="FILE.py[:KERNEL]", help="a file, and which kernel in it")
    command.add_argument("-s", "--signature", metavar="TYPES", help='types and constants: "*fp32:16, i32, 128"')
    command.add_argument("-c", "--constant", action="append", default=[], metavar="NAME=VALUE", help="a constant")


def run(options: argparse.Namespace) -> int:
    """Print the stages.

    Raises:
        UsageError: file, kernel or signature are not as they should be.
        CompilationError: the kernel is wrong.
    """
    kernel, specs = requested(options)
    compiled = build(ASTSource.of(kernel, kernel.fn.__name__, specs), current_backend(), {})
    for stage in options.stage or [name for name in STAGES if name in compiled.asm]:
        if not options.stage or len(options.stage) > 1:
            print(f"// ----- {stage} -----")
        print(compiled.asm[stage])
    return 0


def requested(options: argparse.Namespace) -> tuple[JITFunction, list[ArgumentSpec]]:
    """The kernel, and what it is to be compiled for."""
    is_file = Path(options.kernel).is_file()
    file, _, name = (options.kernel, "", "") if is_file else options.kernel.rpartition(":")
    if not Path(file).is_file():
        raise UsageError(f"{options.kernel}: expected FILE.py:KERNEL with a file that exists")
    kernel = find_kernel(file, name)
    constants = dict(named_value("-c", text) for text in options.constant)
    arguments = parse_signature(kernel, split_signature(options.signature or ""), constants, _guess)
    return kernel, [argument.spec for argument in arguments]


def _guess(param: KernelParam) -> ArgumentSpec:
    """The spec of a parameter that the command line says nothing of."""
    if param.is_constexpr:
        raise UsageError(f"the constant {param.name!r} has no value: add -c {param.name}=VALUE")
    is_pointer = param.name.lower().endswith(("ptr", "ptrs", "pointer"))
    guessed = ArgumentSpec(param.name, "*fp32", 16) if is_pointer else ArgumentSpec(param.name, "i32")
    return ArgumentSpec(param.name, param.annotation_type) if param.annotation_type else guessed
