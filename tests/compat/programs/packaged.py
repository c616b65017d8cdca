"""Packages four models with AOTInductor, and runs them: `python packaged.py FOLDER`.

For each model the folder gets a package, and a text: the shape of the input, then the elements of the output.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch

from tilewright import cdiv, jit
from tilewright import language as tl

import_module("tilewright.torch_compile")  # shows our `triton` to torch

SETTINGS = {"cpu_backend": "triton", "aot_inductor.compile_wrapper_opt_level": "O0"}


@jit
def swish_kernel(x, out, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(out + at, value * tl.sigmoid(value) * scale, at < n)


def scaled_swish(x: torch.Tensor, scale: float) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(swish_kernel)[(cdiv(x.numel(), 64),)](x, out, x.numel(), scale, BLOCK=64)
    return out


@torch.library.triton_op("packaged::swish", mutates_args={})
def swish(x: torch.Tensor, scale: float) -> torch.Tensor:
    return scaled_swish(x, scale)


class Perceptron(torch.nn.Module):
    """Has a kernel of its own, which takes a constant float and one that is computed of an element."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 96), torch.nn.Linear(96, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(scaled_swish(swish(self.first(x), 1.0), 0.5 * x.amax().item())), -1)


class Block(torch.nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(16) for _ in range(2))
        self.projection, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.wide, self.narrow = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.projection(self.norms[0](x)).view(rows, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) / (width // 2) ** 0.5
        hidden = scores.tril().softmax(-1) @ parts[2]
        x = x + self.out(hidden.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](x))))


class Table(torch.nn.Module):
    """Looks rows up, which fails for inputs beyond ±1."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.randn(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rows[((x + 1) * 2).long()].sin()


def networks() -> dict[str, tuple[torch.nn.Module, tuple[int, ...]]]:
    """The models and the shapes of their inputs."""
    layers = (
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5),
    )  # fmt: skip
    return {"perceptron": (Perceptron(), (7, 16)), "block": (Block(), (2, 9, 16)), "table": (Table(), (7, 16)),
            "convolution": (torch.nn.Sequential(*layers), (2, 3, 12, 12))}  # fmt: skip


def numbers(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).mul(0.37).sin().reshape(shape)


def check(name: str, model: torch.nn.Module, shape: tuple[int, ...], folder: Path) -> None:
    """Package `model` for any number of rows, and compare it with itself, also on several threads."""
    rows = {0: torch.export.Dim("rows", min=2, max=64)}
    exported = torch.export.export(model, (numbers(shape),), dynamic_shapes=(rows,), strict=False)
    path = str(folder / f"{name}.pt2")
    torch._inductor.aoti_compile_and_package(exported, package_path=path, inductor_configs=SETTINGS)
    loaded = torch._inductor.aoti_load_package(path)
    for inputs in (numbers(shape), numbers((13, *shape[1:]))):
        torch.testing.assert_close(loaded(inputs), model(inputs))
    run_on_threads(loaded, inputs, model(inputs))
    if isinstance(model, Table):
        check_errors(loaded, inputs)
    output = model(numbers(shape)).flatten().tolist()
    (folder / f"{name}.txt").write_text("\n".join([" ".join(map(str, shape)), *map(str, output)]))
    sys.stdout.write(f"{name}\n")


Model = Callable[[torch.Tensor], torch.Tensor]


def check_errors(loaded: Model, inputs: torch.Tensor) -> None:
    """An assertion of a kernel is an exception; the next call is right."""
    expected = loaded(inputs)
    message = r"an assertion of the kernel triton_\w+ failed: index out of bounds: 0 <= "
    with pytest.raises(RuntimeError, match=message):
        loaded(inputs * 9)
    torch.testing.assert_close(loaded(inputs), expected)


def run_on_threads(loaded: Model, inputs: torch.Tensor, expected: torch.Tensor) -> None:
    found = list[torch.Tensor]()

    def run() -> None:
        found.extend(loaded(inputs) for _ in range(20))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for output in found:
        torch.testing.assert_close(output, expected)


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    chosen = sys.argv[2:] or networks()
    for name, (model, shape) in networks().items():
        if name in chosen:
            check(name, model.eval(), shape, Path(sys.argv[1]))
