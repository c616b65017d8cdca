"""Kernels of flash-linear-attention (the package fla-core 0.6.0), unchanged, next to its own references in torch."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from comparing import Function, compared, first, report
from fla.modules.convolution import causal_conv1d
from fla.ops.attn import parallel_attn
from fla.ops.forgetting_attn import parallel_forgetting_attn
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
from fla.ops.gla import chunk_gla, fused_recurrent_gla
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.gsa import chunk_gsa
from fla.ops.gsa.naive import naive_recurrent_gsa
from fla.ops.hgrn import chunk_hgrn
from fla.ops.hgrn.naive import naive_recurrent_hgrn
from fla.ops.kda import chunk_kda
from fla.ops.kda.naive import naive_recurrent_kda
from fla.ops.retention import parallel_retention
from fla.ops.retention.naive import naive_retention
from fla.ops.rwkv6 import chunk_rwkv6
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from torch import Tensor

BATCH, LENGTH, HEADS, WIDTH = 2, 63, 2, 32
STARTS = torch.tensor([0, 17, 60, 100])
"""The bounds of sequences that lie one behind the other."""


def heads(*count: int, length: int = LENGTH, batch: int = BATCH) -> Tensor:
    return torch.randn(batch, length, HEADS, *count) * 0.5


def gates(*count: int) -> Tensor:
    return F.logsigmoid(torch.randn(BATCH, LENGTH, HEADS, *count))


def directions() -> Tensor:
    return F.normalize(heads(WIDTH), dim=-1)


def by_heads(reference: Function) -> Function:
    """A reference that has the axis of heads in front of the sequence."""
    return lambda *inputs: first(reference(*(x.transpose(1, 2) for x in inputs))).transpose(1, 2)


def forgetting(q: Tensor, k: Tensor, v: Tensor, gate: Tensor) -> Tensor:
    total = gate.cumsum(-1)
    scores = q @ k.mT * WIDTH**-0.5 + total[..., :, None] - total[..., None, :]
    seen = torch.ones(LENGTH, LENGTH).tril().bool()
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


def convolved(x: Tensor, weight: Tensor) -> Tensor:
    wide = F.conv1d(x.mT, weight[:, None], padding=3, groups=len(weight))
    return F.silu(wide[..., :LENGTH].mT)


def one_by_one(*inputs: Tensor) -> Tensor:
    ends = pairwise(STARTS)
    return torch.cat([naive_recurrent_gla(*(x[:, a:b] for x in inputs))[0] for a, b in ends], 1)


def check_sequences_of_different_lengths() -> float:
    inputs = [heads(WIDTH, length=100, batch=1) for _ in range(3)]
    gate = F.logsigmoid(heads(WIDTH, length=100, batch=1))
    return compared(lambda *x: chunk_gla(*x, cu_seqlens=STARTS), one_by_one, *inputs, gate)


def check_rwkv6() -> float:
    decay, bonus = -torch.exp(torch.randn(BATCH, LENGTH, HEADS, WIDTH)), torch.randn(HEADS, WIDTH)
    return compared(
        lambda *x: chunk_rwkv6(*x, bonus, scale=1.0),
        by_heads(lambda *x: naive_recurrent_rwkv6(*x, bonus, scale=1.0)),
        *(heads(WIDTH) for _ in range(3)),
        decay,
    )


def three() -> list[Tensor]:
    return [heads(WIDTH) for _ in range(3)]


report(
    {
        "gla": lambda: compared(chunk_gla, naive_recurrent_gla, *three(), gates(WIDTH)),
        "gla_recurrent": lambda: compared(fused_recurrent_gla, naive_recurrent_gla, *three(), gates(WIDTH)),
        "gla_of_different_lengths": check_sequences_of_different_lengths,
        "gated_delta_rule": lambda: compared(
            lambda q, k, v, rate, gate: chunk_gated_delta_rule(q, k, v, gate, rate, scale=0.2),
            lambda q, k, v, rate, gate: naive_recurrent_gated_delta_rule(q, k, v, rate, gate, scale=0.2),
            directions(),
            directions(),
            heads(WIDTH),
            torch.rand(BATCH, LENGTH, HEADS),
            gates(),
        ),
        "kda": lambda: compared(
            chunk_kda,
            naive_recurrent_kda,
            directions(),
            directions(),
            heads(WIDTH),
            gates(WIDTH),
            torch.rand(BATCH, LENGTH, HEADS),
        ),
        "gsa": lambda: compared(
            lambda *x: chunk_gsa(*x, scale=0.1),
            lambda *x: naive_recurrent_gsa(*x, scale=0.1),
            *three(),
            heads(16),
            gates(16),
        ),
        "hgrn": lambda: compared(
            chunk_hgrn, naive_recurrent_hgrn, torch.randn(BATCH, LENGTH, 64), gates().repeat(1, 1, 32)
        ),
        "rwkv6": check_rwkv6,
        "retention": lambda: compared(parallel_retention, by_heads(naive_retention), *three()),
        "attention": lambda: compared(
            parallel_attn, by_heads(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True)), *three()
        ),
        "forgetting_attention": lambda: compared(parallel_forgetting_attn, by_heads(forgetting), *three(), gates()),
        "convolution": lambda: compared(
            lambda x, w: causal_conv1d(x, w, activation="silu"),
            convolved,
            torch.randn(BATCH, LENGTH, 64),
            torch.randn(64, 4),
        ),
    }
)
