"""The kernels of Triton's tutorials, each as it is launched there: types of arguments and values of constants."""

from __future__ import annotations

from typing import Any

F16, F32, I32 = "*fp16", "*fp32", "i32"
SIZES = dict.fromkeys(("M", "N", "K"), I32)
STRIDES = {f"stride_{name}": I32 for name in ("am", "ak", "bk", "bn", "cm", "cn")}
POINTERS = {"a_ptr": F16, "b_ptr": F16, "c_ptr": F16}
BLOCKS = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64}
GROUPS = {"group_a_ptrs": "*i64", "group_b_ptrs": "*i64", "group_c_ptrs": "*i64", "group_gemm_sizes": "*i32"}
ATTENTION = {"sm_scale": "fp32", "M": F32, "Z": I32, "H": I32, "N_CTX": I32}
FORWARD = {"HEAD_DIM": 64, "BLOCK_M": 128, "BLOCK_N": 64, "FP8_OUTPUT": False, "STAGE": 3, "IS_HOPPER": False}
DESCRIPTORS = {"desc_q": "128", "desc_k": "64", "desc_v": "64", "desc_o": "128"}
BACKWARD = {"BLOCK_M1": 32, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 32, "BLK_SLICE_FACTOR": 2, "HEAD_DIM": 64}
TMA = {"a_desc": "128x64", "b_desc": "128x64", "c_desc": "128x128"}
SCALED = {"M": 8192, "N": 8192, "K": 8192, "output_type": 1, "ELEM_PER_BYTE_A": 1, "ELEM_PER_BYTE_B": 1, "VEC_SIZE": 32}
SCALED_BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "rep_m": 1, "rep_n": 2, "rep_k": 1, "NUM_STAGES": 4}
NO_WARPS = {"WARP_SPECIALIZE": False}


def descriptors(blocks: dict[str, str], element: str = "fp16") -> dict[str, str]:
    """Types of descriptors of these blocks."""
    return {name: f"tensordesc<{element}[{block.replace('x', ', ')}]>" for name, block in blocks.items()}


def rows(blocks: dict[str, str]) -> dict[str, str]:
    """Types of descriptors of so many rows of attention."""
    return descriptors({name: f"{rows}x64" for name, rows in blocks.items()})


KERNELS: tuple[tuple[str, str, dict[str, str], dict[str, Any]], ...] = (
    (
        "01-vector-add",
        "add_kernel",
        {"x_ptr": F32, "y_ptr": F32, "output_ptr": F32, "n_elements": I32},
        {"BLOCK_SIZE": 1024},
    ),
    (
        "02-fused-softmax",
        "softmax_kernel",
        {
            **dict.fromkeys(("output_ptr", "input_ptr"), F32),
            **dict.fromkeys(("input_row_stride", "output_row_stride", "n_rows", "n_cols"), I32),
        },
        {"BLOCK_SIZE": 1024, "num_stages": 4},
    ),
    (
        "03-matrix-multiplication",
        "matmul_kernel",
        {**POINTERS, **SIZES, **STRIDES},
        {**BLOCKS, "GROUP_SIZE_M": 8, "ACTIVATION": "leaky_relu"},
    ),
    (
        "04-low-memory-dropout",
        "_dropout",
        {"x_ptr": F32, "x_keep_ptr": "*i32", "output_ptr": F32, "n_elements": I32, "p": "fp32"},
        {"BLOCK_SIZE": 1024},
    ),
    (
        "04-low-memory-dropout",
        "_seeded_dropout",
        {"x_ptr": F32, "output_ptr": F32, "n_elements": I32, "p": "fp32", "seed": I32},
        {"BLOCK_SIZE": 1024},
    ),
    (
        "05-layer-norm",
        "_layer_norm_fwd_fused",
        {
            **dict.fromkeys(("X", "Y", "W", "B"), F16),
            "Mean": F32,
            "Rstd": F32,
            "stride": I32,
            "N": I32,
            "eps": "fp32",
        },
        {"BLOCK_SIZE": 1024},
    ),
    (
        "05-layer-norm",
        "_layer_norm_bwd_dx_fused",
        {
            **dict.fromkeys(("DX", "DY", "DW", "DB", "X", "W"), F16),
            "Mean": F32,
            "Rstd": F32,
            "Lock": "*i32",
            "stride": I32,
            "N": I32,
        },
        {"GROUP_SIZE_M": 64, "BLOCK_SIZE_N": 1024},
    ),
    (
        "05-layer-norm",
        "_layer_norm_bwd_dwdb",
        {**dict.fromkeys(("DW", "DB", "FINAL_DW", "FINAL_DB"), F16), "M": I32, "N": I32},
        {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 128},
    ),
    (
        "06-fused-attention",
        "_attn_fwd",
        {**ATTENTION, **dict.fromkeys(DESCRIPTORS, F16)},
        {**FORWARD, "warp_specialize": False},
    ),
    ("06-fused-attention", "_attn_fwd", {**ATTENTION, **rows(DESCRIPTORS)}, {**FORWARD, "warp_specialize": False}),
    ("06-fused-attention", "_attn_fwd", {**ATTENTION, **rows(DESCRIPTORS)}, {**FORWARD, "warp_specialize": True}),
    (
        "06-fused-attention",
        "_attn_bwd_preprocess",
        {"O": F16, "DO": F16, "Delta": F32, "Z": I32, "H": I32, "N_CTX": I32},
        {"BLOCK_M": 128, "HEAD_DIM": 64},
    ),
    (
        "06-fused-attention",
        "_attn_bwd",
        {
            **dict.fromkeys(("Q", "K", "V", "DO", "DQ", "DK", "DV"), F16),
            "sm_scale": "fp32",
            "M": F32,
            "D": F32,
            **dict.fromkeys(("stride_z", "stride_h", "stride_tok", "stride_d", "H", "N_CTX"), I32),
        },
        BACKWARD,
    ),
    ("07-extern-functions", "asin_kernel", {"x_ptr": F32, "y_ptr": F32, "n_elements": I32}, {"BLOCK_SIZE": 1024}),
    (
        "08-grouped-gemm",
        "grouped_matmul_kernel",
        {**GROUPS, "g_lds": "*i32", "group_size": I32},
        {**BLOCKS, "NUM_SM": 84},
    ),
    (
        "08-grouped-gemm",
        "grouped_matmul_tma_kernel",
        {**GROUPS, "g_lds": "*i32", "group_size": I32},
        {**BLOCKS, "NUM_SM": 84, "FP8": False},
    ),
    ("09-persistent-matmul", "matmul_kernel", {**POINTERS, **SIZES, **STRIDES}, {**BLOCKS, "GROUP_SIZE_M": 8}),
    (
        "09-persistent-matmul",
        "matmul_kernel_tma",
        {**descriptors(TMA), **SIZES},
        {**BLOCKS, "GROUP_SIZE_M": 8, "FP8_OUTPUT": False, **NO_WARPS},
    ),
    (
        "09-persistent-matmul",
        "matmul_kernel_persistent",
        {**POINTERS, **SIZES, **STRIDES},
        {**BLOCKS, "GROUP_SIZE_M": 8, "NUM_SMS": 132},
    ),
    (
        "09-persistent-matmul",
        "matmul_kernel_tma_persistent",
        {**descriptors({**TMA, "c_desc": "128x64"}), **SIZES},
        {**BLOCKS, "GROUP_SIZE_M": 8, "FP8_OUTPUT": False, "EPILOGUE_SUBTILE": True, "NUM_SMS": 132, **NO_WARPS},
    ),
    (
        "09-persistent-matmul",
        "matmul_kernel_descriptor_persistent",
        {**POINTERS, **SIZES},
        {**BLOCKS, "GROUP_SIZE_M": 8, "EPILOGUE_SUBTILE": True, "NUM_SMS": 132, **NO_WARPS, "FLATTEN": False},
    ),
    (
        "10-block-scaled-matmul",
        "block_scaled_matmul_kernel",
        {
            **descriptors({"a_desc": "128x128", "b_desc": "256x128"}, "fp8e4nv"),
            **descriptors({"a_scale_desc": "1x1x1x2x256", "b_scale_desc": "1x2x1x2x256"}, "u8"),
            **descriptors({"c_desc": "128x256"}),
        },
        {**SCALED, **SCALED_BLOCKS},
    ),
    (
        "11-programmatic-dependent-launch",
        "add_kernel",
        {"x_ptr": F32, "y_ptr": F32, "output_ptr": F32, "n_elements": I32},
        {"BLOCK_SIZE": 1024, "USE_GDC": True},
    ),
)
"""File, kernel, types by parameter, constants by parameter."""
