"""Small PTX programs for the simulator's tests: a body becomes a kernel with pointers as parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.ptxsim import DeviceMemory, Launch, load

REGISTERS = """
.reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %d<64>;
.reg .f32 %f<8>; .reg .f64 %fd<8>;
"""


def kernel_text(body: str, parameters: int = 2, *, head: str = "", threads: int = 32) -> str:
    """A kernel whose pointer parameters stand in %d0, %d1, …, and whose thread number is in %r0."""
    declared = ", ".join(f".param .u64 k_param_{number}" for number in range(parameters))
    loads = "\n".join(f"ld.param.b64 %d{number}, [k_param_{number}];" for number in range(parameters))
    lines = [".version 8.8", ".target sm_90a", ".address_size 64", head]
    lines += [f".visible .entry k({declared})", f".reqntid {threads}", "{", REGISTERS, loads, "mov.u32 %r0, %tid.x;"]
    return "\n".join([*lines, body, "ret;", "}"])


def run(text: str, *arrays: Any, shared: int = 0, grid: int = 1, **options: Any) -> list[Any]:
    """Run a kernel over copies of arrays; returns them as they are afterwards."""
    memory = DeviceMemory()
    addresses = [memory.copy_in(array, name=f"a{number}") for number, array in enumerate(arrays)]
    Launch(load(text), grid=(grid, 1, 1), shared=shared, **options).run(memory, addresses)
    return [memory.copy_out(a, array.shape, array.dtype) for a, array in zip(addresses, arrays, strict=True)]


def compute(code: str, result: str, *inputs: Any) -> Any:
    """The results of instructions: one array of 32, 64, … elements each, in %r1/%d1/%h1 …; the result is in …9.

    Args:
        code: the instructions.
        result: dtype of the result, which stands in the register `9` of its width.
        inputs: one array per input.
    """
    count = len(inputs[0])
    body = ["mov.u32 %r63, %ctaid.x; mad.lo.s32 %r63, %r63, 32, %r0;"]
    for number, array in enumerate(inputs):
        size = array.dtype.itemsize
        body.append(f"mul.wide.u32 %d60, %r63, {size}; add.s64 %d60, %d60, %d{40 + number};")
        body.append(f"ld.global.b{8 * size} %{'_hh_r___d'[size]}{number + 1}, [%d60];")
    dtype = np.dtype(result)
    body.append(code)
    body.append(f"mul.wide.u32 %d60, %r63, {dtype.itemsize}; add.s64 %d60, %d60, %d{40 + len(inputs)};")
    body.append(f"st.global.b{8 * dtype.itemsize} [%d60], %{'_hh_r___d'[dtype.itemsize]}9;")
    moves = "".join(f"mov.b64 %d{40 + number}, %d{number};" for number in range(len(inputs) + 1))
    text = kernel_text(moves + "\n".join(body), len(inputs) + 1)
    padded = [np.resize(array, -(-count // 32) * 32) for array in inputs]
    outcome = run(text, *padded, np.zeros(len(padded[0]), dtype), grid=len(padded[0]) // 32)
    return outcome[-1][:count]
