"""Gluon, the language below `tl`, with explicit layouts, shared memory, barriers and warp groups.

    from tilewright.gluon import language as gl

    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    offsets = gl.arange(0, 512, layout=layout)

Tiles, numbers and most functions are those of `tilewright.language`.
"""

from importlib import import_module

from tilewright.language.names import members

NAMES = {
    "language.aggregates": "aggregate_replace",
    "language.assembly": "inline_asm_elementwise",
    "language.debug": (
        "assume device_assert device_print expect_zero max_constancy max_contiguous multiple_of static_assert "
        "static_print"
    ),
    "language.gluon.buffers": "allocate_shared_memory shared_memory_descriptor",
    "language.gluon.inline_assembly": "inline_asm",
    "language.gluon.program": "bank_conflicts barrier num_ctas num_warps warp_specialize",
    "language.gluon.tiles": (
        "arange broadcast convert_layout dot_fma fp4_to_fp full full_like histogram load set_auto_layout store "
        "to_linear_layout zeros zeros_like"
    ),
    "language.loops": "static_range",
    "language.math": "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi",
    "language.memory": (
        "atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_poll atomic_store "
        "atomic_xchg atomic_xor"
    ),
    "language.operations": (
        "add associative_scan cast clamp map_elementwise maximum minimum mul reduce sub to_tensor where"
    ),
    "language.shaping": "expand_dims gather join num_programs permute program_id reshape split",
    "language.standard": "cdiv cumprod cumsum max min ravel reduce_or sum xor_sum",
    "language.tensors": "tensor",
    "language.tuples": "tuple tuple_type",
    "semantics.buffers": "shared_memory_descriptor_type=buffer_type",
    "semantics.cache_policies": "CachePolicy",
    "semantics.constexpr": "constexpr",
    "semantics.distributed": "distributed_type",
    "semantics.layout_values": (
        "AutoLayout BlockedLayout CoalescedLayout DistributedLayout DistributedLinearLayout DotOperandLayout "
        "NVMMADistributedLayout SliceLayout"
    ),
    "semantics.shared_layouts": (
        "NVMMASharedLayout PaddedSharedLayout SharedLayout SharedLinearLayout SwizzledSharedLayout"
    ),
    "semantics.types": (
        "bfloat16 block_type dtype float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 float16 float32 float64 "
        "int1 int8 int16 int32 int64 pointer_type uint8 uint16 uint32 uint64 void"
    ),
}
"""The names of `gl`, and the modules that they are from."""
_found = {**members(NAMES), "nvidia": import_module("tilewright.language.gluon.nvidia")}
globals().update(_found)
__all__ = sorted(_found)
