"""Opcodes that integers and floats share: the type an instruction ends with decides which family decodes it."""

from __future__ import annotations

from tilewright.backends.ptxsim import floats, integers
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decode, Decoder, Handlers
from tilewright.support.ptx_syntax import Instruction

FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")


def _by_type(on_floats: Decode, on_integers: Decode) -> Decode:
    def decode(instruction: Instruction, code: Decoder) -> Run:
        return (on_floats if instruction.type in FLOATS else on_integers)(instruction, code)

    return decode


SHARED = floats.HANDLERS.keys() & integers.HANDLERS.keys()
HANDLERS: Handlers = {
    **floats.HANDLERS,
    **integers.HANDLERS,
    **{name: _by_type(floats.HANDLERS[name], integers.HANDLERS[name]) for name in SHARED},
}
