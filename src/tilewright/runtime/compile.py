"""`compile`: a kernel for a signature, or the text of a stage, becomes a kernel that can be launched.

kernel = compile(ASTSource(add, {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128}))
kernel = compile("add.ttir", target=GPUTarget("cpu", "x86-64-v3", 0))
kernel[(8,)](x, 1000)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget
from tilewright.backends.registry import make_backend
from tilewright.runtime import build, devices
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.sources import ASTSource, IRSource, Source
from tilewright.runtime.tracebacks import frames_of, shortened
from tilewright.support import knobs
from tilewright.support.diagnostics import CompilationError


def compile(
    src: Source | str | os.PathLike[str],
    target: GPUTarget | None = None,
    options: Mapping[str, Any] | None = None,
    _env_vars: Mapping[str, str] | None = None,
) -> CompiledKernel:
    """Compile, or take from the disk cache.

    Args:
        src: a source, or the path of a file with the text of a stage: `.ttir`, `.ttcir` or `.llir` on a CPU. The passes
            of that stage are not run again.
        target: the machine; without it the one that kernels are launched on, or a GPU for what only GPUs have: text of
            `.ttgir`, `.ptx` or `.cubin`.
        options: as keywords of a launch.
        _env_vars: accepted as Triton has it; whatever of the environment changes code is part of the options.

    Returns:
        The kernel. `kernel[grid](*arguments)` launches it.

    Raises:
        CompilationError: the kernel is wrong.
        Unsupported: it uses something that the back end cannot compile.
        ParseError, VerificationError: a file does not have the text of its stage.
        BackendError: no back end compiles for `target`.
        TypeError: `src` is no source, or `target` no target.

    Example:
        >>> @tw.jit
        ... def one(x_ptr):
        ...     tl.store(x_ptr, 1.0)
        >>> kernel = tw.compile(tw.ASTSource(one, {"x_ptr": "*fp32"}))
        >>> list(kernel.asm)
        ['source', 'ttir', 'ttcir', 'llir', 'asm', 'obj']
    """
    _check(src, target)
    backend = make_backend(target or _default_target(src))
    source = IRSource(os.fspath(src), None, backend) if isinstance(src, str | os.PathLike) else src
    if isinstance(source, ASTSource):
        source = source.for_target(backend.target)
    try:
        return build.build(source, backend, dict(options or {}))
    except CompilationError as error:
        raise shortened(error) from error.__cause__


def _check(src: Any, target: Any) -> None:
    if hasattr(src, "arg_names"):
        given = f"compile takes a kernel with its signature, as in ASTSource({src.__name__}, {{'x': '*fp32'}})"
        raise TypeError(f"{given}; {src.__name__}.warmup(*arguments, grid=(1,)) finds one by itself")
    if not isinstance(src, str | os.PathLike) and not hasattr(src, "parse_options"):
        raise TypeError(f"compile takes an ASTSource or the path of a file; got {src!r}, of type {type(src).__name__}")
    if target is not None and not hasattr(target, "backend"):
        raise TypeError(f"target is a GPUTarget, as in GPUTarget('cpu', 0, 0); got {target!r}")


def _default_target(src: Source | str | os.PathLike[str]) -> GPUTarget:
    is_for_gpus = isinstance(src, str | os.PathLike) and os.fspath(src).endswith(STAGES_OF_GPUS)
    device = devices.default_device(needs_gpu=is_for_gpus)
    return build.cpu_target() if device is None else device.target


STAGES_OF_GPUS = (".ttgir", ".ptx", ".cubin")
"""The suffixes of stages that CPUs do not have."""


def get_cache_key(src: Source, backend: BaseBackend, backend_options: Any, env_vars: Mapping[str, str]) -> str:
    """A text that differs whenever the compiled code may.

    Args:
        backend: the back end of the machine.
        backend_options: parsed options.
        env_vars: part of the text.
    """
    return f"{build.cache_key(src, backend, backend_options).digest}-{sorted(env_vars.items())}"


def filter_traceback(error: BaseException) -> None:
    """Take the frames of the compiler out of an error's traceback, and of those that it came from.

    With TRITON_FRONT_END_DEBUGGING nothing is taken out.
    """
    if knobs.compilation.front_end_debugging:
        return
    for other in (error.__cause__, error.__context__):
        if other is not None:
            filter_traceback(other)
    found = frames_of(error.__traceback__)
    frames = [frame for frame in found if not _is_front_end(frame.tb_frame.f_code.co_filename)]
    for inner, outer in zip([*frames[1:], None], frames, strict=True):
        outer.tb_next = inner
    error.__traceback__ = frames[0] if frames else None


_FRONT_END = tuple(f"tilewright{os.sep}{part}" for part in ("frontends", "language", "semantics", "compiler"))


def _is_front_end(file: str) -> bool:
    return any(f"{os.sep}{part}{os.sep}" in file for part in _FRONT_END)


__all__ = ["ASTSource", "IRSource", "compile", "filter_traceback", "get_cache_key", "make_backend"]
