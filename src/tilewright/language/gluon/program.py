"""Whole programs: the numbers of warps and CTAs, and barriers."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Keyword
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.specialized_warps import specialized
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.memory_access import bank_conflicts as conflicts
from tilewright.semantics.active import active, context
from tilewright.semantics.buffers import buffer_type, require
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.distributed import checked, distributed_type
from tilewright.semantics.layout_values import plain


def num_warps() -> Any:
    """The number of warps that execute this code; in a worker of `warp_specialize`, of those that it has."""
    return context().warps


def num_ctas() -> Any:
    """The number of CTAs of a program."""
    return context().ctas


def barrier(*, cluster: Any = False) -> None:
    """A barrier of all threads of the CTA; with `cluster`, of all threads of the program's CTAs."""
    if unwrap(cluster) and context().ctas > 1:
        active().emit("ttng.cluster_barrier", (), (), {"relaxed": False})
    else:
        active().emit("ttg.barrier", (), (), {"addrSpace": (Keyword("all"),)})


def warp_specialize(functions_and_args: Any, worker_num_warps: Any, worker_num_regs: Any = None) -> Any:
    """Different code for different warps.

    Args:
        functions_and_args: pairs of a kernel function and a tuple of arguments. The first one is executed by the warps
            that come here; its result is that of the call.
        worker_num_warps: how many further warps execute each of the others.
        worker_num_regs: how many registers each of these threads needs; None leaves it to the compiler.
    """
    workers = unwrap(functions_and_args)
    return specialized([tuple(map(unwrap, pair)) for pair in workers], plain(worker_num_warps), plain(worker_num_regs))


def bank_conflicts(distr_ty: Any, shared_ty: Any) -> int:
    """How many more accesses than necessary an instruction makes between a tile and a buffer, per warp.

    Args:
        distr_ty: the type of the tile.
        shared_ty: the type of the buffer.
    """
    tile, memory = unwrap(distr_ty), unwrap(shared_ty)
    require(
        isinstance(tile, distributed_type),
        f"bank_conflicts expects the register layout to be a distributed_type, got {type(tile)}",
    )
    require(
        isinstance(memory, buffer_type),
        f"bank_conflicts expects the shared layout to be a shared_memory_descriptor_type, got {type(memory)}",
    )
    shapes = list(tile.shape), memory.shape
    require(shapes[0] == shapes[1], f"register shape {shapes[0]} and shared shape {shapes[1]} must match")
    kinds = f"register ({tile.element_ty}) and shared ({memory.element_ty})"
    require(tile.element_ty is memory.element_ty, f"mismatched dtypes between {kinds} layouts")
    whole = memory.alloc_shape[-len(memory.shape) :] == memory.shape
    problem = f"Got shape {memory.shape} and alloc_shape {memory.alloc_shape}"
    require(whole, f"bank_conflicts NYI for subslices. {problem}")
    layouts = tile.layout.encoding, memory.layout.encoding
    registers, places = checked(lambda: [to_linear_layout(layout, tile.shape) for layout in layouts])
    return conflicts(registers, places, tile.element_ty.primitive_bitwidth)


accept_semantic(globals())
