"""Shared by the programs next to this file: a package's functions beside a reference in torch, forward and backward."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

Function = Callable[..., Any]


def first(result: Any) -> Any:
    """Functions of these packages often give something else beside their result."""
    return result[0] if isinstance(result, tuple) else result


def difference(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest error, in units of the largest value if that is above 1."""
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1))


def compared(function: Function, reference: Function, *inputs: torch.Tensor) -> float:
    """The largest difference between two functions, in their result and in the gradients of all inputs."""
    ours, theirs = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
    found, wanted = first(function(*ours)), first(reference(*theirs))
    direction = torch.randn_like(wanted)
    found.backward(direction)
    wanted.backward(direction)
    pairs = [(found, wanted), *((a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))]
    return max(difference(a.detach(), b.detach()) for a, b in pairs)


def report(cases: Mapping[str, Callable[[], float]]) -> None:
    """Print what `compared` says of each case, as JSON."""
    torch.manual_seed(0)
    sys.stdout.write(json.dumps({name: case() for name, case in cases.items()}))
