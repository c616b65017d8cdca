"""The `cpu` dialect: tiles in scratch buffers, fused loop nests, register-blocked dot.

    %b = "cpu.alloc"() : () -> !tt.ptr<tensor<64x64xf32>, 5>        a tile in the thread's scratch arena
    "cpu.write"(%tile, %b)                                          fills it, element by element
    %t = "cpu.read"(%b)                                             its elements, where an op asks for them
    %s = "cpu.nest"() <{mode = rows, outer = array<i64: 64>}> ({    one loop nest for all ops inside
      …tile ops…                                                    outer loops over 64 rows, inner loops over columns
      "cpu.yield"(%sum)
    })
    "cpu.dot"(%a, %b, %c)                                           c += a · b, all three in scratch
    "cpu.store"(%p, %tile, %b)                                      a store that may have to go through a buffer
    "cpu.print"(%b) <{text = " x: ", format = "%d", …}>             prints the tile in a buffer
    "cpu.assert"(%holds, %first) <{message = "…", …}>               fails, at element number %first of a tile

A buffer is a pointer to a tile in address space 5. Ops inside a nest keep their meaning on whole tiles, so a nest
computes what its ops would compute one after the other; the lowering may only interleave them.
"""

from __future__ import annotations

from tilewright.ir.declare import Effect, declare
from tilewright.ir.types import PointerType, TensorType, Type

SCRATCH = 5
"""The address space of buffers."""

declare("cpu.alloc")
declare("cpu.read", effect=Effect.READ)
declare("cpu.write", effect=Effect.WRITE)
declare("cpu.nest", regions=1, effect=Effect.RECURSIVE)
declare("cpu.yield", terminator=True)
declare("cpu.dot", effect=Effect.READ_WRITE)
declare("cpu.store", effect=Effect.WRITE)
declare("cpu.print", effect=Effect.READ_WRITE)
declare("cpu.assert", effect=Effect.WRITE)


def buffer_type(tile: TensorType) -> PointerType:
    """The type of a buffer that holds `tile`."""
    return PointerType(TensorType(tile.shape, tile.element), SCRATCH)


def tile_of(buffer: Type) -> TensorType:
    """The tile that a buffer of this type holds."""
    assert isinstance(buffer, PointerType), f"{buffer} is no buffer"
    assert isinstance(buffer.pointee, TensorType), f"{buffer} is no buffer"
    return buffer.pointee
