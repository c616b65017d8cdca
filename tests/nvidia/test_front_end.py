"""The GPU as kernels compiled for it see it: descriptors by which it moves blocks, and answers about it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

import tilewright
import tilewright.language as tl
from tilewright.backends.base import GPUTarget
from tilewright.backends.registry import make_backend
from tilewright.ir.printer import print_op
from tilewright.runtime.compile import ASTSource, compile
from tilewright.support.diagnostics import CompilationError

pytestmark = pytest.mark.quick


@tilewright.jit
def copy_block(x, y, n, stride: tl.constexpr, WIDTH: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, n], [n, stride], [8, WIDTH], PADDING)
    target = tl.make_tensor_descriptor(y, [n, n], [n, stride], [8, WIDTH])
    for i in range(4):
        target.store([i * 8, 0], source.load([i * 8, WIDTH]))


@tilewright.jit
def ask(out):
    tl.store(out, 1 if tl.target_info.is_cuda() else 2)
    tl.store(out + 1, 3 if tl.target_info.cuda_capability_geq(9, 0) else 4)
    tl.store(out + 2, 5 if tl.target_info.is_cpu() else 6)


@tilewright.jit
def multiply(DTYPE: tl.constexpr, K: tl.constexpr):
    tile = tl.full((16, K), 0, DTYPE)
    tl.dot(tile, tl.full((K, 16), 0, DTYPE))


@tilewright.jit
def only_load(x):
    tl.load(x)


@tilewright.jit
def unused():
    tl.full((16,), 0, tl.float8e4nv)


def ttir(kernel: Any, signature: dict[str, str], constants: dict[str, Any], target: GPUTarget, **given: Any) -> str:
    options = make_backend(target).parse_options(given)
    return print_op(ASTSource(kernel, signature, constants).make_ir(target, options))


def descriptors(arch: int = 90, element: str = "fp16", stride: int = 1, width: int = 32, padding: str = "zero") -> str:
    constants = {"stride": stride, "WIDTH": width, "PADDING": padding}
    signature = {"x": f"*{element}", "y": f"*{element}", "n": "i32"}
    return ttir(copy_block, signature, constants, GPUTarget("cuda", arch, 32))


def test_engine_moves_blocks() -> None:
    text = descriptors(padding="nan")
    assert text.count("tt.make_tensor_descriptor") == 2
    assert text.count("padding = ") == 1
    assert "tt.descriptor_load" in text
    assert "tt.descriptor_store" in text
    assert "tt.make_tensor_ptr" not in text


def test_unsigned_elements_keep_their_sign() -> None:
    assert "!tt.tensordesc<8x32xui32>" in descriptors(element="u32").replace("tensor<8x32xui32>", "8x32xui32")


def test_blocks_that_no_engine_moves() -> None:
    text = descriptors(arch=80)
    assert "tt.make_tensor_descriptor" not in text
    assert "tt.make_tensor_ptr" in text


def test_a_last_axis_with_holes() -> None:
    with pytest.raises(CompilationError, match="the last axis is contiguous"):
        descriptors(stride=2)


def test_integers_have_no_nan() -> None:
    with pytest.raises(CompilationError, match="has no NaN"):
        descriptors(element="i32", padding="nan")


@pytest.mark.parametrize(
    ("target", "answers"),
    [
        (GPUTarget("cuda", 90, 32), (1, 3, 6)),
        (GPUTarget("cuda", 89, 32), (1, 4, 6)),
        (GPUTarget("cpu", "x86-64-v3", 0), (2, 4, 5)),
    ],
)
def test_answers_about_the_target(target: GPUTarget, answers: tuple[int, ...]) -> None:
    text = ttir(ask, {"out": "*i32"}, {}, target)
    stored = [line.rsplit("%c", 1)[1][0] for line in text.splitlines() if "tt.store" in line]
    assert stored == [str(number) for number in answers]


def test_no_target_is_an_amd_gpu() -> None:
    assert tl.target_info.is_hip() is False


@tilewright.jit
def carried_hint(x, out, n, BLOCK: tl.constexpr):
    pointers = x + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        tl.multiple_of(pointers, BLOCK)
        if n > 5:
            tl.max_contiguous(pointers, BLOCK)
        total += tl.load(pointers)
        pointers += n
    tl.store(out + tl.arange(0, BLOCK), total)


def test_hints_on_what_a_loop_carries() -> None:
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    gpu, cpu = (
        ttir(carried_hint, signature, {"BLOCK": 128}, target)
        for target in (GPUTarget("cuda", 90, 32), GPUTarget("cpu", "x86-64-v3", 0))
    )
    hinted = re.search(r"(%\w+) = tt\.bitcast %\w+ \{(.*?)\} : ", gpu)
    assert hinted
    assert hinted[2] == "tt.contiguity = dense<128> : tensor<1xi32>, tt.divisibility = dense<128> : tensor<1xi32>"
    assert f"tt.load {hinted[1]} " in gpu
    assert "tt.bitcast" not in cpu


def test_hinted_loads_are_vectors() -> None:
    source = ASTSource(carried_hint, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 512})
    assert "ld.global.v4" in str(compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])


def product(dtype: Any, depth: int = 64, arch: int = 90, **options: Any) -> str:
    signature = {"DTYPE": "constexpr", "K": "constexpr"}
    return ttir(multiply, signature, {"DTYPE": dtype, "K": depth}, GPUTarget("cuda", arch, 32), **options)


FP8 = (tl.float8e4b15, tl.float8e4nv, tl.float8e4b8, tl.float8e5, tl.float8e5b16)


@pytest.mark.parametrize(("arch", "available"), [(80, "fp8e4b15 fp8e5"), (89, "fp8e4b15 fp8e4nv fp8e5")])
def test_8_bit_floats_of_a_device(arch: int, available: str) -> None:
    for dtype in FP8:
        if dtype.name in available.split():
            product(dtype, arch=arch)
            continue
        with pytest.raises(CompilationError, match=r"tl.dot\(tile, tl.full\(\(K, 16\), 0, DTYPE\)\)") as caught:
            product(dtype, arch=arch)
        assert f"type {dtype.name} not supported in this architecture" in str(caught.value.__cause__)


def test_pointers_to_missing_floats() -> None:
    with pytest.raises(CompilationError, match="type fp8e4nv not supported"):
        ttir(only_load, {"x": "*fp8e4nv"}, {}, GPUTarget("cuda", 80, 32))


def test_a_tile_that_nothing_uses() -> None:
    with pytest.raises(CompilationError, match=r"def unused"):
        ttir(unused, {}, {}, GPUTarget("cuda", 80, 32))


def test_missing_floats_are_emulated_when_they_are_asked_for() -> None:
    assert "f8E4M3FNUZ" in product(tl.float8e4b8, supported_fp8_dtypes=("fp8e4b8",))


def test_every_8_bit_float_on_a_cpu() -> None:
    for dtype in FP8:
        ttir(multiply, {"DTYPE": "constexpr", "K": "constexpr"}, {"DTYPE": dtype, "K": 2}, GPUTarget("cpu", "", 0))


def test_dot_warns_of_a_slow_format() -> None:
    with pytest.warns(UserWarning, match="fp8e4b15 is deprecated on Hopper"):
        product(tl.float8e4b15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product(tl.float8e4b15, arch=89)
        product(tl.float8e5)


@pytest.mark.parametrize(
    ("dtype", "least"),
    [(tl.int8, 32), (tl.float8e5, 32), (tl.float16, 16), (tl.bfloat16, 16), (tl.float32, 8), (tl.float64, 4)],
)
def test_the_least_depth_of_a_product(dtype: Any, least: int) -> None:
    product(dtype, least)
    with pytest.raises(CompilationError, match=f"M >= 1, N >= 1 and K >= {least}"):
        product(dtype, least // 2)
