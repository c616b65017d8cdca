"""Every rule that runs in the tests of this folder says truly whether it changed something, since passes report it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tilewright.ir.core import Op
from tilewright.ir.rewriter import REWRITER, Fold, Folds, Rewriter, Rule, Rules


class Doubtful(Rewriter):
    """A rewriter that believes no rule."""

    def visit(self, op: Op, rules: Rules, folds: Folds) -> Rule | Fold | None:
        return super().visit(op, {op.name: [partial(self._checked, rule) for rule in rules.get(op.name, ())]}, folds)

    def _checked(self, rule: Rule, op: Op, _: Rewriter) -> bool:
        name, before, self.changed = op.name, self.changed, False
        says = rule(op, self)
        assert bool(says) is self.changed, f"{rule.__name__} of {name} says {says}, but changed: {self.changed}"
        self.changed |= before
        return says


@pytest.fixture(autouse=True)
def believed_by_nobody() -> Iterator[None]:
    token = REWRITER.set(Doubtful)
    yield
    REWRITER.reset(token)
