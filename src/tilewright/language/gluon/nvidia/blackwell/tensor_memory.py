"""Tensor memory of sm_100 in Gluon."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Attribute, Number, Opaque
from tilewright.ir.types import i32
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.buffers import shared_memory_descriptor
from tilewright.language.operations import PropagateNan
from tilewright.language.tuples import tuple
from tilewright.layouts.encodings import Linear
from tilewright.layouts.tensor_memory import WORD, Access, access_layout
from tilewright.semantics import buffers
from tilewright.semantics.active import context
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.buffers import Buffer, buffer_type, check_contents, require, tensor_buffer_type
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.distributed import checked, distributed_type
from tilewright.semantics.errors import BadBuffer
from tilewright.semantics.layout_values import linear_layout, plain
from tilewright.semantics.named_ops import emit_named
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import SemanticError

__all__ = ["allocate_tensor_memory", "tensor_memory_descriptor", "tensor_memory_descriptor_type"]
MIN_WARPS = 4
WARPS_BY_ROWS = 2
"""The number of bits of a warp's number that say which rows the warp reaches."""
SPLIT = "32x32b_splitn"


def register_layout(kind: buffer_type, warps: Any, variant: Any) -> Any:
    """The layout in which so many warps load or store a buffer.

    Args:
        warps: a power of two, four or more.
        variant: the instruction: `32x32b`, `16x64b`, `16x128b`, `16x256b`; or `32x32b_splitn`, whose threads have
            elements of both halves of the columns, half of their registers for each.
    """
    count, access = unwrap(warps), unwrap(variant)
    splits = access == SPLIT
    access = Access.ROWS_32.value if splits else access
    known = [member.value for member in Access]
    require(access in known, f"unknown instr_variant: {access}")
    power = isinstance(count, int) and count >= MIN_WARPS and count & (count - 1) == 0
    require(power, "num_warps must be a power of two and >= 4")
    require(len(kind.shape) == 2, "expected a 2D tensor")
    bits, encoding = kind.element_ty.primitive_bitwidth, kind.layout.encoding
    found: Linear | None = checked(
        lambda: access_layout(encoding, tuple(kind.shape), bits=bits, warps=count, access=Access(access))
    )
    if found is None:
        problem = f"TMEM layout '{access}' unsupported for shape {kind.shape} and num_warps {count}"
        raise SemanticError(BadBuffer(problem))
    if splits:
        found = _split_by_columns(found, kind.shape[1], bits)
    return linear_layout(found.all_bases, kind.shape)


def _split_by_columns(layout: Linear, columns: int, bits: int) -> Linear:
    """The layout whose last bit of a register's number chooses the half of the columns."""
    half = (0, columns // 2)
    register, lane, warp = (list(rows) for rows in (layout.register, layout.lane, layout.warp))
    if not register:
        require(lane[-1] == half, f"splitn with 1 register requires the last lane basis to be [0, N / 2]. Got {layout}")
        return Linear((half,), (*lane[:-1], (0, 0)), layout.warp, layout.block)
    if register[-1] == half:
        return layout
    packed = WORD // bits
    require(1 << len(register) > packed, f"splitn needs more than {packed} registers of {bits} bits")
    for rows, first in ((lane, 0), (warp, WARPS_BY_ROWS)):
        if half in rows[first:]:
            place = rows.index(half, first)
            register[-1], rows[place] = rows[place], register[-1]
            return Linear(tuple(register), tuple(lane), tuple(warp), layout.block)
    raise SemanticError(BadBuffer(f"splitn needs threads in both halves of the columns, unlike {layout}"))


class tensor_memory_descriptor_type(tensor_buffer_type):  # noqa: N801 - Triton's name
    """The type of a buffer in tensor memory."""

    __slots__ = ()

    def get_reg_layout(self, num_warps: Any = None, instr_variant: Any = "32x32b") -> Any:
        """The layout in which so many warps load or store such a buffer, by this instruction."""
        if unwrap(num_warps) is None:
            raise ValueError("num_warps could not be inferred; pass a positive power of two")
        return register_layout(self, num_warps, instr_variant)


class tensor_memory_descriptor(Buffer):  # noqa: N801 - Triton's name
    """A buffer in tensor memory, or a view of one."""

    __slots__ = ()

    def get_reg_layout(self, num_warps: Any = None, instr_variant: Any = "32x32b", _semantic: Any = None) -> Any:
        """The layout in which the program's warps (or so many) load or store it, by this instruction."""
        warps = context().warps if unwrap(num_warps) is None else num_warps
        return register_layout(self.type, warps, instr_variant)

    def load(self, layout: Any = None, _semantic: Any = None) -> Any:
        """The elements as a tile with this layout; without one, with that of `get_reg_layout`."""
        chosen = self.get_reg_layout() if unwrap(layout) is None else unwrap(layout)
        kind = distributed_type(self.dtype, self.shape, chosen)
        return Tile.concrete(emit_named("ttng.tmem_load", {"src": self}, (kind.ir,))[0], kind)

    def load_min(
        self, layout: Any = None, abs: Any = False, propagate_nan: Any = PropagateNan.NONE, _semantic: Any = None
    ) -> Any:
        """The elements, and the least of each row; sm_103 has such loads.

        Args:
            layout: as for `load`.
            abs: of the absolute values.
            propagate_nan: `PropagateNan.ALL` gives NaN where there is one.
        """
        return self._reduced("min", layout, abs, propagate_nan)

    def load_max(
        self, layout: Any = None, abs: Any = False, propagate_nan: Any = PropagateNan.NONE, _semantic: Any = None
    ) -> Any:
        """The elements, and the greatest of each row; see `load_min`."""
        return self._reduced("max", layout, abs, propagate_nan)

    def _reduced(self, operation: str, layout: Any, absolute: Any, propagate_nan: Any) -> Any:
        chosen = self.get_reg_layout() if unwrap(layout) is None else unwrap(layout)
        kind = distributed_type(self.dtype, self.shape, chosen)
        rows = kind.reduced(1)
        attributes: dict[str, Attribute] = {"redOp": Opaque(f"#ttng.redOp<{operation}>")}
        if unwrap(absolute):
            attributes["abs"] = True
        if unwrap(propagate_nan) is PropagateNan.ALL:
            attributes["NaN"] = True
        found, least = emit_named("ttng.tmem_load", {"src": self}, (kind.ir, rows.ir), attributes)
        return tuple((Tile.concrete(found, kind), Tile.concrete(least, rows)))

    def store(self, value: Any, pred: Any = True, _semantic: Any = None) -> None:
        """Put a tile of the same shape and elements there, if `pred` holds."""
        check_contents(self, value)
        emit_named("ttng.tmem_store", {"src": value, "dst": self, "pred": to_tensor(unwrap(pred))})

    def slice(self, start: Any, length: Any, dim: Any = 1, _semantic: Any = None) -> Any:
        """The part of `length` elements from `start` on along axis `dim`; all are constants."""
        first, count, axis = unwrap(start), unwrap(length), unwrap(dim)
        for name, value in (("start", first), ("length", count), ("dim", axis)):
            require(isinstance(value, int), f"{name} must be a constant int")
        require(axis in range(self.rank), "invalid slice dimension")
        shape = [count if position == axis else extent for position, extent in enumerate(self.shape)]
        kind = type(self.type)(self.dtype, shape, self.layout, self.type.alloc_shape)
        attributes: dict[str, Attribute] = {"offset": Number(first, i32), "dim": Number(axis, i32)}
        if axis == self.rank - 1:
            attributes = {"N": Number(first, i32)}
        return buffers.made("ttng.tmem_subslice", [self.handle], kind, attributes)

    index = shared_memory_descriptor.index
    reinterpret = _reinterpret = shared_memory_descriptor.reinterpret


tensor_buffer_type.held_by = tensor_memory_descriptor


def allocate_tensor_memory(element_ty: Any, shape: Any, layout: Any, value: Any = None) -> Any:
    """A buffer in tensor memory.

    Args:
        element_ty: the type of an element.
        shape: rows and columns; with a leading one, several buffers of which `index` takes one.
        layout: a `TensorMemoryLayout` or a `TensorMemoryScalesLayout`.
        value: a tile that it starts with.
    """
    extents = plain(shape)
    kind = tensor_memory_descriptor_type(unwrap(element_ty), extents, unwrap(layout), extents)
    return buffers.allocate(kind, unwrap(value))


accept_semantic(globals())
