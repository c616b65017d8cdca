"""`mma.sync` of every shape and type, on random bits, against a product of the matrices that the registers hold."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_programs import kernel_text, run

from tilewright.backends.ptxsim import SimulationError, load
from tilewright.backends.ptxsim.mma import accumulator, first_operand, second_operand
from tilewright.backends.ptxsim.value_types import WIDTHS, read_elements

pytestmark = pytest.mark.quick

PLAIN = (
    "m16n8k16.row.col.f32.f16.f16.f32",
    "m16n8k16.row.col.f16.f16.f16.f16",
    "m16n8k8.row.col.f32.f16.f16.f32",
    "m16n8k16.row.col.f32.bf16.bf16.f32",
    "m16n8k8.row.col.f32.bf16.bf16.f32",
    "m16n8k4.row.col.f32.tf32.tf32.f32",
    "m16n8k8.row.col.f32.tf32.tf32.f32",
    "m16n8k16.row.col.s32.s8.u8.s32",
    "m16n8k32.row.col.satfinite.s32.u8.s8.s32",
    "m8n8k16.row.col.s32.s8.s8.s32",
    "m8n8k32.row.col.s32.s4.u4.s32",
    "m16n8k32.row.col.s32.s4.s4.s32",
    "m16n8k64.row.col.s32.u4.s4.s32",
    "m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
    "m16n8k256.row.col.s32.b1.b1.s32.and.popc",
    "m16n8k32.row.col.f32.e4m3.e5m2.f32",
    "m16n8k16.row.col.f16.e5m2.e4m3.f16",
    "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32",
    "m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e4m3.f32",
    "m8n8k4.row.col.f64.f64.f64.f64",
    "m16n8k4.row.col.f64.f64.f64.f64",
    "m16n8k8.row.col.f64.f64.f64.f64",
    "m16n8k16.row.col.f64.f64.f64.f64",
)
SCALED = (
    "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0",
    "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
    "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
)


def moves(names: list[str], pointer: int, size: int, kind: str) -> str:
    """Registers from, or to, consecutive places of each lane."""
    lines = [f"mul.wide.u32 %d60, %r0, {size * len(names)}; add.s64 %d60, %d60, %d{pointer};"]
    for number, name in enumerate(names):
        place = f"[%d60+{size * number}]"
        lines.append(f"{kind}.global.b{size * 8} " + (f"{name}, {place};" if kind == "ld" else f"{place}, {name};"))
    return "\n".join(lines)


def drawn(element: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Registers of random numbers that are neither infinite nor NaN; rows of bytes, one for each lane."""
    random = np.random.default_rng(seed)
    if element in ("f16", "f32", "tf32", "f64"):
        dtype = {"f16": np.float16, "f64": np.float64}.get(element, np.float32)
        return random.standard_normal((*shape[:-1], shape[-1] * 8 // WIDTHS[element])).astype(dtype).view(np.uint8)
    raw = random.integers(0, 256, shape).astype(np.uint8)
    if element == "bf16":
        raw[..., 1::2] = raw[..., 1::2] & 0x80 | 0x3F
    return raw & 0xBB if element in ("e4m3", "e5m2") else raw


def matrix(raw: np.ndarray, element: str, places: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """The matrix that registers hold."""
    found = np.zeros(shape, np.int64 if WIDTHS[element] < 32 and element[0] in "sub" and element != "bf16" else float)
    found[places] = read_elements(raw, element).reshape(places[0].shape)
    return found


class Trial:
    """One instruction with random registers."""

    def __init__(self, form: str) -> None:
        self.form = form
        found = re.match(r"m(\d+)n(\d+)k(\d+)", form)
        assert found
        self.m, self.n, self.k = map(int, found.groups())
        self.types = [part for part in form.split(".") if part in WIDTHS][:4]
        result, first, second, sums = self.types
        packed = "mxf4" in form
        self.first, self.second = ("e2m1x2", "e2m1x2") if packed else (first, second)
        self.size = 8 if first == "f64" else 4
        self.result_size = 8 if result == "f64" else 4
        self.words = (self.m * self.k, self.k * self.n, self.m * self.n)
        kinds = (self.first, self.second, sums)
        self.raw = [drawn(kind, (32, self.bytes(number)), number) for number, kind in enumerate(kinds)]

    def bytes(self, number: int) -> int:
        """Bytes of one operand in a lane."""
        kind = (self.first, self.second, self.types[3])[number]
        return self.words[number] * WIDTHS[kind] // 256

    def operand(self, number: int) -> tuple[list[str], int]:
        size = self.size if number < 2 else self.result_size
        letter = "%d" if size == 8 else "%r"
        count = self.bytes(number) // size
        return [f"{letter}{(10, 20, 30)[number] + index}" for index in range(count)], size

    def text(self, scales: str = "") -> str:
        body, lists = [], []
        for number in range(3):
            names, size = self.operand(number)
            body.append(moves(names, number, size, "ld"))
            lists.append("{" + ", ".join(names) + "}")
        if scales:
            body.append(moves(["%r50"], 4, 4, "ld") + moves(["%r51"], 5, 4, "ld"))
        names, size = self.operand(2)
        body.append(f"mma.sync.aligned.{self.form} {lists[2]}, {', '.join(lists)}{scales};")
        return kernel_text("\n".join([*body, moves(names, 3, size, "st")]), 6 if scales else 4)

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        first = first_operand(self.m, self.k, WIDTHS[self.first])
        second = second_operand(self.n, self.k, WIDTHS[self.second])
        a = matrix(self.raw[0], self.first, first, (self.m, self.k))
        return a, matrix(self.raw[1], self.second, second, (self.k, self.n))

    def check(self, product: np.ndarray, *more: np.ndarray, scales: str = "") -> None:
        out = np.zeros_like(self.raw[2])
        found = read_elements(run(self.text(scales), *self.raw, out, *more)[3], self.types[0])
        sums = read_elements(self.raw[2], self.types[3])
        expected = product[accumulator(self.m, self.n)] + sums
        if self.types[0] == "s32":
            expected = np.clip(expected, -(2**31), 2**31 - 1) if "satfinite" in self.form else expected
            assert (found == expected.astype(np.int32)).all()
        else:
            tolerance = {"f16": 2**-10, "f32": 2**-22, "f64": 2**-50}[self.types[0]]
            assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("form", PLAIN)
def test_products(form: str) -> None:
    trial = Trial(form)
    a, b = trial.matrices()
    if "xor" in form:
        trial.check((a[:, :, None] != b[None]).sum(1))
    else:
        trial.check(a @ b)


@pytest.mark.parametrize("form", SCALED)
def test_products_with_scales(form: str) -> None:
    """Scales of the first operand come from lanes 2 and 3 of each four, of the second from lane 3."""
    trial, element = Trial(form), form.split(".")[-1]
    count = int(re.search(r"(\d)X", form)[1])
    words = [np.random.default_rng(seed).integers(110, 130, (32, 4)).astype(np.uint8) for seed in (7, 8)]
    if element == "ue4m3":
        words = [word & 0x3F for word in words]
    byte = {1: 1, 2: 2, 4: 0}[count]
    a, b = trial.matrices()
    rows = np.array([4 * (row % 8) + 2 + row // 8 for row in range(16)])
    scale_a = read_elements(words[0][rows, byte : byte + count], element)
    scale_b = read_elements(words[1][np.arange(8) * 4 + 3, byte : byte + count], element)
    block = trial.k // count
    product = (a * np.repeat(scale_a, block, 1)) @ (b * np.repeat(scale_b, block, 1).T)
    trial.check(product, *words, scales=f", %r50, {{{byte}, 1}}, %r51, {{{byte}, 3}}")


def test_what_is_not_simulated() -> None:
    for form in (
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    ):
        with pytest.raises(SimulationError, match="unsupported"):
            load(kernel_text(f"{form} {{%r1}}, {{%r1}}, {{%r1}}, {{%r1}};")).kernel("k")


def test_a_divergent_warp_is_refused() -> None:
    trial = Trial(PLAIN[0])
    text = trial.text().replace("mma.sync", "setp.lt.u32 %p1, %r0, 16;\n@%p1 mma.sync")
    with pytest.raises(SimulationError, match="divergent warp"):
        run(text, *trial.raw, np.zeros_like(trial.raw[2]))
