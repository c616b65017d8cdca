"""The rows of the table "Run": who does the same work faster, on the same arrays, in the same run.

Some peers cannot be given an array for their result: they make one in each call. Beside those we make ours in each
call, too (`Contest.making`).

Each function below returns a `Contest`; CONTESTS lists them with their bars. All results are checked before timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flash_attention import attention_kernel
from layer_norm import forward_kernel
from matmul import ACCUMULATORS, matmul_kernel
from peers import jax, numba, torch
from softmax import softmax_kernel
from vector_add import add_kernel
from works import Work, empty, error_function, jax_work, like

import tilewright as tw
import tilewright.language as tl
from kernels import exp_kernel, gelu_erf_kernel, gelu_tanh_kernel, scaled_product_kernel, sum_kernel

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Contest:
    """One problem, ready to be run by everybody.

    Attributes:
        launch: runs it into `out`, or what is like it, with so many threads.
        out: an array for the result, or several.
        peers: run it; by name.
        result: what was written to `out`, as a NumPy array.
        expected: what it should be.
        tolerance: largest difference, relative to the largest expected element.
        operations: multiplications and additions, for dots.
        peak: which instruction's peak bounds it: a key of `fma_peak.KINDS`.
        making: the peers that make their result in each call.
    """

    launch: Callable[[Any, int], Any]
    out: Any
    peers: Mapping[str, Work]
    result: Callable[[], np.ndarray]
    expected: np.ndarray
    tolerance: float = 1e-5
    operations: float = 0
    peak: str = "fp32"
    making: frozenset[str] = frozenset({"jax"})

    def anew(self, threads: int) -> None:
        """Run ours, its result being made in this call."""
        self.launch(like(self.out), threads)

    def check(self) -> None:
        """Run ours once and compare."""
        self.launch(self.out, 1)
        error = np.abs(self.result().astype(np.float64) - self.expected).max() / np.abs(self.expected).max()
        assert error <= self.tolerance, f"wrong by {error:.1e}"


class NotPossibleError(Exception):
    """A contest cannot be held here; the message says why."""


def normal(*shape: int) -> np.ndarray:
    made = empty(*shape)
    made[...] = RNG.standard_normal(shape, np.float32)
    return made


def tensors(*arrays: np.ndarray) -> list[Any]:
    return [torch.from_numpy(array) for array in arrays]


def vector_add(n: int) -> Contest:
    x, y = normal(n), normal(n)
    out, out_peer = empty(*x.shape), empty(*x.shape)
    grid = (tw.cdiv(n, 1024),)
    peers: dict[str, Work] = {"numpy": lambda: np.add(x, y, out=out_peer)}
    if torch:
        tx, ty, tout = tensors(x, y, out_peer)
        peers["torch"] = lambda: torch.add(tx, ty, out=tout)
    if numba:
        peers["numba"] = partial(numba_add(), x, y, out_peer)
    if jax:
        peers["jax"] = jax_work(lambda a, b: a + b, x, y)
    return Contest(lambda out, threads: add_kernel[grid](x, y, out, n, BLOCK=1024, num_threads=threads), out, peers,
                   lambda: out, x + y, 0.0)


def numba_add() -> Callable[..., None]:
    @numba.njit(fastmath=True)
    def add(x: Any, y: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] + y[i]

    return add


def vector_sum(n: int) -> Contest:
    x = normal(n)
    programs = tw.cdiv(n, 8192)
    sums, total, total_peer = np.empty(programs, np.float32), np.empty(1, np.float32), np.empty((), np.float32)

    def ours(out: tuple[np.ndarray, np.ndarray], threads: int) -> None:
        sums, total = out
        sum_kernel[(programs,)](x, sums, n, BLOCK=8192, num_threads=threads)
        sum_kernel[(1,)](sums, total, programs, BLOCK=2048, num_threads=1)

    peers: dict[str, Work] = {"numpy": lambda: np.sum(x, out=total_peer)}
    if torch:
        tx, ttotal = tensors(x, total_peer)
        peers["torch"] = lambda: torch.sum(tx, 0, out=ttotal)
    if jax:
        peers["jax"] = jax_work(lambda a: a.sum(), x)
    return Contest(ours, (sums, total), peers, lambda: total, x.sum(dtype=np.float64, keepdims=True), 1e-4)


def elementwise(
    kernel: Any, shape: tuple[int, ...], reference: Callable[[np.ndarray], np.ndarray], peers: Mapping[str, Any]
) -> Contest:
    """A function of each element; `peers` are functions of a torch tensor and an output, or of a JAX array."""
    x = normal(*shape)
    out, out_peer = empty(*x.shape), empty(*x.shape)
    n = x.size
    grid = (tw.cdiv(n, 1024),)
    works: dict[str, Work] = {}
    if torch and "torch" in peers:
        tx, tout = tensors(x, out_peer)
        works["torch"] = partial(peers["torch"], tx, tout)
    if jax and "jax" in peers:
        works["jax"] = jax_work(peers["jax"], x)
    if "numpy" in peers:
        works["numpy"] = partial(peers["numpy"], x, out_peer)
    return Contest(lambda out, threads: kernel[grid](x, out, n, BLOCK=1024, num_threads=threads), out, works,
                   lambda: out, reference(x.astype(np.float64)))


def exponential(*shape: int) -> Contest:
    return elementwise(exp_kernel, shape, np.exp, {
        "torch": lambda x, out: torch.exp(x, out=out),
        "jax": lambda x: jax.numpy.exp(x),
        "numpy": lambda x, out: np.exp(x, out=out),
    })


def gelu(approximate: str, *shape: int) -> Contest:
    def reference(x: np.ndarray) -> np.ndarray:
        if approximate == "tanh":
            return np.asarray(0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))))
        return np.asarray(0.5 * x * (1 + error_function(x / 2**0.5)))

    peers: dict[str, Any] = {"jax": lambda x: jax.nn.gelu(x, approximate=approximate == "tanh")}
    if torch:
        peers["torch"] = lambda x, out: torch._C._nn.gelu(x, approximate=approximate, out=out)
    return elementwise(gelu_tanh_kernel if approximate == "tanh" else gelu_erf_kernel, shape, reference, peers)


def softmax(rows: int, columns: int) -> Contest:
    x = normal(rows, columns)
    out, out_peer = empty(*x.shape), empty(*x.shape)
    peers: dict[str, Work] = {}
    if torch:
        tx, tout = tensors(x, out_peer)
        peers["torch"] = lambda: torch.softmax(tx, -1, out=tout)
    if jax:
        peers["jax"] = jax_work(lambda a: jax.nn.softmax(a, axis=-1), x)
    powers = np.exp(x.astype(np.float64))

    def ours(out: np.ndarray, threads: int) -> Any:
        return softmax_kernel[(rows,)](out, x, columns, columns, columns, BLOCK=columns, num_threads=threads)

    return Contest(ours, out, peers, lambda: out, powers / powers.sum(axis=1, keepdims=True))


def layer_norm(rows: int, columns: int) -> Contest:
    x, weight, bias = normal(rows, columns), normal(columns), normal(columns)
    out, mean, scale = empty(rows, columns), empty(rows), empty(rows)
    peers: dict[str, Work] = {}
    if torch:
        tx, tweight, tbias = tensors(x, weight, bias)
        peers["torch"] = lambda: torch.native_layer_norm(tx, [columns], tweight, tbias, 1e-5)
    if jax:
        peers["jax"] = jax_work(jax_layer_norm, x, weight, bias)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight + bias

    def ours(results: tuple[np.ndarray, ...], threads: int) -> Any:
        out, mean, scale = results
        return forward_kernel[(rows,)](
            x, out, weight, bias, mean, scale, columns, columns, columns, 1e-5, BLOCK=columns, num_threads=threads
        )

    return Contest(ours, (out, mean, scale), peers, lambda: out, expected, making=frozenset({"jax", "torch"}))


def jax_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def launch_matmul(a: Any, b: Any, c: Any, sizes: tuple[int, ...], tile: tuple[int, int, int], threads: int) -> Any:
    """The tutorial's launch; `sizes` are M, N, K and six strides."""
    m, n, *_ = sizes
    block_m, block_n, block_k = tile
    return matmul_kernel[(tw.cdiv(m, block_m) * tw.cdiv(n, block_n),)](
        a, b, c, *sizes, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8,
        ACCUMULATOR=ACCUMULATORS.get(str(a.dtype).removeprefix("torch."), tl.float32), num_threads=threads,
    )


def matmul_fp32(tile: tuple[int, int, int], shape: tuple[int, int, int] = (1024,) * 3, kind: str = "") -> Contest:
    """`kind`: "transposed" stores both operands by columns, "strided" takes every second column of larger ones."""
    m, n, k = shape
    a, b, out, out_peer = matrix(m, k, kind), matrix(k, n, kind), empty(m, n), empty(m, n)
    steps = [step // 4 for array in (a, b, out) for step in array.strides]
    peers: dict[str, Work] = {"numpy": lambda: np.matmul(a, b, out=out_peer)}
    if torch:
        ta, tb, tout = tensors(a, b, out_peer)
        peers["torch"] = lambda: torch.matmul(ta, tb, out=tout)
    if jax and not kind:
        peers["jax"] = jax_work(lambda x, y: x @ y, a, b)
    return Contest(lambda out, threads: launch_matmul(a, b, out, (m, n, k, *steps), tile, threads), out, peers,
                   lambda: out, a.astype(np.float64) @ b, operations=2.0 * m * n * k)


def matrix(rows: int, columns: int, kind: str) -> np.ndarray:
    if kind == "transposed":
        return normal(columns, rows).T
    return normal(rows, 2 * columns)[:, ::2] if kind == "strided" else normal(rows, columns)


def matmul_torch(dtype: str, tile: tuple[int, int, int], peak: str) -> Contest:
    """1024³ in a type that NumPy cannot multiply fast."""
    if not torch:
        raise NotPossibleError("torch is not installed, and NumPy has no fast product of this type")
    n = 1024
    element = getattr(torch, dtype)
    if dtype == "int8":
        a, b = (torch.from_numpy(RNG.integers(-100, 100, (n, n), np.int8)) for _ in range(2))
        out, out_peer = (torch.empty((n, n), dtype=torch.int32) for _ in range(2))
        peer: Work = partial(torch._int_mm, a, b, out=out_peer)
    else:
        a, b = (torch.from_numpy(normal(n, n)).to(element) for _ in range(2))
        out, out_peer = torch.empty_like(a), torch.empty_like(a)
        peer = partial(torch.matmul, a, b, out=out_peer)
    expected = a.double().numpy() @ b.double().numpy()
    return Contest(lambda out, threads: launch_matmul(a, b, out, (n, n, n, n, 1, n, 1, n, 1), tile, threads), out,
                   {"torch": peer}, lambda: out.double().numpy(), expected, 1e-2, 2.0 * n**3, peak)


def scaled_product() -> Contest:
    """1024³ of 8-bit floats with 4-bit ones, scaled; torch multiplies what they stand for, in bf16."""
    n = 1024
    a, b = (RNG.integers(low, high, (n, wide), np.uint8) for low, high, wide in ((40, 70, n), (0, 256, n // 2)))
    a_scale, b_scale = (RNG.integers(124, 130, (n, n // 32), np.uint8) for _ in range(2))
    out = empty(n, n)
    half = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    left = (a.astype(np.uint16) << 8).view(np.float16) * np.repeat(np.exp2(a_scale - 127.0), 32, 1)
    right = np.concatenate([half, -half])[np.stack([b & 15, b >> 4], -1).reshape(n, n)]
    right *= np.repeat(np.exp2(b_scale - 127.0), 32, 1)
    peers: dict[str, Work] = {}
    if torch:
        wide = [torch.from_numpy(factor).to(torch.bfloat16) for factor in (left, right)]
        out_peer = torch.empty_like(wide[0])
        peers["torch"] = lambda: torch.matmul(wide[0], wide[1].T, out=out_peer)

    def ours(out: np.ndarray, threads: int) -> Any:
        return scaled_product_kernel[(n // 128, n // 128)](
            a, a_scale, b, b_scale, out, n, n, BM=128, BN=128, BK=128, num_threads=threads
        )

    return Contest(ours, out, peers, lambda: out, left @ right.T, operations=2.0 * n**3, peak="bf16")


def flash(*, is_causal: bool) -> Contest:
    heads, length, features = 8, 1024, 64
    q, k, v = (normal(heads, length, features) for _ in range(3))
    out = empty(heads, length, features)
    peers: dict[str, Work] = {}
    if torch:
        q4, k4, v4 = (tensor[None] for tensor in tensors(q, k, v))
        peers["torch"] = lambda: torch.nn.functional.scaled_dot_product_attention(q4, k4, v4, is_causal=is_causal)
    if jax:
        moved = [np.ascontiguousarray(array.swapaxes(0, 1)[None]) for array in (q, k, v)]
        peers["jax"] = jax_work(partial(jax.nn.dot_product_attention, is_causal=is_causal), *moved)
    scores = q.astype(np.float64) @ k.swapaxes(1, 2) / features**0.5
    weights = np.exp(scores) * (np.tri(length) if is_causal else 1)
    steps = [length * features, features] * 4

    def ours(out: np.ndarray, threads: int) -> Any:
        return attention_kernel[(length // 64, heads)](
            q, k, v, out, features**-0.5, *steps, length, length,
            HEAD=features, BLOCK_M=64, BLOCK_N=64, CAUSAL=is_causal, num_threads=threads,
        )

    operations = 4.0 * heads * length * length * features * (0.5 if is_causal else 1)
    return Contest(ours, out, peers, lambda: out, weights / weights.sum(2, keepdims=True) @ v, operations=operations,
                   making=frozenset({"jax", "torch"}))


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: the problem.
        make: prepares it.
        bar: the ratio to reach on a host with 512-bit vectors …
        against: … over the fastest of these peers.
        narrow: both for a host, or a TILEWRIGHT_CPU, with narrower vectors.
        peak_bar: share of the multiply-add peak to reach with wide vectors.
        scales: two threads should be 1.85 times as fast as one.
    """

    name: str
    make: Callable[[], Contest]
    bar: float
    against: tuple[str, ...]
    narrow: tuple[float, tuple[str, ...]] | None = None
    peak_bar: float | None = None
    scales: bool = False


BIG, SMALL = (128, 128, 64), (64, 64, 32)
VECTOR, TORCH, NUMPY = ("numpy", "torch"), ("torch",), ("numpy",)


def fused(name: str, make: Callable[[], Contest], bar: float, against: tuple[str, ...] = TORCH) -> Row:
    """An element-wise or row-wise kernel: half the bar with narrow vectors."""
    return Row(name, make, bar, against, (bar / 2, against))


def product(name: str, make: Callable[[], Contest], bar: float, against: tuple[str, ...], **more: Any) -> Row:
    """A product of fp32 matrices: as fast as NumPy with narrow vectors."""
    return Row(name, make, bar, against, (1.0, NUMPY), **more)


CONTESTS = (
    fused("vector add 1e5", partial(vector_add, 10**5), 1.0, VECTOR),
    fused("vector add 1e7", partial(vector_add, 10**7), 1.0, VECTOR),
    fused("sum 1e7", partial(vector_sum, 10**7), 1.0, VECTOR),
    fused("exp 64×1024", partial(exponential, 64, 1024), 5.0),
    fused("exp 4M", partial(exponential, 4 << 20), 3.3),
    fused("gelu tanh 64×1024", partial(gelu, "tanh", 64, 1024), 5.5),
    fused("gelu erf 64×1024", partial(gelu, "none", 64, 1024), 1.8),
    fused("softmax 64×1024", partial(softmax, 64, 1024), 2.2),
    fused("softmax 4096×1024", partial(softmax, 4096, 1024), 1.6),
    fused("layer norm 64×1024", partial(layer_norm, 64, 1024), 2.5),
    fused("layer norm 4096×1024", partial(layer_norm, 4096, 1024), 1.5),
    product("matmul 1024³, 128×128×64", partial(matmul_fp32, BIG), 1.0, ("jax",), peak_bar=0.88, scales=True),
    product("matmul 1024³, 64×64×32", partial(matmul_fp32, SMALL), 1.5, NUMPY, scales=True),
    product("matmul 1000×1003×997", partial(matmul_fp32, SMALL, (1000, 1003, 997)), 1.3, NUMPY),
    product("matmul 1024³ transposed", partial(matmul_fp32, SMALL, kind="transposed"), 1.3, NUMPY),
    product("matmul 1024³ strided", partial(matmul_fp32, SMALL, kind="strided"), 1.3, NUMPY),
    Row("matmul bf16 1024³", partial(matmul_torch, "bfloat16", BIG, "bf16"), 1.0, TORCH, scales=True),
    Row("matmul int8 1024³", partial(matmul_torch, "int8", BIG, "int8"), 1.0, TORCH, scales=True),
    Row("matmul mxfp8 × mxfp4 1024³", scaled_product, 0.5, TORCH, scales=True),
    Row("matmul fp16 1024³", partial(matmul_torch, "float16", BIG, "fp32"), 50, TORCH),
    Row("flash attention", partial(flash, is_causal=False), 2.2, TORCH, scales=True),
    Row("flash attention, causal", partial(flash, is_causal=True), 2.2, TORCH, scales=True),
)
"""Matrices are fp32 where nothing else is said; attention is fp32, 8 heads of 1024×64, tiles of 64×64."""
