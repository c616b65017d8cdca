"""Models of torch: `backend="tilewright"` beside eager and beside Inductor's C++ back end, as ratios in one run.

    python bench/torch_models.py --threads 1 --only REGEX
    python bench/torch_models.py --compile      # CPU seconds of first steps instead, with empty caches and from them
    python bench/torch_models.py --launches     # microseconds of a launch in a graph, beside those of a call in C++

A ratio is the other's time over ours: above 1, ours is faster. The three run in turns, and the tenth part of them that
is fastest counts up to its slowest: on a machine with other work, medians tell how often that came between. With one
thread, it is its CPU time that counts. Each first step has a process of its own, whose CPU time counts with that of the
compilers and other programs that it starts; torch's imports before it do not count.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_networks import NETWORKS, SMALL, result

import tilewright

Step = Callable[[], Any]
Made = tuple[nn.Module, tuple[torch.Tensor, ...], bool]


class Rotary(nn.Module):
    """RMS norm, then rotary embeddings of 8 heads."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
        heads = x.view(*x.shape[:2], 8, -1)
        half = heads.shape[-1] // 2
        angle = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        first, second = heads[..., :half], heads[..., half:]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Block(nn.Module):
    """A transformer's block of 8 heads."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norms[0](x)).view(*x.shape[:2], 3, 8, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class Loss(nn.Module):
    """Cross entropy of scaled logits."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(x * 0.5, target)


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


class ByPosition(nn.Module):
    """A network whose arguments have names, called without them; its logits."""

    def __init__(self, network: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return result(self.network(**dict(zip(self.names, inputs, strict=True))))


def network(name: str, *, trained: bool) -> Made:
    """One of `torch_networks.py`; those of transformers need that package."""
    size = replace(SMALL, length=16) if name == "lstm" else SMALL  # which may be unrolled
    model, inputs, _ = NETWORKS[name](size)
    return ByPosition(model.train(trained), tuple(inputs)), tuple(inputs.values()), trained


UNROLLED = "unrolled"
"""The end of the names of models that are compiled with `allow_rnn`; else torch leaves LSTMs out of graphs."""
MODELS: dict[str, Callable[[], Made]] = {
    "layer norm, gelu": lambda: (nn.Sequential(nn.LayerNorm(1024), nn.GELU()), (normal(1024, 1024),), False),
    "rms norm, rope": lambda: (Rotary(), (normal(4, 256, 512),), False),
    "mlp": lambda: (mlp(256), (normal(512, 256),), False),
    "mlp, trained": lambda: (mlp(256), (normal(512, 256),), True),
    "softmax": lambda: (nn.Softmax(-1), (normal(2048, 1024),), False),
    "cross entropy, trained": lambda: (Loss(), (normal(512, 4096).requires_grad_(), torch.arange(512)), True),
    "block": lambda: (Block(), (normal(4, 128, 256),), False),
    "block, trained": lambda: (Block(), (normal(4, 128, 256),), True),
    "convolution, norm": lambda: (
        nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)).eval(),
        (normal(4, 16, 64, 64),),
        False,
    ),
    "pointwise chain": lambda: (Chain(), (normal(1 << 20), normal(1 << 20)), False),
    **{name: partial(network, name, trained=False) for name in NETWORKS},
    **{f"{name}, trained": partial(network, name, trained=True) for name in NETWORKS},
    f"lstm, {UNROLLED}": partial(network, "lstm", trained=False),
    f"lstm, trained, {UNROLLED}": partial(network, "lstm", trained=True),
}


class Chain(nn.Module):
    """Ten operations on two vectors."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.sigmoid(x) * y + torch.exp(-y.abs())
        return torch.where(z > 0.5, z * x, z - y).tanh()


def model(name: str) -> Made:
    """A model by its name, with torch set to compile it."""
    torch._dynamo.config.allow_rnn = name.endswith(UNROLLED)
    return MODELS[name]()


def step_of(made: Made, backend: str) -> Step:
    """A call of the model, forward or with gradients."""
    model, inputs, trained = made
    function = model if backend == "eager" else torch.compile(model, backend=backend)

    def forward() -> Any:
        with torch.no_grad():
            return function(*inputs)

    def train() -> Any:
        model.zero_grad()
        function(*inputs).sum().backward()

    return train if trained else forward


BACKENDS = ("eager", "inductor", "tilewright")


def ratios(name: str) -> tuple[float, float, float]:
    """The times of eager and of the C++ back end over ours, and ours in microseconds."""
    torch.compiler.reset()
    made = model(name)
    eager, cpp, ours = times({backend: step_of(made, backend) for backend in BACKENDS})
    return eager / ours, cpp / ours, ours * 1e6


SECONDS = 2.5
"""Duration of the turns of one model."""


def times(steps: dict[str, Step]) -> list[float]:
    """The seconds of each step, run in turns."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    found: dict[str, list[float]] = {backend: [] for backend in steps}
    for step in steps.values():
        for _ in range(3):
            step()
    start = clock()
    while clock() - start < SECONDS:
        for backend, step in steps.items():
            begin = clock()
            step()
            found[backend].append(clock() - begin)
    return [sorted(all_of_one)[len(all_of_one) // 10] for all_of_one in found.values()]


def launch_microseconds(count: int = 32) -> float:
    """How much longer a launch of ours takes than a call of the C++ back end, between products: nothing is fused."""
    x = torch.eye(8)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = (x @ x).relu() + 1e-3
        return x

    with torch.no_grad():
        cpp, ours = times({backend: partial(torch.compile(chain, backend=backend), x) for backend in BACKENDS[1:]})
    return (ours - cpp) / count * 1e6


def compile_seconds(name: str, backend: str, folder: str) -> float:
    """The CPU seconds of a first step in a process of its own."""
    command = [sys.executable, __file__, "--first-step", name, "--backend", backend]
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def first_step(name: str, backend: str) -> None:
    made = model(name)
    torch.compile(lambda x: x, backend="eager")(torch.ones(1))  # imports Dynamo
    start = cpu_seconds()
    step_of(made, backend)()
    print(cpu_seconds() - start)


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it has started and waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def write_bytecode() -> None:
    """Let a checkout have what an installed package has: processes that find no bytecode compile all modules."""
    compileall.compile_dir(Path(tilewright.__file__).parent, quiet=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--first-step", metavar="MODEL", help="print the seconds of a first step")
    parser.add_argument("--backend", default="tilewright", choices=BACKENDS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.first_step:
        first_step(options.first_step, options.backend)
        return
    if options.launches:
        print(f"a launch: {launch_microseconds():.2f} us longer than in C++")
        return
    write_bytecode()
    names = [name for name in MODELS if re.search(options.only, name)]
    columns = "C++ empty, warm; ours empty, warm (CPU s)" if options.compile else "eager, C++ over ours; us"
    print(f"{'model':24s}{columns}")
    for name in names:
        if options.compile:
            seconds = []
            for backend in BACKENDS[1:]:
                with tempfile.TemporaryDirectory() as folder:
                    seconds += [compile_seconds(name, backend, folder) for _ in range(2)]
            print(f"{name:24s}" + "  ".join(f"{value:6.2f}" for value in seconds), flush=True)
        else:
            eager, cpp, ours = ratios(name)
            print(f"{name:24s}{eager:6.2f} {cpp:6.2f} {ours:9.1f}", flush=True)


if __name__ == "__main__":
    main()
