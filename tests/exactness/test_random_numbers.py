"""Random numbers against Philox written in plain integers, and against what Triton 3.9's front end makes of a kernel.

Integers and `rand` are equal to the bit. `randn` is within 1e-6 of the exact transform of the same uniform numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ways import GPUS, WAYS, answer

import tilewright as tw
import tilewright.language as tl
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

SIZE = 64
OFFSETS = {
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
}
SEEDS = [0, 42, -1, 2**31, 2**40 + 7, -(2**35)]
MULTIPLIERS = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
INCREMENTS = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}


def philox(bits: int, counter: list[int], key: list[int], rounds: int = 10) -> list[int]:
    """Philox 4x32 or 4x64, from its definition (Salmon et al., 2011)."""
    mask, (a, b), (first, second) = (1 << bits) - 1, MULTIPLIERS[bits], INCREMENTS[bits]
    c, k = list(counter), list(key)
    for _ in range(rounds):
        high, low = divmod(b * c[2], 1 << bits), divmod(a * c[0], 1 << bits)
        c = [high[0] ^ c[1] ^ k[0], high[1], low[0] ^ c[3] ^ k[1], low[1]]
        k = [(k[0] + first) & mask, (k[1] + second) & mask]
    return c


def words(seed: int, offset: Any, rounds: int) -> list[int]:
    """The four words of 32 bits for an offset of any type: what is narrower than 64 bits has no upper word."""
    low, number = 0xFFFFFFFF, int(offset)
    high = number >> 32 & low if offset.itemsize == 8 else 0
    return philox(32, [number & low, high, 0, 0], [seed & low, seed >> 32 & low], rounds)


def uniform(bits: np.ndarray) -> np.ndarray:
    """Words as fp32 numbers in [0, 1)."""
    scale = np.float32(4.6566127342e-10 if bits.dtype.itemsize == 4 else 1.0842020432385337e-19)
    signed = bits.view(f"i{bits.dtype.itemsize}")
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * scale


def normal(u1: np.ndarray, u2: np.ndarray) -> np.ndarray:
    """Box's and Muller's transform, in double."""
    radius = np.sqrt(-2 * np.log(np.maximum(np.float32(1e-7), u1).astype(np.float64)))
    angle = (np.float32(6.283185307179586) * u2).astype(np.float64)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)])


@tw.jit
def everything(offsets, bits, floats, seed, ROUNDS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    offset = tl.load(offsets + i)
    a, b, c, d = tl.randint4x(seed, offset, ROUNDS)
    tl.store(bits + i, tl.randint(seed, offset, ROUNDS))
    tl.store(bits + N + i, a)
    tl.store(bits + 2 * N + i, b)
    tl.store(bits + 3 * N + i, c)
    tl.store(bits + 4 * N + i, d)
    tl.store(floats + i, tl.rand(seed, offset, ROUNDS))
    a, b, c, d = tl.rand4x(seed, offset, ROUNDS)
    tl.store(floats + N + i, a)
    tl.store(floats + 2 * N + i, b)
    tl.store(floats + 3 * N + i, c)
    tl.store(floats + 4 * N + i, d)
    tl.store(floats + 5 * N + i, tl.randn(seed, offset, ROUNDS))
    a, b, c, d = tl.randn4x(seed, offset, ROUNDS)
    tl.store(floats + 6 * N + i, a)
    tl.store(floats + 7 * N + i, b)
    tl.store(floats + 8 * N + i, c)
    tl.store(floats + 9 * N + i, d)


@tw.jit
def of_64_bits(counters, keys, bits, floats, N: tl.constexpr):
    i = tl.arange(0, N)
    c0, c1 = tl.load(counters + i), tl.load(counters + N + i)
    c2, c3 = tl.load(counters + 2 * N + i), tl.load(counters + 3 * N + i)
    a, b, c, d = tl.random.philox_impl(c0, c1, c2, c3, tl.load(keys + i), tl.load(keys + N + i))
    tl.store(bits + i, a)
    tl.store(bits + N + i, b)
    tl.store(bits + 2 * N + i, c)
    tl.store(bits + 3 * N + i, d)
    tl.store(floats + i, tl.random.uint_to_uniform_float(a))


def offsets_of(kind: str) -> np.ndarray:
    """Edges and other numbers of a type."""
    type = OFFSETS[kind]
    limits = np.iinfo(type)
    edges = np.array([0, 1, 2, limits.max, limits.min, limits.max - 1, 100, 7], type)
    rest = np.random.default_rng(limits.bits).integers(limits.min, limits.max, SIZE - 8, dtype=type, endpoint=True)
    return np.concatenate([edges, rest])


def expected(offsets: np.ndarray, seed: int, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, uniform and normal numbers in the order in which `everything` stores them."""
    four = np.array([words(seed, offset, rounds) for offset in offsets], np.uint32).T
    u = uniform(np.ascontiguousarray(four))
    first, second = normal(u[0], u[1]), normal(u[2], u[3])
    return np.stack([four[0], *four]), np.stack([u[0], *u]), np.stack([first[0], *first, *second])


def every_case() -> list[Any]:
    rows = [(kind, SEEDS[number % len(SEEDS)], 10) for number, kind in enumerate(OFFSETS)]
    rows += [("int32", seed, 10) for seed in SEEDS[1:]] + [("int32", 5, 6), ("int64", 5, 7), ("uint32", 3, 1)]
    quick = ("int16", SEEDS[2], 10, "native")
    every = [(*row, way) for way in WAYS for row in rows if way != "80" or row[0] == "int64"]
    return [case if case == quick else pytest.param(*case, marks=pytest.mark.slow) for case in every]


@pytest.mark.parametrize(("kind", "seed", "rounds", "way"), every_case())
def test_numbers_are_philox(kind: str, seed: int, rounds: int, way: str) -> None:
    offsets = offsets_of(kind)
    arrays = {"offsets": offsets, "bits": np.zeros((5, SIZE), np.uint32), "floats": np.zeros((10, SIZE), np.float32)}
    found = answer(way, everything, arrays, seed=seed, ROUNDS=rounds, N=SIZE)
    bits, uniforms, normals = expected(offsets, seed, rounds)
    assert (found["bits"] == bits).all()
    assert (found["floats"][:5] == uniforms).all()
    assert np.abs(found["floats"][5:] - normals).max() <= (1e-5 if way in GPUS else 1e-6)


def test_the_reference_gives_known_answers() -> None:
    """Known answers that come with the Random123 library."""
    assert philox(32, [0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(32, [2**32 - 1] * 4, [2**32 - 1] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox(64, [0] * 4, [0] * 2) == [
        *(0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ]


@pytest.mark.parametrize("way", [way if way == "native" else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
def test_philox_of_64_bits(way: str) -> None:
    random = np.random.default_rng(6)
    counters, keys = (random.integers(0, 2**64, (count, SIZE), dtype=np.uint64) for count in (4, 2))
    arrays = {"counters": counters, "keys": keys, "bits": np.zeros((4, SIZE), np.uint64)}
    found = answer(way, of_64_bits, arrays | {"floats": np.zeros(SIZE, np.float32)}, N=SIZE)
    pairs = zip(counters.T.tolist(), keys.T.tolist(), strict=True)
    bits = np.array([philox(64, counter, key) for counter, key in pairs], np.uint64).T
    assert (found["bits"] == bits).all()
    assert (found["floats"] == uniform(np.ascontiguousarray(bits[0]))).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", OFFSETS)
@pytest.mark.needs_triton_python
def test_tritons_own_front_end_gives_the_same_numbers(kind: str) -> None:
    """The TTIR that Triton makes of this very kernel computes the same, interpreted."""
    text = Path(__file__).read_text().replace("import tilewright.language as tl", "import triton.language as tl")
    short = kind.replace("uint", "u").replace("int", "i")
    signature = {"offsets": f"*{short}", "bits": "*u32", "floats": "*fp32", "seed": "i64"}
    request = {"text": text, "kernel": "everything", "signature": signature, "capability": 80}
    request["constants"] = {"ROUNDS": 10, "N": SIZE}
    script = Path(__file__).parents[1] / "oracle/tritons_ttir.py"
    command = [os.environ["TRITON_PYTHON"], str(script)]
    done = subprocess.run(command, input=json.dumps(request), text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    module = parse_module(json.loads(done.stdout.splitlines()[0])["source"])
    words_found, numbers = np.zeros((5, SIZE), np.uint32), np.zeros((10, SIZE), np.float32)
    offsets, seed = offsets_of(kind), -(2**35)
    with np.errstate(all="ignore"):
        run_ir(module, [offsets, words_found, numbers, seed], (1,))
    bits, uniforms, normals = expected(offsets, seed, 10)
    assert (words_found == bits).all()
    assert (numbers[:5] == uniforms).all()
    assert np.abs(numbers[5:] - normals).max() <= 1e-6
