"""Kernels of Liger (the package liger-kernel 0.8.5), unchanged, next to torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from comparing import compared, report
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.group_norm import LigerGroupNormFunction
from liger_kernel.ops.jsd import LigerJSDFunction
from liger_kernel.ops.kl_div import LigerKLDivLossFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.sparsemax import LigerSparsemaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from liger_kernel.ops.tvd import LigerTVDLossFunction
from torch import Tensor

EPSILON = 1e-6
WIDTH, VOCABULARY, HEAD = 300, 1000, 64
TARGETS = torch.randint(0, VOCABULARY, (61,), generator=torch.Generator().manual_seed(1))
TARGETS[3] = -100  # not counted


def rows(width: int = WIDTH) -> Tensor:
    return torch.randn(3, 37, width)


def scores() -> Tensor:
    return torch.randn(61, WIDTH).log_softmax(-1)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


def sparsemax(x: Tensor) -> Tensor:
    ordered = x.sort(-1, descending=True)[0]
    counts, sums = torch.arange(1, x.shape[-1] + 1), ordered.cumsum(-1)
    support = (1 + counts * ordered > sums).sum(-1, keepdim=True)
    return (x - (sums.gather(-1, support - 1) - 1) / support).clamp(min=0)


def angles() -> tuple[Tensor, Tensor]:
    each = torch.outer(torch.arange(33.0), 10000 ** -(torch.arange(0, HEAD, 2) / HEAD))
    both = torch.cat([each, each], -1)
    return both.cos()[None], both.sin()[None]


def turned(x: Tensor) -> Tensor:
    cos, sin = angles()
    half = HEAD // 2
    return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], -1) * sin[:, None]


def jensen_shannon(x: Tensor, y: Tensor) -> Tensor:
    mean = torch.log(0.5 * x.exp() + 0.5 * y.exp())
    parts = [F.kl_div(mean, part, log_target=True, reduction="sum") for part in (x, y)]
    return (parts[0] + parts[1]) / (2 * len(x))


def convolved_attention(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    seen = torch.ones(16, 16).tril().bool()
    attention = x.masked_fill(~seen, -1e9).softmax(-1)
    return F.conv2d(attention, weight, bias, padding=1).masked_fill(~seen, 0)


def check_jensen_shannon() -> float:
    y = scores()
    return compared(lambda x: LigerJSDFunction.apply(x, y, None, 0.5, -100), lambda x: jensen_shannon(x, y), scores())


def check_divergence() -> float:
    y = scores().exp()
    return compared(
        lambda x: LigerKLDivLossFunction.apply(x, y, "batchmean", False, 1e-10),
        lambda x: F.kl_div(x, y, reduction="batchmean"),
        scores(),
    )


def check_total_variation() -> float:
    y = scores().exp()
    return compared(
        lambda x: LigerTVDLossFunction.apply(x, y, None, "batchmean", -100),
        lambda x: 0.5 * (x - y).abs().sum(-1).mean(),
        scores().exp(),
    )


report(
    {
        "rms_norm": lambda: compared(
            lambda x, w: LigerRMSNormFunction.apply(x, w, EPSILON, 0.0, "llama", False),
            rms_norm,
            rows(),
            torch.randn(WIDTH),
        ),
        "fused_add_rms_norm": lambda: compared(
            lambda x, y, w: LigerFusedAddRMSNormFunction.apply(x, y, w, EPSILON, 0.0, "llama", False),
            lambda x, y, w: rms_norm(x + y, w),
            rows(),
            rows(),
            torch.randn(WIDTH),
        ),
        "layer_norm": lambda: compared(
            lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, EPSILON),
            lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b, EPSILON),
            rows(),
            torch.randn(WIDTH),
            torch.randn(WIDTH),
        ),
        "group_norm": lambda: compared(
            lambda x, w, b: LigerGroupNormFunction.apply(x, w, b, 12, 3, EPSILON),
            lambda x, w, b: F.group_norm(x, 3, w, b, EPSILON),
            torch.randn(4, 12, 37),
            torch.randn(12),
            torch.randn(12),
        ),
        "swiglu": lambda: compared(LigerSiLUMulFunction.apply, lambda x, y: F.silu(x) * y, rows(), rows()),
        "geglu": lambda: compared(
            LigerGELUMulFunction.apply, lambda x, y: F.gelu(x, approximate="tanh") * y, rows(), rows()
        ),
        "softmax": lambda: compared(LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), rows()),
        "sparsemax": lambda: compared(lambda x: LigerSparsemaxFunction.apply(x, -1), sparsemax, torch.randn(37, WIDTH)),
        "rope": lambda: compared(
            lambda x: LigerRopeFunction.apply(x, torch.zeros(2, 2, 33, HEAD), *angles()),
            turned,
            torch.randn(2, 4, 33, HEAD),
        ),
        "cross_entropy": lambda: compared(
            lambda x: LigerCrossEntropyFunction.apply(x, TARGETS, None, -100, 0.0, 0.1, "mean", None, False),
            lambda x: F.cross_entropy(x, TARGETS, label_smoothing=0.1),
            torch.randn(61, VOCABULARY),
        ),
        "fused_linear_cross_entropy": lambda: compared(
            lambda x, w: LigerFusedLinearCrossEntropyFunction.apply(x, w, TARGETS),
            lambda x, w: F.cross_entropy(x @ w.T, TARGETS),
            torch.randn(61, 128) * 0.3,
            torch.randn(VOCABULARY, 128) * 0.3,
        ),
        "jsd": check_jensen_shannon,
        "kl_div": check_divergence,
        "tvd": check_total_variation,
        "multi_token_attention": lambda: compared(
            lambda x, w, b: LigerMultiTokenAttentionFunction.apply(x, w, b, 1, 1, 1, 1, False),
            convolved_attention,
            torch.randn(2, 3, 16, 16),
            torch.randn(3, 3, 3, 3) * 0.2,
            torch.randn(3) * 0.1,
        ),
    }
)
