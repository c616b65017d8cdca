"""Kernels compiled for NVIDIA's GPUs and run by the simulator of PTX, with all its checks.

    x, out = run(double, (4,), np.arange(512, dtype=np.float32), np.zeros(512, np.float32), 512, BLOCK=128)

Arrays are pointers to copies of them; what is there afterwards is returned, in order. Where NVIDIA's assembler is
installed it has to accept the code, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tilewright.backends.base import GPUTarget
from tilewright.backends.llvm.nvptx import emit_ptx
from tilewright.backends.nvidia.lower.lowerer import Target
from tilewright.backends.nvidia.lower.module import LowerOptions, lower_module
from tilewright.backends.nvidia.ptx_text import finish
from tilewright.backends.nvidia.ptxas import assemble
from tilewright.backends.nvidia.targets import find
from tilewright.backends.nvidia.tools import find_ptxas
from tilewright.backends.ptxsim import DeviceMemory, Launch, Program, load
from tilewright.ir.core import Op
from tilewright.ir.pass_manager import run_passes
from tilewright.runtime.compile import ASTSource, compile
from tilewright.runtime.kernel import CompiledKernel
from tilewright.semantics.types import FP8_KINDS
from tilewright.transforms.gpu.allocate_memory import allocate_shared_memory
from tilewright.transforms.gpu.membar import membar
from tilewright.transforms.gpu.pipeline import TtgirOptions, ttgir_passes

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "enable_reflect_ftz", "debug")
NAMES = {
    "bfloat16": "bf16",
    "bool": "i1",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}


def type_of(value: Any) -> str:
    """The type string of an argument."""
    if isinstance(value, np.ndarray):
        name = value.dtype.name
        return "*" + NAMES.get(name, name.replace("uint", "u").replace("int", "i"))
    if isinstance(value, bool | float):
        return "i1" if isinstance(value, bool) else "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def compiled(kernel: Any, arguments: Sequence[Any], *, capability: int = 80, **keywords: Any) -> CompiledKernel:
    """A kernel compiled for these arguments; keywords are constants and options. Arrays start at multiples of 16."""
    options = {name: keywords.pop(name) for name in OPTIONS if name in keywords} | {"supported_fp8_dtypes": FP8_KINDS}
    names = [name for name in kernel.arg_names if name not in keywords]
    signature = {name: type_of(value) for name, value in zip(names, arguments, strict=True)}
    signature |= dict.fromkeys(keywords, "constexpr")
    round = [isinstance(value, np.ndarray) or (isinstance(value, int) and value % 16 == 0) for value in arguments]
    places = [(kernel.arg_names.index(name),) for name, is_round in zip(names, round, strict=True) if is_round]
    source = ASTSource(kernel, signature, keywords, {place: [["tt.divisibility", 16]] for place in places})
    return compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def run(
    kernel: Any, grid: tuple[int, ...], *arguments: Any, capability: int = 80, output: Any = None, **keywords: Any
) -> list[np.ndarray[Any, Any]]:
    """Compile and run a kernel; returns what its arrays hold afterwards."""
    made = compiled(kernel, arguments, capability=capability, **keywords)
    return launch(made, grid, arguments, output=output)


def launch(
    made: CompiledKernel,
    grid: tuple[int, ...],
    arguments: Sequence[Any],
    *,
    output: Any = None,
    program: Program | None = None,
) -> list[np.ndarray[Any, Any]]:
    """Run a compiled kernel, or a program in place of its PTX; returns what its arrays hold afterwards."""
    memory = DeviceMemory()
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    places = [memory.copy_in(array) for array in arrays]
    rest = iter(places)
    given = [next(rest) if isinstance(value, np.ndarray) else value for value in arguments]
    x, y, z = (*grid, 1, 1)[:3]
    cluster = made.metadata.num_ctas
    settings: dict[str, Any] = {} if output is None else {"output": output}
    Launch(
        program or load(made.asm["ptx"]),
        grid=(x * cluster, y, z),
        shared=made.metadata.shared,
        cluster=(cluster, 1, 1),
        **settings,
    ).run(memory, [*given, _scratch(memory, made, x * cluster * y * z), 0])
    return [memory.copy_out(place, array.shape, array.dtype) for place, array in zip(places, arrays, strict=True)]


def _scratch(memory: DeviceMemory, made: CompiledKernel, programs: int) -> int:
    """Memory for what programs leave there, of which nothing is known; 0 where they want none."""
    size = made.metadata.global_scratch_size * programs
    return memory.allocate(size) if size else 0


DEVICE = re.compile(r"^\.version .*\n\.target .*$", re.MULTILINE)
ANY_DEVICE = ".version 8.4\n.target sm_90a"
"""The lines of PTX about the device, which the simulator does not look at."""


def gpu_stages(module: Op, capability: int) -> None:
    """TTIR becomes TTGIR whose shared memory has its places."""
    run_passes(module, ttgir_passes(TtgirOptions(capability)))
    allocate_shared_memory(module)
    membar(module)


def run_module(module: Op, arrays: Sequence[np.ndarray[Any, Any]], *, capability: int = 80) -> None:
    """Compile TTGIR of `gpu_stages` whose arguments are pointers, run it as one program, and write what it stores.

    Devices that get the same code leave the same: it is run once.
    """
    device = find(capability)
    lowered = lower_module(module, LowerOptions(Target(capability, device.ptx)))
    ptx = finish(emit_ptx(lowered.text, device.llvm_cpu, f"+ptx{device.ptx}"), keeps_debugging=False)
    assembler = find_ptxas(capability)
    if assembler is not None:
        assemble(ptx, device.llvm_cpu, ptxas=assembler)
    given = tuple((array.tobytes(), array.shape, array.dtype) for array in arrays)
    left = _left_behind(DEVICE.sub(ANY_DEVICE, ptx, count=1), lowered.facts["shared"], given)
    for array, values in zip(arrays, left, strict=True):
        array[...] = values


@cache
def _left_behind(ptx: str, shared: int, given: tuple[tuple[bytes, Any, Any], ...]) -> list[np.ndarray[Any, Any]]:
    """The arrays of these bytes, shapes and types after one program."""
    memory = DeviceMemory()
    places = [memory.copy_in(np.frombuffer(data, dtype).reshape(shape)) for data, shape, dtype in given]
    Launch(load(ptx), shared=shared).run(memory, [*places, 0, 0])
    return [memory.copy_out(place, shape, dtype) for place, (_, shape, dtype) in zip(places, given, strict=True)]
