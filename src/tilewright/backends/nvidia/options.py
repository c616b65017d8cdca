"""Compile options of the NVIDIA back end, by the names and with the defaults of Triton 3.9.

    parse_options({"num_warps": 8, "num_stages": 2}, capability=90).num_warps        # 8

Options that only the CPU back end has are accepted, so that one launch works for both; they change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tilewright.backends.base import OptionError
from tilewright.backends.nvidia.targets import FIRST_WITH_SUFFIX, LATEST_PTX, find
from tilewright.support import knobs
from tilewright.support.deprecation import without_dropped
from tilewright.support.diagnostics import OutOfResources
from tilewright.support.named_tuple import NamedTuple

CPU_ONLY = frozenset(("num_threads", "num_cpu_threads", "sanitize", "interruptible"))
PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
DEBUG_INFO = ("", "lines", "variables")
FIRST_FP8E4NV = 89
"""The first capability whose matrix instructions take fp8e4nv."""
FIRST_CLUSTERS = 90
FIRST_CLC = 100
MAX_WARPS = 32
"""The most warps of a program that a GPU launches."""


class CudaOptions(NamedTuple):
    """Options to compile and launch a kernel on a GPU; one that launches differently is recompiled, as Triton does.

    Attributes:
        num_warps: warps of 32 threads that compute a program together.
        num_ctas: thread blocks of a cluster that compute a program together.
        num_stages: steps of a loop that are under way at once.
        maxnreg: how many registers a thread may use.
        ptx_version: the version of PTX to write, as 84; None for the oldest that has what is used.
        ptx_options: further arguments for ptxas.
        ir_override: a file with the text of a stage, which takes the place of what was compiled.
        enable_fp_fusion: a multiplication and an addition may become one fused operation.
        sched4reg: accepted; LLVM orders instructions for few registers anyway.
        enable_reflect_ftz: functions of libdevice flush denormals, and so does exp2 of float32.
        launch_cooperative_grid: all programs run at the same time.
        launch_pdl: the launch may begin before the one before it has ended.
        clc: accepted on devices that have it; programs are not taken over from others.
        supported_fp8_dtypes: the 8-bit floats that kernels may use; those that the device has not are emulated.
        deprecated_fp8_dot_operand_dtypes: those of them that `tl.dot` warns of.
        default_dot_input_precision: `tl.dot` without `input_precision` uses this one.
        allowed_dot_input_precisions: what it may be.
        max_num_imprecise_acc_default: after how many elements the sum of an fp8 product is made exact.
        extern_libs: bitcode libraries: pairs of name and path.
        debug: `tl.device_assert` and `assert` check at run time.
        sanitize_overflow: with `debug`, integers assert that they do not overflow.
        arch: the device, as `sm90`.
        instrumentation_mode, fpsan_homomorphic_casts: accepted as Triton has them; nothing is instrumented.
        min_shared_mem: bytes of shared memory to ask for at least.
        debug_info: debug information in code: "lines", "variables" (and lines), or nothing.
        insert_fences: where an engine reads what threads stored, a fence stands between, also if the program has none.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    maxnreg: int | None = None
    ptx_version: int | None = None
    ptx_options: str | None = None
    ir_override: str | None = None
    enable_fp_fusion: bool = True
    sched4reg: bool = False
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    clc: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = PRECISIONS
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    debug: bool = False
    backend_name: str = "cuda"
    sanitize_overflow: bool = True
    arch: str = ""
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    min_shared_mem: int | None = None
    debug_info: str = "lines"
    insert_fences: bool = True

    @property
    def capability(self) -> int:
        """The compute capability that `arch` stands for; the front end asks for it."""
        return int(self.arch.removeprefix("sm") or 0)

    @property
    def identity(self) -> str:
        """A string that differs whenever the generated code may differ: libraries by what is in them."""
        return repr((self, [_file_identity(path) for _, path in self.extern_libs]))

    def facts(self) -> dict[str, Any]:
        """The options for the metadata."""
        return self._asdict()


def parse_options(given: Mapping[str, Any], capability: int) -> CudaOptions:
    """The options that a launch asks for by keyword.

    Args:
        given: keywords; None stands for the default.
        capability: of the device.

    Raises:
        KeyError: no back end has an option of that name.
        ValueError: an option has a value that it cannot have, or cannot have on this device.
        OutOfResources: a program is to have more threads than a GPU gives it.
    """
    given = without_dropped(given)
    _refuse_unknown(given)
    own = {name: value for name, value in given.items() if value is not None and name not in CPU_ONLY}
    options = CudaOptions(**{**_defaults(capability), **own, "extern_libs": _libraries(own.get("extern_libs"))})
    _check_numbers(options)
    _check_words(options)
    _check_device(options, capability)
    return options


def _refuse_unknown(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in CudaOptions._fields and name not in CPU_ONLY:
            raise KeyError(
                f"Keyword argument {name} was specified but unrecognised: it is neither a parameter nor an option"
            )


def _defaults(capability: int) -> dict[str, Any]:
    """The defaults that depend on the device or come from knobs."""
    fp8 = ("fp8e4b15", "fp8e4nv", "fp8e5") if capability >= FIRST_FP8E4NV else ("fp8e4b15", "fp8e5")
    return {
        "arch": f"sm{capability}",
        "supported_fp8_dtypes": fp8,
        "deprecated_fp8_dot_operand_dtypes": ("fp8e4b15",) if capability >= FIRST_WITH_SUFFIX else (),
        "max_num_imprecise_acc_default": 2**30 if capability == FIRST_WITH_SUFFIX else 0,
        "ptx_options": knobs.nvidia.ptxas_options,
        "insert_fences": knobs.tilewright.insert_fences,
        "debug_info": "" if knobs.compilation.disable_line_info else "lines",
    }


def _libraries(given: Any) -> tuple[tuple[str, str], ...]:
    """A dict, or pairs, of names and paths."""
    pairs = given.items() if isinstance(given, Mapping) else given or ()
    return tuple((str(name), os.fspath(path)) for name, path in pairs)


def _check_numbers(options: CudaOptions) -> None:
    warps, size = options.num_warps, CudaOptions().warp_size
    if isinstance(warps, int) and warps > MAX_WARPS and not warps & (warps - 1):
        raise OutOfResources(warps * size, MAX_WARPS * size, "threads")  # the autotuner passes it over
    for name, most in (("num_warps", MAX_WARPS), ("num_ctas", 16)):
        number = getattr(options, name)
        if not isinstance(number, int) or not 0 < number <= most or number & (number - 1):
            raise OptionError(f"{name} must be a power of 2 from 1 to {most}; got {number!r}")
    if options.warp_size != size:
        raise OptionError(f"a warp has 32 threads; got warp_size={options.warp_size!r}")
    if not isinstance(options.num_stages, int) or options.num_stages < 0:
        raise OptionError(f"num_stages must be a number of steps; got {options.num_stages!r}")
    if options.maxnreg is not None and (not isinstance(options.maxnreg, int) or options.maxnreg < 1):
        raise OptionError(f"maxnreg must be a number of registers; got {options.maxnreg!r}")


def _check_words(options: CudaOptions) -> None:
    if options.default_dot_input_precision not in options.allowed_dot_input_precisions:
        allowed = ", ".join(options.allowed_dot_input_precisions)
        raise OptionError(
            f"default_dot_input_precision is one of {allowed}; got {options.default_dot_input_precision!r}"
        )
    if options.debug_info not in DEBUG_INFO:
        raise OptionError(f"debug_info is 'lines', 'variables' or ''; got {options.debug_info!r}")


def _check_device(options: CudaOptions, capability: int) -> None:
    if options.num_ctas > 1 and capability < FIRST_CLUSTERS:
        raise OptionError(
            f"num_ctas > 1 requires NVIDIA SM90+ (Hopper), which have clusters; got num_ctas={options.num_ctas} "
            f"for sm_{capability}"
        )
    if options.clc and capability < FIRST_CLC:
        raise OptionError(f"clc=True: only devices from sm_100 on can do that, not sm_{capability}")
    oldest = find(capability).ptx
    if options.ptx_version is not None and not oldest <= options.ptx_version <= LATEST_PTX:
        raise OptionError(
            f"ptx_version for sm_{capability} is a number from {oldest} to {LATEST_PTX}; got {options.ptx_version!r}"
        )


def _file_identity(path: str) -> tuple[str, int, int]:
    """A key that differs whenever a file was rewritten.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise OptionError(f"extern_libs: {path} cannot be read: {error.strerror}") from None
    return path, status.st_size, status.st_mtime_ns
