"""Compile options of the CPU back end.

Triton's GPU options are accepted, so that kernels written for a GPU run unchanged; they have no effect here and do not
enter the cache key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.backends.base import OptionError
from tilewright.support.deprecation import without_dropped
from tilewright.support.named_tuple import NamedTuple

GPU_ONLY = frozenset(
    [
        "num_warps",
        "num_ctas",
        "num_stages",
        "warp_size",
        "maxnreg",
        "ptx_version",
        "ptx_options",
        "ir_override",
        "sched4reg",
        "enable_reflect_ftz",
        "launch_cooperative_grid",
        "launch_pdl",
        "clc",
        "cluster_dims",
        "supported_fp8_dtypes",
        "deprecated_fp8_dot_operand_dtypes",
        "allowed_dot_input_precisions",
        "max_num_imprecise_acc_default",
        "arch",
        "backend_name",
        "extern_libs",
        "min_shared_mem",
        "instrumentation_mode",
        "fpsan_homomorphic_casts",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "allow_flush_denorm",
        "enable_fast_math",
        "vec_lib",
        "ukernels",
        "assume_in_bounds",
    ]
)

ALIASES = {"num_cpu_threads": "num_threads"}
"""Names of other CPU back ends for the same option."""


CHECKS = ("bounds", "races", "uninit")
"""The checks that `sanitize` may name."""
DEBUG_INFO = ("", "lines", "variables")


class CpuOptions(NamedTuple):
    """Options to compile and launch a kernel on the CPU.

    Attributes:
        num_threads: threads that share the grid, 0 for the default; only the launch cares.
        enable_fp_fusion: a multiplication and an addition may become one fused operation.
        default_dot_input_precision: `tl.dot` without `input_precision` uses this one.
        debug: `tl.device_assert` and `assert` check at run time.
        sanitize_overflow: with `debug`, `+`, `-` and `*` of integers of up to 32 bits assert that they do not overflow.
        sanitize: what the kernel checks while it runs: some of `CHECKS`.
        interruptible: signals are handled in `for` loops, too, not only between programs and in `while` loops.
        debug_info: debug information in objects: "lines", "variables" (and lines), or nothing.
        ignored: the GPU options that were given, kept for the metadata.
    """

    num_threads: int = 0
    enable_fp_fusion: bool = True
    default_dot_input_precision: str = "tf32"
    debug: bool = False
    sanitize_overflow: bool = True
    sanitize: tuple[str, ...] = ()
    interruptible: bool = False
    debug_info: str = ""
    ignored: tuple[tuple[str, Any], ...] = ()

    @property
    def identity(self) -> str:
        """A string that differs whenever the generated code may differ."""
        checks = f"debug={self.debug}/overflow={self.debug and self.sanitize_overflow}"
        checks += f"/sanitize={','.join(self.sanitize)}" if self.sanitize else ""
        checks += f"/debug_info={self.debug_info}" if self.debug_info else ""
        checks += "/interruptible" if self.interruptible else ""
        return f"fuse={self.enable_fp_fusion}/dot={self.default_dot_input_precision}/{checks}"

    def facts(self) -> dict[str, Any]:
        """The options for the metadata, as Triton names them."""
        return {
            "num_warps": 4,
            "num_ctas": 1,
            "num_stages": 3,
            **{name: value for name, value in self.ignored if isinstance(value, (int, str, bool, float))},
            **{name: value for name, value in self._asdict().items() if name != "ignored"},
        }


def parse_options(given: Mapping[str, Any]) -> CpuOptions:
    """The options that a launch asks for by keyword.

    Raises:
        KeyError: no back end has an option of that name.
        OptionError: an option has a value that it cannot have.
    """
    given = {ALIASES.get(name, name): value for name, value in without_dropped(given).items()}
    own = set(CpuOptions._fields) - {"ignored"}
    unknown = [name for name in given if name not in own and name not in GPU_ONLY]
    if unknown:
        raise KeyError(
            f"Keyword argument {unknown[0]} was specified but unrecognised: it is neither a parameter nor an option"
        )
    threads = given.get("num_threads", 0)
    if not isinstance(threads, int) or threads < 0:
        raise OptionError(f"num_threads must be a number of threads, or 0 for the default; got {threads!r}")
    warps = given.get("num_warps", 1)
    if not isinstance(warps, int) or warps < 1 or warps & (warps - 1):
        raise OptionError(f"num_warps must be a power of 2, also where it changes nothing; got {warps!r}")
    if given.get("debug_info", "") not in DEBUG_INFO:
        raise OptionError(f"debug_info is 'lines', 'variables' or ''; got {given['debug_info']!r}")
    if "sanitize" in given:
        given["sanitize"] = chosen_checks(given["sanitize"])
    ignored = tuple((name, value) for name, value in given.items() if name in GPU_ONLY)
    return CpuOptions(**{name: value for name, value in given.items() if name in own}, ignored=ignored)


def chosen_checks(asked: Any) -> tuple[str, ...]:
    """The checks that `sanitize` names: "bounds,races", ("bounds",), True for all, None or "" for none.

    Raises:
        OptionError: there is no such check.
    """
    if isinstance(asked, bool):
        return CHECKS if asked else ()
    names = asked.replace(",", " ").split() if isinstance(asked, str) else list(asked or ())
    for name in names:
        if name not in CHECKS:
            raise OptionError(f"sanitize knows {', '.join(CHECKS)}; got {name!r}")
    return tuple(check for check in CHECKS if check in names)
