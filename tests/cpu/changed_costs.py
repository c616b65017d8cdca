"""Targets with other figures than theirs, so that what they decide can be tested on every machine."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.backends.llvm.cpu_costs import CpuCosts
from tilewright.backends.llvm.machine import Target


def change_costs(monkeypatch: pytest.MonkeyPatch, **figures: Any) -> None:
    """Give all targets these figures until the test ends."""
    costs = Target.costs.fget
    assert costs is not None, "they are computed"

    def changed(target: Target) -> CpuCosts:
        found: CpuCosts = costs(target)._replace(**figures)
        return found

    monkeypatch.setattr(Target, "costs", property(changed))
