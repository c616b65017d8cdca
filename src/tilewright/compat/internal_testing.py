"""`triton._internal_testing`: helpers of Triton's tests and of tests written like them.

    x = numpy_random((128,), "int16")
    tensor = to_triton(x, device="cpu")        # torch has few unsigned types: such a tensor is wrapped
    assert (to_numpy(tensor) == x).all()

Queries about the GPU are answered for the device of launches: negatively on a CPU, and by its compute capability on an
NVIDIA GPU, also a simulated one.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import pytest

from tilewright.backends.base import GPUTarget
from tilewright.compat.driver import driver
from tilewright.compat.signatures import canonicalize_dtype
from tilewright.compat.torch_bridge import torch
from tilewright.language import dtype as language_dtype
from tilewright.language import str_to_ty
from tilewright.runtime.array_shims import TensorWrapper, reinterpret
from tilewright.support import knobs

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted({*dtypes_with_bfloat16} - {"int64", "uint64", "float64"})

DEFAULT_SEED = 17
SECONDS_FOR_A_RESULT = 5


def is_interpreter() -> bool:
    """Whether kernels run in Python instead of being compiled."""
    return knobs.runtime.interpret


def is_cpu() -> bool:
    """Whether tests should expect what another CPU back end for Triton cannot do: no, this one does it."""
    return False


def no(*_: Any) -> bool:
    """The answer to every question for AMD's and Intel's GPUs."""
    return False


is_hip = is_hip_cdna = is_hip_cdna2 = is_hip_cdna3 = is_hip_cdna3_or_newer = is_hip_cdna4 = no
is_hip_gfx11 = is_hip_gfx12 = is_hip_gfx1250 = is_hip_rdna = is_hip_rdna3 = is_hip_rdna4 = is_hip_rdna4m = is_xpu = no


def get_current_target() -> GPUTarget:
    """The target that kernels are compiled for."""
    target: GPUTarget = driver.active.get_current_target()
    return target


def capability() -> int:
    """The compute capability of the GPU that kernels are launched on, as 90; 0 on a CPU."""
    target = get_current_target()
    return int(target.arch) if target.backend == "cuda" else 0


def _if_capability(suits: Callable[[int], bool]) -> Callable[[], bool]:
    """A question about the capability of that GPU, which is answered with no on a CPU."""
    return lambda: suits(capability())


is_cuda = _if_capability(lambda number: number > 0)
is_ampere_or_newer = _if_capability(lambda number: number >= 80)
is_hopper = _if_capability(lambda number: number // 10 == 9)
is_hopper_or_newer = _if_capability(lambda number: number >= 90)
is_blackwell = _if_capability(lambda number: number // 10 in (10, 11))
is_blackwell_ultra = _if_capability(lambda number: number == 103)
is_rubin = _if_capability(lambda number: number == 107)
is_sm12x = _if_capability(lambda number: number // 10 == 12)
supports_clc = _if_capability(lambda number: number >= 100)  # programs can take over others that have not begun


def supports_ws() -> bool:
    """Whether tests should make warps of one program do different things: no, our passes do not make such programs."""
    return False


def get_arch() -> str:
    """The architecture of that."""
    return str(get_current_target().arch)


def supports_tma(byval_only: bool = False) -> bool:
    """Whether there is hardware that copies tiles, a simulated one included; interpreted kernels need none."""
    return is_interpreter() or is_hopper_or_newer()


def tma_skip_msg(byval_only: bool = False) -> str:
    """The reason for which tests that need such hardware are skipped."""
    return "needs the tile copies of an NVIDIA GPU"


requires_tma = pytest.mark.skipif(not supports_tma(), reason=tma_skip_msg())


def get_hip_lds_size() -> int:
    """0: there is no AMD GPU, so no such memory."""
    return 0


def numpy_random(
    shape: int | Sequence[int],
    dtype_str: str,
    rs: np.random.RandomState | None = None,
    low: int | None = None,
    high: int | None = None,
) -> np.ndarray[Any, Any]:
    """Random numbers: integers of all sizes but 0, which one cannot divide by; floats around 0.

    Args:
        dtype_str: the element type, as torch names it; float8 gives bytes.
        rs: where the numbers come from; without it, every call gives the same ones.
        low, high: bounds for integers.
    """
    rs = np.random.RandomState(DEFAULT_SEED) if rs is None else rs
    if dtype_str in integral_dtypes:
        limits = np.iinfo(dtype_str)
        least = limits.min if low is None else max(low, limits.min)
        most = limits.max if high is None else min(high, limits.max)
        numbers: np.ndarray[Any, Any] = rs.randint(least, most, shape, dtype=np.dtype(dtype_str))
        numbers[numbers == 0] = 1
        return numbers
    if "float8" in dtype_str:
        return np.asarray(rs.randint(20, 40, shape, dtype=np.int8))
    normal = np.asarray(rs.normal(0, 1, shape))
    if dtype_str in float_dtypes:
        return normal.astype(dtype_str)
    if dtype_str == "bfloat16":
        return (normal.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    if dtype_str in ("bool", "bool_", "int1"):
        return normal > 0
    raise RuntimeError(f"no random numbers of type {dtype_str}")


def to_triton(x: np.ndarray[Any, Any], device: Any, dst_type: str | None = None) -> Any:
    """An argument for a kernel with the numbers of `x`.

    Args:
        dst_type: their type, where NumPy has no name for it: `bfloat16`, `float8e5` …
    """
    library, name = torch(), x.dtype.name
    if name in uint_dtypes:
        return reinterpret(library.tensor(x.astype(name.removeprefix("u")), device=device), str_to_triton_dtype(name))
    tensor = library.tensor(x, device=device)
    if dst_type is not None and "float8" in dst_type:
        return reinterpret(tensor, str_to_triton_dtype(dst_type))
    return tensor.bfloat16() if name == "float32" and dst_type == "bfloat16" else tensor


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """The numbers of a kernel's argument; bfloat16 becomes float32."""
    if isinstance(x, TensorWrapper):
        found: np.ndarray[Any, Any] = x.base.cpu().numpy().astype(torch_dtype_name(x.dtype))
        return found
    if not isinstance(x, torch().Tensor):
        raise ValueError(f"no tensor, but a {type(x).__name__}")
    array: np.ndarray[Any, Any] = (x.float() if x.dtype is torch().bfloat16 else x).cpu().numpy()
    return array


def str_to_triton_dtype(x: str) -> Any:
    """The element type of the language with this name."""
    return str_to_ty(canonicalize_dtype(x), None)


def torch_dtype_name(dtype: Any) -> str:
    """The name of an element type of torch or the language."""
    if isinstance(dtype, language_dtype):
        return dtype.name
    if isinstance(dtype, torch().dtype):
        return str(dtype).removeprefix("torch.")
    raise TypeError(f"an element type of torch or the language is needed, not a {type(dtype).__name__}")


def unwrap_tensor(t: Any) -> Any:
    """The tensor behind a kernel's argument."""
    return t.base if isinstance(t, TensorWrapper) else t


def default_alloc_fn(size: int, align: int, stream: Any) -> Any:
    """An allocator for `triton.set_allocator`: memory of torch's, on the GPU where there is one."""
    return torch().empty(size, dtype=torch().int8, device=driver.active.get_active_torch_device())


@dataclass
class ProcessResult:
    """The end of a function in a process of its own: what it raised, and what was written to standard error."""

    exc: BaseException | None
    driver_stderr_output: str


def run_in_process(
    client_fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Call `client_fn` in a process of its own, with additional environment variables `env`."""
    context = multiprocessing.get_context("forkserver")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr"
        work = (client_fn, results, args, dict(kwargs or {}), dict(env or {}), str(log))
        process = context.Process(target=_call, args=work)
        process.start()
        process.join()
        written = log.read_text() if log.exists() else ""
    try:
        return ProcessResult(results.get(timeout=SECONDS_FOR_A_RESULT), written)
    except Empty:
        raise RuntimeError(f"the process ended with {process.exitcode} and without a result\n{written}") from None


def _call(
    client_fn: Callable[..., Any],
    results: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    env: Mapping[str, str],
    log: str,
) -> None:
    for name, value in env.items():
        knobs.setenv(name, value)
    with Path(log).open("wb") as file:
        os.dup2(file.fileno(), 2)
        raised: BaseException | None = None
        try:
            client_fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            raised = error
        sys.stderr.flush()
    results.put(raised)


Groups = dict[str, knobs.base_knobs]


def _fresh_knobs_impl(skipped_attr: Collection[str] = ()) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Two functions: the first replaces all groups of knobs by fresh ones, the second brings the old ones back.

    Both take the environment variables of the knobs along. Groups in `skipped_attr` stay.
    """
    patch = pytest.MonkeyPatch()
    kept: Groups = {
        name: group
        for name, group in vars(knobs).items()
        if isinstance(group, knobs.base_knobs) and name not in (skipped_attr or ())
    }
    propagated = knobs.propagate_env

    def fresh() -> Any:
        for name, group in kept.items():
            setattr(knobs, name, group.copy().reset())
            for knob in group.knob_descriptors.values():
                patch.setenv(knob.key, "")  # so that `undo` also removes what the test sets
                patch.delenv(knob.key)
        knobs.propagate_env = True
        return knobs

    def restore() -> None:
        for name, group in kept.items():
            setattr(knobs, name, group)
        patch.undo()
        knobs.propagate_env = propagated

    return fresh, restore
