"""`tilewright compile`: a kernel becomes an object file and C files that launch it, without Python.

    tilewright compile kernels.py -n add -s "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=1024" -g "n / BLOCK + 1, 1, 1"
    cc -c program.c add.*.c && cc *.o

The object holds the machine code, the header declares `add_<digest>_<hints>(stream, x_ptr, y_ptr, out_ptr, n)`, and the
source defines it. `tilewright link` makes one function of several such specialisations. Options are Triton's, except
that `-s` may be repeated: all CPUs compile then, or the workers of the executor passed to `compile_kernels`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.backends.base import GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.backends.llvm.machine import UnknownCpuError
from tilewright.compiler.artifact import Stage
from tilewright.runtime.async_compile import AsyncCompileMode
from tilewright.runtime.build import build, current_target
from tilewright.runtime.compile_task import CompileTask
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.sources import ASTSource, Compilation
from tilewright.support.hashing import hash_of
from tilewright.tools.aot.c_text import Stub, header_text, parameter, source_text
from tilewright.tools.kernels import Argument, UsageError, find_kernel, parse_signature, split_signature

_IN_C = {"char", "int", "long", "short", "signed", "sizeof", "unsigned"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class CompileArgs:
    """The arguments of a compilation.

    Attributes:
        grid: up to three C expressions over the arguments and the whole-number constants.
        target: `<backend>:<arch>:<warp size>`; this machine without it.
        num_warps, num_stages: part of the name of the result only.
        out_name: the C function begins with it; the kernel's name without it.
        out_path: the files' names begin with it; `out_name` without it.
    """

    path: str = ""
    kernel_name: str = ""
    signature: str = ""
    grid: str = ""
    target: str | None = None
    num_warps: int = 1
    num_stages: int = 3
    out_name: str | None = None
    out_path: Path | None = None


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    command.add_argument("path", help="the file with the kernel; it is executed")
    command.add_argument("--kernel-name", "-n", default="", required=True, help="the kernel in it")
    text = 'types and constants: "*fp32:16, i32, i32:1, 128"; several of them are compiled side by side'
    command.add_argument("--signature", "-s", required=True, action="append", help=text)
    command.add_argument("--grid", "-g", required=True, help='C expressions over the arguments: "n / 128 + 1, 1, 1"')
    command.add_argument("--target", "-t", help="cpu:ARCH:0, where ARCH may name a CPU; default: this machine")
    command.add_argument("--num-warps", "-w", type=int, default=1, help="part of the result's name")
    command.add_argument("--num-stages", "-ns", type=int, default=3, help="part of the result's name")
    command.add_argument("--out-name", "-on", help="the C function begins with it; default: the kernel's name")
    command.add_argument("--out-path", "-o", type=Path, help="the files begin with it; default: the name")


def run(options: argparse.Namespace) -> int:
    """Compile for each signature, and print the files' names.

    Raises:
        UsageError: an argument is not as it should be.
        CompilationError: the kernel is wrong.
    """
    given = {name: getattr(options, name) for name in CompileArgs.__dataclass_fields__}
    for _, files in compile_kernels([CompileArgs(**{**given, "signature": text}) for text in options.signature]):
        for file in files:
            print(file)
    return 0


def compile_kernels(all_args: Sequence[CompileArgs], executor: Executor | None = None) -> list[tuple[str, list[Path]]]:
    """Compile kernels to files side by side.

    Args:
        all_args: one for each kernel and signature.
        executor: its workers compile, into the cache; without it processes of this machine do.

    Returns, raises: as `compile_kernel` for each of them.
    """
    if len(all_args) > 1:
        with AsyncCompileMode(executor, ignore_errors=True) as mode:
            for args in all_args:
                _job(args).compile_by(mode)
    return [compile_kernel(args) for args in all_args]


def compile_kernel(args: CompileArgs) -> tuple[str, list[Path]]:
    """Compile a kernel to files.

    Returns:
        The name of the C function, and the files: header, source, object.

    Raises:
        UsageError: an argument is not as it should be.
        CompilationError: the kernel is wrong.
        OSError: a file cannot be written.
    """
    job = _job(args)
    compiled = job.compiled()
    base = args.out_path or Path(job.out_name)
    files = [base.with_name(f"{base.name}.{job.tag}.{ext}") for ext in ("h", "c", "kernel.o")]
    stub = _stub(args, job.name, job.arguments, compiled, job.backend, files)
    for file, content in zip(files, (header_text(stub), source_text(stub), compiled.asm["obj"]), strict=True):
        file.write_bytes(_bytes(content))
    return job.name, files


class _Job(NamedTuple):
    """One compilation.

    Attributes:
        name: of the C function.
        tag: the part of it that distinguishes specialisations.
    """

    kernel: JITFunction
    arguments: list[Argument]
    out_name: str
    tag: str
    backend: CpuBackend

    @property
    def name(self) -> str:
        return f"{self.out_name}_{self.tag}"

    @property
    def source(self) -> ASTSource:
        """The kernel under the symbol that the C function calls."""
        specs = [argument.spec for argument in self.arguments]
        return ASTSource.of(self.kernel, f"{self.name}_programs_from_to", specs)

    def compile_by(self, mode: AsyncCompileMode) -> None:
        """Let the workers of a mode compile into the cache."""
        compilation = Compilation(self.kernel, self.name, self.source, _OPTIONS, True, self.backend.target)
        mode.submit(self.name, CompileTask(compilation, partial(build, self.source, self.backend, _OPTIONS)), _ignore)

    def compiled(self) -> CompiledKernel:
        """The kernel; assertions are refused."""
        compiled = build(self.source, self.backend, _OPTIONS)
        if any("message" in site for site in compiled.reports):
            name = self.kernel.fn.__name__
            raise UsageError(f"{name} has assertions that are on: compiled ahead of time, nobody hears of them")
        return compiled


_OPTIONS: dict[str, Any] = {"sanitize": ()}


def _ignore(kernel: CompiledKernel) -> None:
    """Does nothing with a kernel: it is in the cache."""


def _job(args: CompileArgs) -> _Job:
    kernel = find_kernel(args.path, args.kernel_name)
    arguments = parse_signature(kernel, split_signature(args.signature))
    out_name = args.out_name or args.kernel_name
    if not _NAME.fullmatch(out_name):
        raise UsageError(f"{out_name!r} cannot be the name of a C function")
    hints = [argument.hint for argument in arguments if argument.type]  # numbered as in C, where constants are left out
    suffix = "".join(f"{number}{'c' if hint == 1 else 'd'}" for number, hint in enumerate(hints) if hint)
    return _Job(kernel, arguments, out_name, f"{_digest(args)}_{suffix}", _backend(args.target))


def _digest(args: CompileArgs) -> str:
    """Eight digits that distinguish specialisations."""
    about = [*split_signature(args.signature), args.grid, args.target or "", f"{args.num_warps} {args.num_stages}"]
    return hash_of("\n".join(about).encode()).hexdigest()[:8]


def _backend(target: str | None) -> CpuBackend:
    """The back end for `cpu:ARCH:0`, or for this machine."""
    kind, _, rest = (target or "cpu").partition(":")
    arch, _, warp_size = rest.partition(":")
    if kind != "cpu" or warp_size not in ("", "0"):
        raise UsageError(f"--target {target}: expected cpu:ARCH:0; C files are written for CPUs only")
    try:
        return CpuBackend(GPUTarget("cpu", arch, 0) if arch else current_target())
    except UnknownCpuError as error:
        raise UsageError(f"--target {target}: {error}") from None


def _stub(
    args: CompileArgs,
    name: str,
    arguments: Sequence[Argument],
    compiled: CompiledKernel,
    backend: CpuBackend,
    files: Sequence[Path],
) -> Stub:
    run_time = [argument for argument in arguments if not argument.spec.is_constant]
    stored = {run_time[index].spec.name for index in compiled.metadata.stored}
    in_c = {a.spec.name: parameter(a.spec.name, a.type, is_stored=a.spec.name in stored) for a in arguments if a.type}
    constants = {a.spec.name: a.spec.constant for a in arguments if a.spec.is_constant and not a.type}
    grid = [part.strip() for part in args.grid.split(",")]
    if not 1 <= len(grid) <= 3 or not all(grid):
        raise UsageError(f"--grid {args.grid!r}: expected one to three C expressions")
    _check_names(args.grid, {*in_c, *(name for name, value in constants.items() if isinstance(value, int))})
    return Stub(
        kernel=args.kernel_name,
        name=name,
        entry=compiled.metadata.entry,
        header=files[0].name,
        object=files[2].name,
        about=f"{args.signature}; for {backend.machine.tune}, {backend.machine.triple}",
        algorithm=_algorithm(constants, args),
        parameters=[in_c[argument.spec.name] for argument in run_time],
        everything=list(in_c.values()),
        aligned=[in_c[argument.spec.name] for argument in run_time if argument.hint == 16],
        grid=[*grid, "1", "1"][:3],
        constants={key: value for key, value in constants.items() if _is_in(key, value, grid)},
        scratch_bytes=compiled.metadata.scratch_bytes,
        prints=compiled.reports,
        features=() if backend.machine.neon else backend.machine.features,
    )


def _algorithm(constants: dict[str, Any], args: CompileArgs) -> str:
    """A word for the constants: specialisations that share it differ in hints only."""
    values = "x".join(re.sub(r"\W", "_", str(value)) for value in constants.values())
    return f"{values}_warps{args.num_warps}xstages{args.num_stages}"


def _check_names(grid: str, known: set[str]) -> None:
    """Refuse a grid with a name that the C function does not know; C knows names such as `int64_t`."""
    for name in re.findall(r"\b[A-Za-z_]\w*", grid):
        if name not in known and name not in _IN_C and not name.endswith("_t"):
            raise UsageError(f"--grid {grid!r}: there is no parameter and no whole-number constant {name!r}")


def _is_in(name: str, value: Any, grid: Sequence[str]) -> bool:
    return isinstance(value, int) and any(re.search(rf"\b{re.escape(name)}\b", part) for part in grid)


def _bytes(content: Stage) -> bytes:
    return content if isinstance(content, bytes) else content.encode()
