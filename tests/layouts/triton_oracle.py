"""Run by the interpreter of an environment with Triton 3.9: answers questions about layouts, a JSON line for each.

The argument is what is asked; a list of cases comes as JSON. A layout is `[method of GluonOpBuilder, arguments…]`.

    linear     [layout, shape]                            its text and its bases
    banks      [layout, layout of the buffer, shape, bits]   bank conflicts of an access
    module     text                                       whether the verifier takes it
    shared     [text, compute capability]                 bytes of shared memory of the module
    tensor_memory  [block, stride, cga, two CTAs, shape, bits, warps, access]   rows, columns, layout of the access
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton.experimental.gluon.language as gl
from triton._C.libtriton import gluon_ir, ir, nvidia
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

BASES = ("reg_bases", "lane_bases", "warp_bases", "block_bases", "offset_bases")
context = ir.context()
ir.load_dialects(context)
nvidia.load_dialects(context)
builder = gluon_ir.GluonOpBuilder(context)


def built(layout: Any) -> Any:
    """The attribute that `layout` describes."""
    method, *arguments = layout
    return getattr(builder, method)(*(built(value) if is_layout(value) else value for value in arguments))


def is_layout(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def linear(layout: Any, shape: list[int]) -> Any:
    attribute = built(layout)
    found = builder.to_linear_layout(attribute, shape)
    bases = {name: getattr(found, name) for name in BASES if hasattr(found, name)}
    text = str(builder.get_distributed_ty(builder.get_float_ty(), shape, attribute)) if "reg_bases" in bases else ""
    return {"text": text, "bases": bases}


def banks(registers: Any, memory: Any, shape: list[int], bits: int) -> Any:
    return builder.get_shared_bank_conflicts(built(registers), built(memory), shape, bits)


def open_module() -> Any:
    """A module with a function, in which the builder stands: questions about banks ask it for the target."""
    found = builder.create_module()
    found.set_attr("ttg.target", builder.get_string_attr("cuda:90"))
    function = builder.get_or_insert_function(found, "f", builder.get_function_ty([], []), "public", False)
    found.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())
    return found


def tensor_memory(
    block: list[int], stride: int, cga: Any, two: bool, shape: list[int], bits: int, warps: int, access: str
) -> Any:
    layout = TensorMemoryLayout(block=block, col_stride=stride, cga_layout=cga, two_ctas=two)
    memory = builder.to_linear_layout(layout._to_ir(builder), shape)
    element = {8: gl.int8, 16: gl.float16, 32: gl.float32}[bits]
    found = gluon_ir.compute_tmem_reg_layout(element, shape, shape, layout, warps, access)
    linear = found and [found.reg_bases, found.lane_bases, found.warp_bases, found.block_bases]
    return [memory.rows, memory.cols, linear]


def parsed(text: str) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", delete=False) as file:
        file.write(text)
    try:
        return ir.parse_mlir_module(file.name, context)
    finally:
        Path(file.name).unlink()


def module(text: str) -> Any:
    try:
        return bool(parsed(text))
    except RuntimeError:
        return False


def shared(text: str, capability: int) -> Any:
    found = parsed(text)
    passes = ir.pass_manager(context)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(passes, capability, 86)
    passes.run(found, "shared")
    return found.get_int_attr("ttg.shared")


def main() -> None:
    ask = {"linear": linear, "banks": banks, "module": module, "shared": shared, "tensor_memory": tensor_memory}[
        sys.argv[1]
    ]
    keep = open_module()
    for case in json.load(sys.stdin):
        answer = ask(*case) if isinstance(case, list) else ask(case)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    assert keep


main()
