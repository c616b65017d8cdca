"""Networks with random weights: those of transformers from their configurations, the others written here.

    model, inputs, axes = NETWORKS["gpt2"](TINY)

gives a module in evaluation mode, its keyword arguments, and by argument the axes that may have another size in the
next call. Random numbers are the same in each process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

Inputs = dict[str, torch.Tensor]
Made = tuple[nn.Module, Inputs, dict[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Size:
    """How large a network is, and what it is called with."""

    width: int
    layers: int
    heads: int
    words: int
    batch: int
    length: int
    image: int
    channels: int


TINY = Size(width=32, layers=1, heads=2, words=64, batch=3, length=8, image=64, channels=16)
"""For tests: every shape is there, and no loop is long."""
SMALL = Size(width=256, layers=4, heads=8, words=2048, batch=2, length=128, image=64, channels=32)
"""For measurements: products and norms that take most of the time, as in networks of real size."""


class BasicBlock(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """A stem, four stages of two basic blocks, and a classifier."""

    def __init__(self, channels: int, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks = []
        for stage in range(4):
            after = channels << stage
            blocks += [BasicBlock(after >> bool(stage), after, 2 if stage else 1), BasicBlock(after, after, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.classify = nn.Linear(8 * channels, classes)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.classify(self.blocks(self.stem(pixels)).mean((2, 3)))


class VisionTransformer(nn.Module):
    """Patches with learned positions, an encoder with norms in front, and a classifier of the first token."""

    def __init__(self, size: Size, patch: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, size.width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, size.width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (size.image // patch) ** 2 + 1, size.width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            size.width, size.heads, 4 * size.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, size.layers, nn.LayerNorm(size.width), enable_nested_tensor=False)
        self.classify = nn.Linear(size.width, classes)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        patches = self.embed(pixels).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.first.expand(len(pixels), -1, -1), patches), 1) + self.positions
        return self.classify(self.encoder(tokens)[:, 0])


def convolutions(before: int, after: int) -> nn.Module:
    """Two convolutions with group norms."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
        nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """Three scales down and up again, with what each scale had on the way down beside what comes up."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.ModuleList([convolutions(3, channels), convolutions(channels, 2 * channels)])
        self.middle = convolutions(2 * channels, 4 * channels)
        self.up = nn.ModuleList([convolutions(6 * channels, 2 * channels), convolutions(3 * channels, channels)])
        self.out = nn.Conv2d(channels, 3, 1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x, kept = pixels, []
        for scale in self.down:
            kept.append(scale(x))
            x = functional.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for scale in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="bilinear")
            x = scale(torch.cat((x, kept.pop()), 1))
        return self.out(x)


class Tagger(nn.Module):
    """Embeddings, a bidirectional LSTM of two layers, and a label for each word."""

    def __init__(self, size: Size, labels: int = 10) -> None:
        super().__init__()
        self.embed = nn.Embedding(size.words, size.width)
        self.lstm = nn.LSTM(size.width, size.width, 2, batch_first=True, bidirectional=True)
        self.label = nn.Linear(2 * size.width, labels)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.label(self.lstm(self.embed(input_ids))[0])


def words(size: Size, axes: tuple[int, ...], *names: str) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    """Tokens by argument, and which axes may change."""
    return {name: torch.randint(size.words, (size.batch, size.length)) for name in names}, dict.fromkeys(names, axes)


def pixels(size: Size, axes: tuple[int, ...]) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    """Images, and which axes may change."""
    return {"pixels": torch.randn(size.batch, 3, size.image, size.image)}, {"pixels": axes}


def gpt2(size: Size) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size.words, n_positions=4 * size.length, n_embd=size.width, n_layer=size.layers,
            n_head=size.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )
    )  # fmt: skip


def llama_settings(size: Size) -> dict[str, Any]:
    return {
        "vocab_size": size.words, "hidden_size": size.width, "intermediate_size": 3 * size.width,
        "num_hidden_layers": size.layers, "num_attention_heads": size.heads,
        "num_key_value_heads": max(1, size.heads // 2), "max_position_embeddings": 4 * size.length, "use_cache": False,
    }  # fmt: skip


def llama(size: Size) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**llama_settings(size)))


def mixtral(size: Size) -> nn.Module:
    """Four experts, of which two are asked for each token."""
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(MixtralConfig(**llama_settings(size), num_local_experts=4, num_experts_per_tok=2))


def bert(size: Size) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=size.words, hidden_size=size.width, num_hidden_layers=size.layers,
            num_attention_heads=size.heads, intermediate_size=4 * size.width,
            max_position_embeddings=4 * size.length, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def t5(size: Size) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=size.words, d_model=size.width, d_kv=size.width // size.heads, d_ff=4 * size.width,
            num_layers=size.layers, num_heads=size.heads, dropout_rate=0.0, use_cache=False,
        )
    )  # fmt: skip


def made(build: Callable[[Size], nn.Module], inputs: Callable[[Size], Any]) -> Callable[[Size], Made]:
    def make(size: Size) -> Made:
        torch.manual_seed(0)
        return (build(size).eval(), *inputs(size))

    return make


NETWORKS: dict[str, Callable[[Size], Made]] = {
    "gpt2": made(gpt2, lambda size: words(size, (0, 1), "input_ids")),
    "llama": made(llama, lambda size: words(size, (0, 1), "input_ids")),
    "bert": made(bert, lambda size: words(size, (0, 1), "input_ids")),
    "t5": made(t5, lambda size: words(size, (0, 1), "input_ids", "decoder_input_ids")),
    "mixtral": made(mixtral, lambda size: words(size, (0, 1), "input_ids")),
    "resnet18": made(lambda size: ResNet18(size.channels), lambda size: pixels(size, (0,))),
    "vit": made(VisionTransformer, lambda size: pixels(size, (0,))),
    "unet": made(lambda size: UNet(size.channels), lambda size: pixels(size, (0,))),
    "lstm": made(Tagger, lambda size: words(size, (0,), "input_ids")),
}
"""By name: makes the network of a size."""
FROM_TRANSFORMERS = ("gpt2", "llama", "bert", "t5", "mixtral")
"""Names of networks that the package transformers makes."""


def result(value: Any) -> torch.Tensor:
    """The tensor that counts: the logits of a model of transformers."""
    return value if isinstance(value, torch.Tensor) else value.logits
