"""The rows about torch.compile on a GPU: what is compiled is compared with what torch runs itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch_compiled
from torch_compiled import AS_GRAPH, NAMES, TRAINED, check, functions

import optional_peers

pytestmark = pytest.mark.needs_torch


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module torch, whose `compile` gives the function back, for arrays on the CPU."""
    torch = optional_peers.module("torch")
    monkeypatch.setattr(torch_compiled, "DEVICE", "cpu")
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    return torch


def test_each_function_has_a_row(on_cpu: Any) -> None:
    assert {*functions(on_cpu), TRAINED, AS_GRAPH} == set(NAMES)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["softmax", "product, tuned", TRAINED, AS_GRAPH])
def test_the_same_results_are_good_and_others_are_not(name: str, on_cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check(on_cpu, name)
    monkeypatch.setattr(on_cpu, "compile", lambda function, **_: lambda *arguments: function(*arguments) * 1.1)
    with pytest.raises(AssertionError, match="not close"):
        check(on_cpu, name)
