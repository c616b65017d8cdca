"""Program ids, and output of programs: prints and assertions, by `vprintf` and `__assertfail`.

    tt.print " x: " : %x : tensor<64xi32>      pid (0, 0, 0) idx ( 0) x: 7          one line per element, in any order
    tt.assert %c, "in range"                   the launch fails, with the message and the source location

An element that several threads hold is printed by one of them. The lines have the format of the CPU's, see
`support/kernel_output.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import WORD, same_as
from tilewright.backends.nvidia.lower.cross_lane import shuffled_word
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.backends.nvidia.lower.mathematics import widened
from tilewright.backends.nvidia.lower.memory import only_once
from tilewright.backends.nvidia.lower.register_packing import as_integer
from tilewright.dialects.tt_program import Assert, Print, ProgramId
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op, Value
from tilewright.ir.types import FloatType, PointerType, TensorType, f64, i1
from tilewright.support.kernel_output import operand_text

DEPENDENT_LAUNCHES_SINCE = 90
"""The first capability on which a kernel may begin before the one before it has ended."""


def program_id(lowerer: Lowerer, axis: str) -> str:
    """The place of this program in the grid along `axis`; the blocks of a cluster are one program."""
    return lowerer.special(f"{'ctaid' if lowerer.target.num_ctas == 1 else 'clusterid'}.{axis}")


def _num_programs(lowerer: Lowerer, op: ProgramId) -> None:
    kind = "nctaid" if lowerer.target.num_ctas == 1 else "nclusterid"
    lowerer.bind(op.result, [lowerer.special(f"{kind}.{op.axis}")])


def _warp_id(lowerer: Lowerer, op: Op) -> None:
    """The number of the warp: a shuffle from lane 0 makes LLVM see that it is the same in all lanes."""
    lowerer.bind(op.result, [shuffled_word(lowerer, "idx", lowerer.warp(), 0)])


def _dependency(instruction: str) -> Lowering:
    """Lowering of a signal to the kernel before or behind this one in its stream; older devices run them one by one."""

    def lower(lowerer: Lowerer, op: Op) -> None:
        if lowerer.target.capability >= DEPENDENT_LAUNCHES_SINCE:
            lowerer.w.call_void(f"llvm.nvvm.griddepcontrol.{instruction}", [])

    return lower


AXES = "xyz"
PROGRAM = "pid (%u, %u, %u)"


def _print(lowerer: Lowerer, op: Print) -> None:
    prefix, values = op.prefix, op.values
    if not values:
        with lowerer.where(only_once(lowerer, i1)):
            _printf(lowerer, PROGRAM + _plain(prefix) + "\n", _program(lowerer))
        return
    flags = op.signs or (1,) * len(values)
    for number, (value, is_signed) in enumerate(zip(values, flags, strict=True)):
        text = _plain(operand_text(prefix, number, len(values)))
        _print_value(lowerer, value, text, is_signed=bool(is_signed), as_hex=op.hex)


def _plain(text: str) -> str:
    """The text as part of a format."""
    return text.replace("%", "%%")


def _print_value(lowerer: Lowerer, value: Value, text: str, *, is_signed: bool, as_hex: bool) -> None:
    shape = value.type.shape or ()
    index = ", ".join(f"%{len(str(extent - 1))}u" for extent in shape)
    registers = lowerer.registers(value)
    if isinstance(value.type, TensorType):
        layout = lowerer.layout(value)
        places, same = lowerer.coordinates(layout), same_as(layout)
    else:
        places, same = [[]], [0]
    form = PROGRAM + f" idx ({index}){text}{_format(value, is_signed=is_signed, as_hex=as_hex)}\n"
    with lowerer.where(only_once(lowerer, value.type)):
        for number in dict.fromkeys(same):
            shown = _passed(lowerer, value, registers[number], is_signed=is_signed, as_hex=as_hex)
            places_here = [("i32", place) for place in places[number]]
            _printf(lowerer, form, [*_program(lowerer), *places_here, shown])


def _program(lowerer: Lowerer) -> list[Typed]:
    return [("i32", program_id(lowerer, axis)) for axis in AXES]


def _format(value: Value, *, is_signed: bool, as_hex: bool) -> str:
    """The conversion by which `printf` shows an element; as `print_format` says for Python."""
    scalar = value.type.scalar
    if isinstance(scalar, PointerType):
        return "%p"
    long = "ll" if scalar.bits > WORD else ""
    if as_hex:
        return f"0x%{'' if scalar is i1 else f'0{scalar.bits // 4}'}{long}x"
    if isinstance(scalar, FloatType):
        return "%f"
    return f"%{long}{'i' if is_signed and scalar is not i1 else 'u'}"


def _passed(lowerer: Lowerer, value: Value, register: str, *, is_signed: bool, as_hex: bool) -> Typed:
    """An element as a function with any number of arguments takes it: of at least 32 bits, floats as double."""
    w, scalar, element = lowerer.w, value.type.scalar, lowerer.element(value.type)
    if isinstance(scalar, FloatType) and not as_hex:
        if scalar is f64:
            return "double", register
        return "double", w.emit(f"fpext float {widened(lowerer, register, scalar)} to double")
    bits = as_integer(w, element, register)
    width = scalar.bits
    if width >= WORD:
        return f"i{width}", bits
    extension = "sext" if is_signed and not as_hex and scalar is not i1 else "zext"
    return "i32", w.emit(f"{extension} i{width} {bits} to i32")


def _printf(lowerer: Lowerer, form: str, values: Sequence[Typed]) -> None:
    w = lowerer.w
    fields = f"{{ {', '.join(type for type, _ in values)} }}"
    record = lowerer.once(("printed", fields), lambda: w.emit(f"alloca {fields}"))
    for number, (type, value) in enumerate(values):
        field = w.emit(f"getelementptr inbounds {fields}, ptr {record}, i32 0, i32 {number}")
        w.do(f"store {type} {value}, ptr {field}")
    w.call("i32", "vprintf", [("ptr", string(lowerer, form)), ("ptr", record)])


def string(lowerer: Lowerer, text: str) -> str:
    """The address of a text that ends with a zero byte; equal texts are one."""
    strings = lowerer.module.strings
    if text not in strings:
        data = text.encode() + b"\0"
        shown = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in data)
        strings[text] = lowerer.w.define(f"text{len(strings)}", f'internal constant [{len(data)} x i8] c"{shown}"')
    return strings[text]


def _assert(lowerer: Lowerer, op: Assert) -> None:
    w = lowerer.w
    holds = ""
    for register in dict.fromkeys(lowerer.registers(op.condition)):
        holds = w.emit(f"and i1 {holds}, {register}") if holds else register
    span = span_of(op.location)
    texts = op.message, span.file or "unknown", lowerer.function.symbol
    message, file, function = (("ptr", string(lowerer, text)) for text in texts)
    arguments = [message, file, ("i32", str(span.line)), function, ("i64", "1")]
    with w.branch(w.emit(f"xor i1 {holds}, true")) as branch, branch.then():
        w.call_void("__assertfail", arguments)
    if isinstance(op.condition.type, TensorType):
        lowerer.barrier()  # nobody goes on to what the assertion forbids before all have looked


LOWERINGS: dict[str, Lowering] = {
    "llvm.intr.assume": lambda lowerer, op: lowerer.w.call_void("llvm.assume", [("i1", lowerer.scalar(op.condition))]),
    "tt.get_num_programs": _num_programs,
    "tt.get_program_id": lambda lowerer, op: lowerer.bind(op.result, [program_id(lowerer, op.axis)]),
    "tt.grid_dependency_launch_dependents": _dependency("launch.dependents"),
    "tt.grid_dependency_wait": _dependency("wait"),
    "ttg.warp_id": _warp_id,
    "tti.experimental_cluster_cta_id": lambda lowerer, op: lowerer.bind(op.result, [lowerer.block_in_cluster()]),
    "tt.assert": _assert,
    "tt.print": _print,
}
