"""Passes for GPUs say that they changed a module whenever its text is another one: only then is it verified."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled

import tilewright as tw
import tilewright.language as tl
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.transforms.gpu.pipeline import TtgirOptions, memory_passes, ttgir_passes


@tw.jit
def scaled_products(a, b, out, n, SIZE: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [SIZE, n], [n, 1], [SIZE, SIZE])
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for start in tl.range(0, n, SIZE, num_stages=3):
        total = tl.dot(left.load([0, start]), tl.load(b + start * SIZE + at), total)
    total -= tl.max(total, 1)[:, None]
    tl.store(out + at, tl.trans(total).to(tl.float16))


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_a_pass_says_whether_it_changed_the_module(capability: int) -> None:
    arrays = [np.zeros((64, 256), np.float16), np.zeros((256, 64), np.float16), np.zeros((64, 64), np.float16)]
    module = parse_module(compiled(scaled_products, [*arrays, 256], capability=capability, SIZE=64).asm["ttir"])
    silent = []
    for step in (*ttgir_passes(TtgirOptions(capability)), *memory_passes(capability)):
        before = print_op(module, names=False)
        if step.function(module) is False and print_op(module, names=False) != before:
            silent.append(step.name)
    assert not silent
    assert "ttg.global_scratch_memory_size" in print_op(module), "the last passes ran, too"
