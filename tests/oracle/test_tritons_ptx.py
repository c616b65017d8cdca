"""The kernels of Triton's tutorials as Triton compiles them, run in our simulator with all checks, against NumPy.

Right answers here say that the simulator understands PTX as independent code does. `TRITON_PYTHON` names an
interpreter with Triton 3.9, `TRITON_TREE` a checkout of Triton for its tutorials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated_ptx import F16, F32, I32, Descriptor, Out, compiled, floats, request, run
from test_tritons_gpu_text import version

EVERYWHERE = (80, 90, 100, 120)
STRIDES = {f"stride_{name}": I32 for name in ("am", "bk", "cm")}
SIZES = dict.fromkeys(("M", "N", "K"), I32)
ALIGNED = ["a_ptr", "b_ptr", "c_ptr", *SIZES, *STRIDES]
BLOCKS = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32}
LARGE = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64}
UNIT = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
Check = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Case:
    """A kernel, how it is compiled, and what runs it and looks at the results."""

    file: str
    kernel: str
    signature: dict[str, str]
    constants: dict[str, Any]
    check: Check
    capabilities: Sequence[int] = EVERYWHERE
    more: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    def request(self, capability: int) -> str:
        signature, constants = self.signature, self.constants
        return request(self.file, self.kernel, signature, constants, capability=capability, **self.more)


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """All within a tolerance, relative to the largest expected number."""
    difference = np.abs(found.astype(np.float64) - expected).max()
    assert difference <= tolerance * np.abs(expected).max(), difference


def check_add(answer: dict[str, Any]) -> None:
    x, y = floats((2500,)), floats((2500,), seed=1)
    *_, found = run(answer, [x, y, Out((2500,)), 2500], 3)
    assert (found == x + y).all()


def check_softmax(answer: dict[str, Any]) -> None:
    x = floats((6, 800))
    found, _ = run(answer, [Out((6, 800)), x, 800, 800, 6, 800], 2)
    raised = np.exp(x - x.max(1, keepdims=True))
    close(found, raised / raised.sum(1, keepdims=True), 1e-5)


def check_matmul(answer: dict[str, Any], ctas: int = 4, *, leaky: bool = False, dtype: Any = np.float16) -> None:
    a, b = floats((96, 160), dtype), floats((160, 112), dtype, 1)
    *_, found = run(answer, [a, b, Out((96, 112), np.float16), 96, 112, 160, 160, 112, 112], ctas)
    expected = a.astype(float) @ b.astype(float)
    close(found, np.where(expected < 0, 0.01 * expected, expected) if leaky else expected, 2e-3)


def check_leaky_matmul(answer: dict[str, Any]) -> None:
    check_matmul(answer, leaky=True)


def check_leaky_fp8(answer: dict[str, Any]) -> None:
    check_matmul(answer, leaky=True, dtype=ml_dtypes.float8_e4m3fn)


def check_leaky_tf32(answer: dict[str, Any]) -> None:
    check_matmul(answer, leaky=True, dtype=np.float32)


def check_persistent_matmul(answer: dict[str, Any]) -> None:
    check_matmul(answer, ctas=3)


def check_descriptor_matmul(answer: dict[str, Any]) -> None:
    a, b = floats((160, 288), np.float16), floats((200, 288), np.float16, 1)
    tensors = [Descriptor(a), Descriptor(b), Descriptor(Out((160, 200), np.float16))]
    *_, found = run(answer, [*tensors, 160, 200, 288], 4)
    close(found, a.astype(float) @ b.astype(float).T, 2e-3)


def check_device_descriptors(answer: dict[str, Any]) -> None:
    a, b = floats((160, 160), np.float16), floats((200, 160), np.float16, 1)
    *_, found = run(answer, [a, b, Out((160, 200), np.float16), 160, 200, 160], 2)
    close(found, a.astype(float) @ b.astype(float).T, 2e-3)


def check_dropout(answer: dict[str, Any]) -> None:
    x = np.abs(floats((2000,))) + 1
    _, found = run(answer, [x, Out((2000,)), 2000, np.float32(0.25), 123], 2)
    kept = found != 0
    assert 0.7 < kept.mean() < 0.8
    close(found[kept], x[kept] / 0.75, 1e-6)


def check_layer_norm(answer: dict[str, Any]) -> None:
    x, w, b = floats((3, 900), np.float16), floats((900,), np.float16, 1), floats((900,), np.float16, 2)
    out = [Out((3, 900), np.float16), w, b, Out((3,)), Out((3,))]
    _, found, _, _, mean, spread = run(answer, [x, *out, 900, 900, np.float32(1e-5)], 3)
    wide = x.astype(float)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    close(found, expected * w + b, 2e-3)
    close(mean, wide.mean(1), 1e-5)
    close(spread, 1 / np.sqrt(wide.var(1) + 1e-5), 1e-5)


def check_layer_norm_gradient(answer: dict[str, Any]) -> None:
    x, dy, w = floats((6, 900), np.float16), floats((6, 900), np.float16, 1, 0.1), floats((900,), np.float16, 2)
    wide, gradient = x.astype(float), dy.astype(float)
    mean, spread = wide.mean(1, keepdims=True), 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    partial = np.zeros((2, 900), np.float16)
    statistics = [mean[:, 0].astype(np.float32), spread[:, 0].astype(np.float32), np.zeros(4, np.int32)]
    arguments = [Out((6, 900), np.float16), dy, partial, partial.copy(), x, w, *statistics, 900, 900]
    dx, _, dw, db, *_ = run(answer, arguments, 6)
    normal, weighted = (wide - mean) * spread, gradient * w
    along = (normal * weighted).mean(1, keepdims=True) * normal + weighted.mean(1, keepdims=True)
    close(dx, (weighted - along) * spread, 3e-3)
    close(dw.astype(float).sum(0), (gradient * normal).sum(0), 1e-2)
    close(db.astype(float).sum(0), gradient.sum(0), 1e-2)


def check_sum_of_gradients(answer: dict[str, Any]) -> None:
    dw, db = floats((48, 200), np.float16), floats((48, 200), np.float16, 1)
    *_, final_dw, final_db = run(answer, [dw, db, Out((200,), np.float16), Out((200,), np.float16), 48, 200], 2)
    close(final_dw, dw.astype(float).sum(0), 2e-3)
    close(final_db, db.astype(float).sum(0), 2e-3)


def groups() -> tuple[list[np.ndarray], list[np.ndarray]]:
    sizes = ((128, 128, 64), (256, 128, 128))
    a = [floats((m, k), np.float16, seed) for seed, (m, _, k) in enumerate(sizes)]
    return a, [floats((k, n), np.float16, 9 + seed) for seed, (_, n, k) in enumerate(sizes)]


def check_groups(answer: dict[str, Any], *, transposed: bool = False) -> None:
    """Pointers to matrices lie in memory, so that matrices must stand at their places before the kernel starts."""
    a, b = groups()
    second = [np.ascontiguousarray(matrix.T) for matrix in b] if transposed else b
    sizes = np.array([(len(x), y.shape[1], x.shape[1]) for x, y in zip(a, b, strict=True)], np.int32)
    lds = np.array([(x.shape[1], y.shape[1], z.shape[1]) for x, y, z in zip(a, second, b, strict=True)], np.int32)
    results = [Out((len(x), y.shape[1]), np.float16) for x, y in zip(a, b, strict=True)]
    found = run(answer, [a, second, results, sizes, lds, 2], 3)[6:8]
    for matrix, x, y in zip(found, a, b, strict=True):
        close(matrix, x.astype(float) @ y.astype(float), 2e-3)


def check_transposed_groups(answer: dict[str, Any]) -> None:
    check_groups(answer, transposed=True)


HEADS, CONTEXT, DIM = 2, 256, 64
SCALE = 0.125


def attention(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v as the kernels take them; weights, logarithms of their sums to base 2, and results, causal."""
    q, k, v = (floats((HEADS * CONTEXT, DIM), np.float16, seed + number) for number in range(3))
    scores = heads(q) @ heads(k).swapaxes(1, 2) * SCALE
    scores = np.where(np.tril(np.ones((CONTEXT, CONTEXT), bool)), scores, -np.inf)
    top = scores.max(2, keepdims=True)
    sums = np.exp(scores - top).sum(2, keepdims=True)
    weights = np.exp(scores - top) / sums
    logs = (top + np.log(sums))[..., 0] / np.log(2)
    return [q, k, v], weights, logs, weights @ heads(v)


def heads(matrix: np.ndarray) -> np.ndarray:
    return matrix.astype(float).reshape(HEADS, CONTEXT, DIM)


def check_attention(answer: dict[str, Any], *, hosted: bool = False) -> None:
    tensors, _, logs, expected = attention()
    result = Out((HEADS * CONTEXT, DIM), np.float16)
    operands = [Descriptor(tensor) if hosted else tensor for tensor in (*tensors, result)]
    arguments = [np.float32(SCALE), Out((HEADS, CONTEXT)), 1, HEADS, *operands, CONTEXT]
    sums, *_, found = run(answer, arguments, (CONTEXT // 64, HEADS, 1))
    close(heads(found), expected, 3e-3)
    close(sums, logs, 1e-3)


def check_hosted_attention(answer: dict[str, Any]) -> None:
    check_attention(answer, hosted=True)


def check_attention_gradient(answer: dict[str, Any]) -> None:
    (q, k, v), weights, logs, output = attention()
    gradient = floats((HEADS * CONTEXT, DIM), np.float16, 7)
    scaled = (k.astype(float) * SCALE / np.log(2)).astype(np.float16)
    delta = (heads(gradient) * output).sum(2).astype(np.float32)
    outs = [Out((HEADS * CONTEXT, DIM), np.float16) for _ in range(3)]
    strides = [HEADS * CONTEXT * DIM, CONTEXT * DIM, DIM]
    arguments = [
        q,
        scaled,
        v,
        np.float32(SCALE),
        gradient,
        *outs,
        logs.astype(np.float32),
        delta,
        *strides,
        HEADS,
        CONTEXT,
    ]
    _, _, _, _, dq, dk, dv, *_ = run(answer, arguments, (CONTEXT // 128, 1, HEADS))
    inner = weights * (heads(gradient) @ heads(v).swapaxes(1, 2) - delta[..., None]) * SCALE
    close(heads(dv), weights.swapaxes(1, 2) @ heads(gradient), 4e-3)
    close(heads(dk), inner.swapaxes(1, 2) @ heads(q), 4e-3)
    close(heads(dq), inner @ heads(k), 4e-3)


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP4 = np.concatenate([FP4, -FP4])


@dataclass(frozen=True)
class Scaled:
    """A product with scales.

    Attributes:
        packed: has each operand two elements of fp4 in a byte? Else it is fp8.
        vector: elements that share a scale; for 16 scales are fp8, else powers of two.
        depth: of a block.
    """

    packed: tuple[bool, bool]
    vector: int
    depth: int

    def signature(self) -> dict[str, str]:
        kinds = [(rows, "u8" if packed else "fp8e4nv", self.depth // (1 + packed)) for rows, packed in self.operands()]
        a, b = (f"tensordesc<{kind}[{rows}, {bytes_}]>" for rows, kind, bytes_ in kinds)
        scale, repeats = "fp8e4nv" if self.vector == 16 else "u8", self.depth // self.vector // 4
        scales = [f"tensordesc<{scale}[1, {rows // 128}, {repeats}, 2, 256]>" for rows, _ in self.operands()]
        return {"a_desc": a, "a_scale_desc": scales[0], "b_desc": b, "b_scale_desc": scales[1], "c_desc": SCALED_RESULT}

    def constants(self) -> dict[str, Any]:
        found = {"BLOCK_K": self.depth, "VEC_SIZE": self.vector, "rep_k": self.depth // self.vector // 4}
        return SCALED_BLOCKS | found | {f"ELEM_PER_BYTE_{x}": 1 + p for x, p in zip("AB", self.packed, strict=True)}

    def operands(self) -> list[tuple[int, bool]]:
        return [(128, self.packed[0]), (256, self.packed[1])]

    def check(self, answer: dict[str, Any]) -> None:
        """Scales stand in the order in which tensor memory has them."""
        arguments, wide, k = [], [], 512
        for seed, (rows, packed) in enumerate(self.operands()):
            drawn = np.random.default_rng(seed)
            codes = drawn.integers(0, 16, (rows, k))
            tensor = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
            if not packed:
                tensor = floats((rows, k), ml_dtypes.float8_e4m3fn, seed)
            scales = drawn.integers(124, 131, (rows, k // self.vector)).astype(np.uint8)
            factors = 2.0 ** (scales.astype(float) - 127)
            if self.vector == 16:
                scales = factors.astype(ml_dtypes.float8_e4m3fn)
            order = scales.reshape(-1, 4, 32, k // self.vector // 4, 4).transpose(0, 3, 2, 1, 4)
            shuffled = np.ascontiguousarray(order).reshape(1, rows // 128, -1, 2, 256)
            arguments += [Descriptor(tensor), Descriptor(shuffled)]
            wide.append((FP4[codes] if packed else tensor.astype(float)) * np.repeat(factors, self.vector, axis=1))
        *_, found = run(answer, [*arguments, Descriptor(Out((128, 256), np.float16))], 1)
        close(found, wide[0] @ wide[1].T, 2e-3)


def check_asin(answer: dict[str, Any]) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, 700).astype(np.float32)
    _, found = run(answer, [x, Out((700,)), 700], 1)
    close(found, np.arcsin(x.astype(float)), 1e-6)


POINTERS = {"a_ptr": F16, "b_ptr": F16, "c_ptr": F16}
MATMUL = {**POINTERS, **SIZES, **STRIDES}
TENSORS = {f"{name}_desc": "tensordesc<fp16[128, 64]>" for name in "ab"} | {"c_desc": "tensordesc<fp16[128, 128]>"}
NORM = dict.fromkeys(("DX", "DY", "DW", "DB", "X", "W"), F16) | {"Mean": F32, "Rstd": F32, "Lock": "*i32"}
ATTENTION = {"sm_scale": "fp32", "M": F32, "Z": I32, "H": I32, "N_CTX": I32}
FORWARD = {"HEAD_DIM": 64, "BLOCK_M": 64, "BLOCK_N": 32, "FP8_OUTPUT": False, "STAGE": 3, "IS_HOPPER": False}
ROWS = {"desc_q": 64, "desc_k": 32, "desc_v": 32, "desc_o": 64}
HOSTED = {name: f"tensordesc<fp16[{rows}, 64]>" for name, rows in ROWS.items()}
BACKWARD = {"BLOCK_M1": 32, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 32, "BLK_SLICE_FACTOR": 2, "HEAD_DIM": 64}
GRADIENT = dict.fromkeys(("Q", "K", "V", "DO", "DQ", "DK", "DV"), F16) | {"sm_scale": "fp32", "M": F32, "D": F32}
GRADIENT |= dict.fromkeys(("stride_z", "stride_h", "stride_tok", "H", "N_CTX"), I32)
GROUPED = {**{f"group_{x}_ptrs": "*i64" for x in "abc"}, "group_gemm_sizes": "*i32", "g_lds": "*i32", "group_size": I32}
SCALED_RESULT = "tensordesc<fp16[128, 256]>"
SCALED_BLOCKS = {"M": 128, "N": 256, "K": 512, "output_type": 1, "BLOCK_M": 128, "BLOCK_N": 256, "rep_m": 1, "rep_n": 2}
SCALED_BLOCKS |= {"NUM_STAGES": 2}
SCALED = {
    "mxfp8": Scaled((False, False), 32, 128),
    "mxfp4": Scaled((True, True), 32, 256),
    "nvfp4": Scaled((True, True), 16, 256),
    "mixed": Scaled((False, True), 32, 128),
}
PERSISTENT = {"GROUP_SIZE_M": 8, "NUM_SMS": 2, "EPILOGUE_SUBTILE": False, "WARP_SPECIALIZE": False}
NO_SUBTILES = {"FP8_OUTPUT": False, "WARP_SPECIALIZE": False, "GROUP_SIZE_M": 8}
SOFTMAX = dict.fromkeys(("output_ptr", "input_ptr"), F32)
SOFTMAX |= dict.fromkeys(("input_row_stride", "output_row_stride", "n_rows", "n_cols"), I32)
LEAKY = {**BLOCKS, **UNIT, "GROUP_SIZE_M": 2, "ACTIVATION": "leaky_relu"}
TWO_CTAS = {"num_ctas": 2}

CASES = (
    Case("01-vector-add", "add_kernel", dict.fromkeys(("x_ptr", "y_ptr", "output_ptr"), F32) | {"n_elements": I32},
         {"BLOCK_SIZE": 1024}, check_add),
    Case("02-fused-softmax", "softmax_kernel", SOFTMAX, {"BLOCK_SIZE": 1024, "num_stages": 4}, check_softmax,
         (80, 100, 120)),
    Case("03-matrix-multiplication", "matmul_kernel", MATMUL, LEAKY, check_leaky_matmul,
         more={"aligned": ALIGNED}),
    Case("03-matrix-multiplication", "matmul_kernel", {**MATMUL, "a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv"}, LEAKY,
         check_leaky_fp8, more={"aligned": ALIGNED}, capabilities=(90, 100, 120), label="fp8"),
    Case("03-matrix-multiplication", "matmul_kernel", {**MATMUL, "a_ptr": F32, "b_ptr": F32}, LEAKY,
         check_leaky_tf32, more={"aligned": ALIGNED}, label="tf32"),
    Case("03-matrix-multiplication", "matmul_kernel", MATMUL, LEAKY, check_leaky_matmul, (90, 100),
         {"aligned": ALIGNED, "options": TWO_CTAS}, "clusters"),
    Case("02-fused-softmax", "softmax_kernel", SOFTMAX, {"BLOCK_SIZE": 1024, "num_stages": 4}, check_softmax, (90,),
         {"options": TWO_CTAS}, "clusters"),
    Case("09-persistent-matmul", "matmul_kernel_tma", TENSORS | SIZES, LARGE | NO_SUBTILES, check_descriptor_matmul,
         (90, 100), {"options": TWO_CTAS}, "clusters"),
    Case("04-low-memory-dropout", "_seeded_dropout", {"x_ptr": F32, "output_ptr": F32, "n_elements": I32, "p": "fp32",
         "seed": I32}, {"BLOCK_SIZE": 1024}, check_dropout, (80,)),
    Case("05-layer-norm", "_layer_norm_fwd_fused", dict.fromkeys(("X", "Y", "W", "B"), F16)
         | {"Mean": F32, "Rstd": F32, "stride": I32, "N": I32, "eps": "fp32"}, {"BLOCK_SIZE": 1024}, check_layer_norm,
         (80, 100)),
    Case("05-layer-norm", "_layer_norm_bwd_dx_fused", {**NORM, "stride": I32, "N": I32},
         {"GROUP_SIZE_M": 2, "BLOCK_SIZE_N": 1024}, check_layer_norm_gradient, (90,)),
    Case("05-layer-norm", "_layer_norm_bwd_dwdb", dict.fromkeys(("DW", "DB", "FINAL_DW", "FINAL_DB"), F16)
         | {"M": I32, "N": I32}, {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 128}, check_sum_of_gradients, (90,)),
    Case("06-fused-attention", "_attn_fwd", ATTENTION | dict.fromkeys(ROWS, F16),
         {**FORWARD, "warp_specialize": False}, check_attention),
    Case("06-fused-attention", "_attn_fwd", ATTENTION | HOSTED, {**FORWARD, "warp_specialize": False},
         check_hosted_attention, (90, 100, 120), label="hosted"),
    Case("06-fused-attention", "_attn_fwd", ATTENTION | HOSTED, {**FORWARD, "warp_specialize": True},
         check_hosted_attention, (100,), label="specialized"),
    Case("06-fused-attention", "_attn_bwd", GRADIENT, {**BACKWARD, "stride_d": 1, "CAUSAL": True},
         check_attention_gradient, (80, 90)),
    Case("07-extern-functions", "asin_kernel", {"x_ptr": F32, "y_ptr": F32, "n_elements": I32}, {"BLOCK_SIZE": 1024},
         check_asin, (80,)),
    Case("08-grouped-gemm", "grouped_matmul_kernel", GROUPED, {**LARGE, "NUM_SM": 3}, check_groups, (80, 90)),
    Case("08-grouped-gemm", "grouped_matmul_tma_kernel", GROUPED, {**LARGE, "NUM_SM": 3, "FP8": False},
         check_transposed_groups, (90, 100)),
    Case("09-persistent-matmul", "matmul_kernel_persistent", MATMUL,
         {**BLOCKS, **UNIT, "GROUP_SIZE_M": 8, "NUM_SMS": 3}, check_persistent_matmul, (80,),
         {"aligned": ALIGNED}),
    Case("09-persistent-matmul", "matmul_kernel_tma", TENSORS | SIZES, LARGE | NO_SUBTILES, check_descriptor_matmul),
    Case("09-persistent-matmul", "matmul_kernel_tma_persistent", TENSORS | SIZES | {"c_desc":
         "tensordesc<fp16[128, 64]>"}, LARGE | NO_SUBTILES | {"EPILOGUE_SUBTILE": True, "NUM_SMS": 4},
         check_descriptor_matmul, (90, 100)),
    Case("09-persistent-matmul", "matmul_kernel_descriptor_persistent", POINTERS | SIZES, LARGE | PERSISTENT
         | {"FLATTEN": False}, check_device_descriptors, (90, 100)),
    *(Case("10-block-scaled-matmul", "block_scaled_matmul_kernel", kind.signature(), kind.constants(), kind.check,
           (100, 120), label=name) for name, kind in SCALED.items()),
)
RUNS = [(case, capability) for case in CASES for capability in case.capabilities]


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "capability"), RUNS, ids=[f"{case.kernel}{case.label}-{capability}" for case, capability in RUNS]
)
def test_tutorials(case: Case, capability: int) -> None:
    if version() != "3.9":
        pytest.skip("TRITON_PYTHON is not Triton 3.9, whose arguments of launches these are")
    answers = compiled(tuple(case.request(capability) for case, capability in RUNS))
    answer = answers[RUNS.index((case, capability))]
    assert "error" not in answer, answer["error"]
    case.check(answer)
