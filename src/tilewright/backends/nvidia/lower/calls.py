"""Functions: kernels, device functions, and calls.

    tt.call @scaled(%x) : (tensor<128xf32, #blocked>) -> f32

    %r = call float @scaled(ptr addrspace(3) %shared, ptr addrspace(1) %scratch, …, float %x0)

A called function gets the address of its shared memory, which is a part of its caller's, and the two scratch pointers
that kernels get. Tiles are passed register by register.

`ttg.global_scratch_alloc` is a program's own part of the scratch memory of a launch: its address is the scratch
parameter + program number * bytes per program + offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.control import write_blocks
from tilewright.backends.nvidia.lower.lowerer import (
    GLOBAL_POINTER,
    SHARED_POINTER,
    Lowerer,
    Lowering,
    struct,
)
from tilewright.backends.nvidia.lower.register_reallocation import specializations
from tilewright.backends.nvidia.lower.warp_groups import WarpGroups, warps_of_block
from tilewright.dialects.tt_function import Call, Return
from tilewright.dialects.ttg_attributes import OFFSET
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorDescType, TensorType, Type
from tilewright.transforms.gpu.allocate_memory import SCRATCH_OFFSET, SCRATCH_SIZE

SCRATCH: tuple[Typed, ...] = ((GLOBAL_POINTER, "%global_scratch"), (GLOBAL_POINTER, "%profile_scratch"))
"""The parameters that every function has."""
EXIT = "exit"
"""The block in which functions without results end."""
DESCRIPTOR = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
"""A tensor map among the parameters of a kernel."""


def write_function(lowerer: Lowerer, kernel_attributes: str, registers: int) -> None:
    """Write the function that `lowerer` is for."""
    w, function = lowerer.w, lowerer.function
    name = lowerer.module.functions[function.symbol]
    bound = [(value, _parameters(lowerer, value)) for value in function.body.args]
    own = [parameter for _, parameters in bound for parameter in parameters]
    parameters: Sequence[Typed]
    if lowerer.is_kernel:
        parameters, result = [*own, *SCRATCH], "void"
    else:
        parameters = [(SHARED_POINTER, "%shared"), *SCRATCH, *own]
        result = struct(_types(lowerer, function.type.outputs))
        lowerer.shared_base = "%shared"
    with w.function(name, parameters, result=result, internal=not lowerer.is_kernel):
        if lowerer.is_kernel:
            w.make_kernel(kernel_attributes)
        w.describe(function, name)
        for value, arguments in bound:
            lowerer.bind(value, [argument for _, argument in arguments])
        if lowerer.is_kernel and specializations([function]):
            target = lowerer.target
            warps = warps_of_block([function], target.num_warps, target.capability)
            lowerer.groups = WarpGroups(lowerer, warps, registers)
        write_blocks(lowerer, function.region)
        if lowerer.groups is not None:
            lowerer.groups.finish()
        if result == "void":
            w.start_block(EXIT)
            for write in reversed(lowerer.at_exit):
                write()


def _parameters(lowerer: Lowerer, value: Value) -> list[Typed]:
    """The parameters that an argument of a function becomes."""
    prefix = f"%arg{value.index}"
    if isinstance(value.type, TensorDescType) and lowerer.is_kernel:
        return [(DESCRIPTOR, prefix)]
    types = _types(lowerer, [value.type])
    return [(type, f"{prefix}_{number}" if len(types) > 1 else prefix) for number, type in enumerate(types)]


def _types(lowerer: Lowerer, types: Sequence[Type]) -> list[str]:
    """The LLVM types of values that are passed."""
    found: list[str] = []
    for type in types:
        count = lowerer.layout(type).in_size("register") if isinstance(type, TensorType) else 1
        found += [lowerer.element(type)] * count
    return found


def _call(lowerer: Lowerer, op: Call) -> None:
    w, name = lowerer.w, lowerer.module.functions[op.callee]
    shared = lowerer.scratch(op) if OFFSET in op.attributes else lowerer.shared(0)
    given = [part for value in op.arguments for part in lowerer.parts(value)]
    scratch = [(GLOBAL_POINTER, scratch_of(lowerer, op)), *SCRATCH[1:]]
    arguments = [(SHARED_POINTER, shared), *scratch, *given]
    types = _types(lowerer, [result.type for result in op.results])
    text = f"call {struct(types)} @{name}({', '.join(f'{type} {value}' for type, value in arguments)})"
    if not types:
        w.do(text)
        return
    parts = iter(lowerer.extract(struct(types), w.emit(text), len(types)))
    for result in op.results:
        lowerer.bind(result, [next(parts) for _ in _types(lowerer, [result.type])])


def _return(lowerer: Lowerer, op: Return) -> None:
    parts = [part for value in op.values for part in lowerer.parts(value)]
    if not parts:
        lowerer.w.do(f"br label %{EXIT}")
        return
    type, whole = struct([type for type, _ in parts]), "poison"
    if len(parts) == 1:
        whole = parts[0][1]
    else:
        for number, (element, value) in enumerate(parts):
            whole = lowerer.w.emit(f"insertvalue {type} {whole}, {element} {value}, {number}")
    lowerer.w.do(f"ret {type} {whole}")


PARAMETER = "%global_scratch"


def scratch_of(lowerer: Lowerer, op: Op) -> str:
    """The address of the scratch memory of `op`, an allocation or a call."""
    offset = op.attributes.get(SCRATCH_OFFSET)
    start = _start(lowerer)
    if not isinstance(offset, Number) or not offset.value:
        return start
    return lowerer.w.emit(f"getelementptr inbounds i8, {GLOBAL_POINTER} {start}, i64 {offset.value}")


def _start(lowerer: Lowerer) -> str:
    """The address of the scratch memory of this function: a function that is called is given its part."""
    size = lowerer.function.attributes.get(SCRATCH_SIZE)
    if not lowerer.is_kernel or not isinstance(size, Number) or not size.value:
        return PARAMETER
    return lowerer.once("global scratch", lambda: _of_program(lowerer, int(size.value)))


def _of_program(lowerer: Lowerer, size: int) -> str:
    w, number = lowerer.w, lowerer.special("ctaid.z")
    for axis in "yx":
        product = w.emit(f"mul i32 {number}, {lowerer.special(f'nctaid.{axis}')}")
        number = w.emit(f"add i32 {product}, {lowerer.special(f'ctaid.{axis}')}")
    distance = w.emit(f"mul i64 {w.emit(f'zext i32 {number} to i64')}, {size}")
    return w.emit(f"getelementptr inbounds i8, {GLOBAL_POINTER} {PARAMETER}, i64 {distance}")


LOWERINGS: dict[str, Lowering] = {
    "tt.call": _call,
    "tt.return": _return,
    "ttg.global_scratch_alloc": lambda lowerer, op: lowerer.bind(op.result, [scratch_of(lowerer, op)]),
}
