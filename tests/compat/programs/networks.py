"""The process that `test_torch_networks.py` starts: a network of `bench/torch_networks.py`, compiled and eager.

    python networks.py trained gpt2
    python networks.py autocast unet
    python networks.py cached

Results are compared as torch's own benchmarks of Inductor do: with the eager ones, and where these differ by more than
the tolerance, with how far the eager ones are from those in float64.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import same
from torch_networks import NETWORKS, TINY, Inputs, llama, result

TOLERANCE, HALF_TOLERANCE = 1e-4, 1e-2
"""The differences that are allowed, absolute and relative, in float32 and under autocast."""
RATE = 1e-3
"""The learning rate of AdamW."""
DENOMINATOR = 1e-3
"""The least denominator of AdamW: with its own of 1e-8, weights whose gradient is rounding alone take a step of `RATE`
up or down by chance."""


def compiled(model: torch.nn.Module) -> Any:
    torch._dynamo.config.allow_rnn = True  # an LSTM is part of the graph, unrolled
    return torch.compile(model, backend="tilewright", fullgraph=True)


def larger(inputs: Inputs, axes: dict[str, tuple[int, ...]]) -> Inputs:
    """Other inputs of the same kind, with twice the size along the axes that may change."""

    def repeated(name: str, tensor: torch.Tensor) -> torch.Tensor:
        times = [2 if axis in axes[name] else 1 for axis in range(tensor.ndim)]
        return tensor.flip(-1).repeat(times).contiguous()

    return {name: repeated(name, tensor) for name, tensor in inputs.items()}


def widened(model: torch.nn.Module) -> torch.nn.Module:
    """The model in float64, for the reference."""
    wide = copy.deepcopy(model).double()
    if hasattr(wide, "set_experts_implementation"):
        wide.set_experts_implementation("eager")  # torch has no grouped products in float64
    return wide


def widened_inputs(inputs: Inputs) -> Inputs:
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


def steps(model: torch.nn.Module, call: Callable[..., Any], calls: list[Inputs]) -> list[Any]:
    """The output and the gradients of each step, then the parameters and buffers after all."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=DENOMINATOR)
    seen: list[Any] = []
    for inputs in calls:
        optimizer.zero_grad()
        output = result(call(**inputs))
        output.logsumexp(-1).mean().backward()
        seen += [output.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}]
        optimizer.step()
    return [*seen, dict(model.state_dict())]


def trained(name: str) -> None:
    """Two steps of training, with another batch and length in the second, which compiles nothing anew."""
    model, inputs, axes = NETWORKS[name](TINY)
    model.train()
    models = [model, copy.deepcopy(model), widened(model)]
    calls = [inputs, larger(inputs, axes)]
    call = compiled(model)
    for argument in axes:
        for axis in axes[argument]:
            torch._dynamo.mark_dynamic(inputs[argument], axis)
    first = steps(model, call, calls[:1])
    torch.compiler.set_stance("fail_on_recompile")
    ours = [*first[:-1], *steps(model, call, calls[1:])]
    eager = [steps(models[1], models[1], calls[:1]), steps(models[1], models[1], calls[1:])]
    wide = [steps(models[2], models[2], [widened_inputs(part)]) for part in calls]
    eager, wide = ([*part[0][:-1], *part[1]] for part in (eager, wide))
    assert same(eager, ours, wide, tol=TOLERANCE)


def autocast(name: str) -> None:
    """The forward pass in bfloat16 where torch says so."""
    model, inputs, _ = NETWORKS[name](TINY)
    wide = result(widened(model)(**widened_inputs(inputs)))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        try:
            eager = result(model(**inputs))
        except RuntimeError as error:  # oneDNN has no LSTM in bfloat16 for processors without AVX-512
            sys.exit(f"torch itself: {error}")
        assert same(eager, result(compiled(model)(**inputs)), wide, tol=HALF_TOLERANCE)


def cached() -> None:
    """Prefill, then words one by one from a cache of keys and values: two graphs, whatever the position."""
    from transformers import StaticCache

    torch.manual_seed(0)
    model = llama(TINY).eval()
    words = torch.randint(TINY.words, (TINY.batch, TINY.length))

    def generate(call: Callable[..., Any]) -> list[torch.Tensor]:
        cache = StaticCache(config=model.config, max_cache_len=4 * TINY.length)
        ids, positions, seen = words, torch.arange(TINY.length), []
        for step in range(4):
            seen.append(call(input_ids=ids, past_key_values=cache, cache_position=positions, use_cache=True).logits)
            ids, positions = seen[-1][:, -1:].argmax(-1), positions[-1:] + 1
            if step == 1 and call is not model:
                torch.compiler.set_stance("fail_on_recompile")
        return seen

    with torch.no_grad():
        assert same(generate(model), generate(compiled(model)), tol=TOLERANCE)


if __name__ == "__main__":
    {"trained": trained, "autocast": autocast, "cached": cached}[sys.argv[1]](*sys.argv[2:])
