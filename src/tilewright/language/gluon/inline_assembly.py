"""`gl.inline_asm`: one piece of PTX per thread, with all the registers that the thread holds of each tile.

@gluon.constexpr_function
def negated(outputs, inputs):
    return " ".join(f"neg.f32 {out}, {value};" for out, value in zip(outputs[0], inputs[0]))

y = gl.inline_asm(negated, ("=&f", "f"), [x], x.type, is_pure=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.attributes import Attribute
from tilewright.language.core import accept_semantic
from tilewright.layouts.conversion import to_linear_layout
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.buffers import Buffer, require, tensor_buffer_type
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.distributed import OPEN, checked, distributed_type
from tilewright.semantics.errors import WrongLayout
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import dtype
from tilewright.support.diagnostics import NotSupported, SemanticError

__all__ = ["inline_asm"]
Groups = tuple[tuple[str, ...], ...]


def inline_asm(asm: Any, constraints: Any = "", args: Any = (), result_types: Any = (), is_pure: Any = False) -> Any:
    """Run a piece of PTX once per thread.

    Args:
        asm: the text, with `$0`, `$1`, … for the registers of the results and then of the arguments; or a
            `constexpr_function` that makes it of two tuples, which hold for each result and each argument the tuple
            of its names.
        constraints: the kinds of registers, as LLVM spells them, one for each register in a string; or a sequence with
            one for each result and argument.
        args: tiles, whose registers follow in the order of their layout; scalars; buffers in shared memory, of which
            the text gets the address as a number of 32 bits. Nothing is broadcast, nothing shares a register.
        result_types: the type of the result, or a sequence of types for a tuple of results: those of tiles with a
            layout, or of scalars.
        is_pure: the text does nothing but compute its results.

    Raises:
        SemanticError: a layout is still to be found, or there is another number of constraints than of operands.
    """
    wanted = unwrap(result_types)
    several = isinstance(wanted, (tuple, list)) or not isinstance(wanted, (dtype, distributed_type))
    kinds = list(unwrap_all(wanted)) if several else [wanted]
    operands = [_operand(value) for value in unwrap_all(args)]
    outputs = [registers_of(kind) for kind in kinds]
    inputs = [registers_of(value.type) if isinstance(value, Tile) else 1 for value in operands]
    text = _text(unwrap(asm), outputs, inputs)
    attributes: dict[str, Attribute] = {
        "asm_string": text,
        "constraints": _constraints(unwrap(constraints), [*outputs, *inputs]),
        "pure": bool(unwrap(is_pure)),
    }
    handles = active().emit("ttg.inline_asm", [value.handle for value in operands], [k.ir for k in kinds], attributes)
    found = tuple(Tile.concrete(handle, kind) for handle, kind in zip(handles, kinds, strict=True))
    return found if several else found[0]


def registers_of(kind: Any) -> int:
    """How many registers of each thread a tile of this type takes, those with copies among them; 1 for a scalar.

    Raises:
        SemanticError: it is no type of a value, or its layout is not known.
    """
    if isinstance(kind, distributed_type):
        require(not isinstance(kind.layout, OPEN), "inline_asm requires explicit distributed tensor layouts")
        return checked(lambda: to_linear_layout(kind.layout.encoding, kind.shape).in_size("register"))
    require(isinstance(kind, dtype), "inline_asm requires scalar or distributed result types")
    return 1


def _operand(value: Any) -> Any:
    value = unwrap(value)
    if not isinstance(value, Buffer):
        return to_tensor(value)
    if isinstance(value.type, tensor_buffer_type):
        instead = "hand on a buffer in shared memory"
        raise SemanticError(NotSupported("tensor memory as an operand of inline_asm", instead))
    return value


def _text(asm: Any, outputs: Sequence[int], inputs: Sequence[int]) -> str:
    if callable(asm):
        names = iter(f"${number}" for number in range(sum(outputs) + sum(inputs)))
        groups: list[Groups] = [
            tuple(tuple(next(names) for _ in range(count)) for count in counts) for counts in (outputs, inputs)
        ]
        asm = unwrap(asm(*groups))
    if not isinstance(asm, str):
        problem = f"inline_asm expects a string or constexpr function returning a string, not {type(asm).__name__}"
        raise SemanticError(WrongLayout(problem))
    return asm


def _constraints(given: Any, counts: Sequence[int]) -> str:
    if isinstance(given, str):
        return given
    each = [unwrap(constraint) for constraint in given]
    require(len(each) == len(counts), "inline_asm requires one constraint per output and input group")
    return ",".join(constraint for constraint, count in zip(each, counts, strict=True) for _ in range(count))


accept_semantic(globals())
