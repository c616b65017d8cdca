"""Recurrent modules in graphs: what eager computes, as operators of ours or of torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]

Run = Callable[..., list[str]]

BEGIN = """
import torch
from torch import nn
counters = torch._dynamo.utils.counters

def seeded(model, inputs):
    torch.manual_seed(1)
    y, state = model(*inputs)
    return (y, *state) if isinstance(state, tuple) else (y, state)

def compare(make, *inputs, **settings):
    '''Run eagerly and compiled, with gradients of inputs and weights, and without; say how many graphs there are.'''
    torch._dynamo.reset(); counters.clear()
    model = make()
    compiled = torch.compile(model, backend="tilewright", **settings)
    with torch.no_grad():
        torch.testing.assert_close(seeded(compiled, inputs), seeded(model, inputs))
    leaves = [*(each.requires_grad_() for each in inputs), *model.parameters()]
    found = []
    for function in (model, compiled):
        y, *states = seeded(function, inputs)
        total = (y * y).sum() + sum((3 ** at * state).sum() for at, state in enumerate(states))
        found.append((y, *states, *torch.autograd.grad(total, leaves)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    print(counters["stats"].get("unique_graphs", 0), len(counters["graph_break"]))
"""

MODULES = """
class Model(nn.Module):
    def __init__(self, kind=nn.LSTM, width=128, **settings):
        super().__init__()
        self.inner = kind(24, width, **settings)

    def forward(self, x, *state):
        y, state = self.inner(x.sin(), (state or None) if len(state) != 1 else state[0])
        return y.cos(), state

x = lambda *shape: torch.randn(*shape, 24)
"""
LSTMS = """
compare(Model, x(5, 3), fullgraph=True)
compare(lambda: Model(num_layers=2, bidirectional=True, batch_first=True), x(3, 5), fullgraph=True)
compare(lambda: Model(bidirectional=True, bias=False), x(5, 3), torch.randn(2, 3, 128), torch.randn(2, 3, 128))
compare(lambda: Model(width=200), x(5), fullgraph=True)
compare(Model, x(1, 1), fullgraph=True)
"""


def test_lstms_are_parts_of_graphs(run: Run) -> None:
    """Layers, directions, initial states, a sequence without a batch, and one step."""
    assert run(BEGIN + MODULES + LSTMS) == ["2 0"] * 5


MANY_ROWS = """
compare(lambda: Model(num_layers=2, bidirectional=True, batch_first=True), x(20, 5), fullgraph=True)
state = [torch.randn(2, 20, 64) for _ in range(2)]
compare(lambda: Model(width=64, bidirectional=True, bias=False), x(5, 20), *state, fullgraph=True)
compare(lambda: Model(width=256, bidirectional=True), x(5, 20), fullgraph=True)
compare(lambda: Model(width=16), x(5), fullgraph=True)
random = {"fallback_random": True}
compare(lambda: Model(width=64, num_layers=2, dropout=0.5), x(5, 20), options=random, fullgraph=True)
compare(lambda: Model(width=256, num_layers=2, dropout=0.5), x(5, 3), options=random, fullgraph=True)
torch.backends.mkldnn.set_flags(False)
compare(lambda: Model(width=16), x(4, 2), fullgraph=True)
"""


def test_lstms_with_many_rows_or_few_hidden_values_are_parts_of_graphs(run: Run) -> None:
    """By oneDNN with its own gradient, or by our steps; dropout, too, which torch's decomposition of an LSTM omits."""
    assert run(BEGIN + MODULES + MANY_ROWS) == ["2 0"] * 7


ONE_STATE = """
from functools import partial
for kind in (nn.GRU, nn.RNN, partial(nn.RNN, nonlinearity="relu")):
    compare(partial(Model, kind, width=300), x(5, 3), fullgraph=True)
    compare(partial(Model, kind, 16, num_layers=2, bidirectional=True, batch_first=True), x(20, 5), fullgraph=True)
    compare(partial(Model, kind, 20, bidirectional=True, bias=False), x(5, 9), torch.randn(2, 9, 20), fullgraph=True)
    compare(partial(Model, kind, num_layers=2, dropout=0.5), x(5), options={"fallback_random": True}, fullgraph=True)
"""


def test_grus_and_other_recurrent_modules_are_parts_of_graphs(run: Run) -> None:
    """Layers, directions, initial states, no biases, no batch, and dropout."""
    assert run(BEGIN + MODULES + ONE_STATE) == ["2 0"] * 12


OTHERS = """
class Model(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.inner = make()

    def forward(self, x):
        y, state = self.inner(x.sin())
        return y.cos(), state if isinstance(state, tuple) else (state, state)

class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(24, 128)

    def forward(self, x):
        y, state = self.inner(nn.utils.rnn.pack_padded_sequence(x.sin(), torch.tensor([5, 4, 2])))
        return nn.utils.rnn.pad_packed_sequence(y)[0], state

x = torch.randn(5, 3, 24)
compare(lambda: Model(lambda: nn.LSTM(24, 128, proj_size=16)), x)
compare(lambda: Model(lambda: nn.GRU(24, 128, dtype=torch.float64)).double(), x.double())
compare(lambda: Model(lambda: nn.LSTM(24, 128, dtype=torch.float64)).double(), x.double())
compare(Packed, x)
"""


def test_other_recurrent_modules_run_as_they_did(run: Run) -> None:
    """Only around a packed LSTM is there a graph."""
    assert run(BEGIN + OTHERS) == ["0 0", "0 0", "0 0", "2 3"]


DROPOUT = """
lstm = nn.LSTM(24, 128, 2, dropout=0.5)
x = torch.randn(5, 3, 24)
compiled = torch.compile(lambda x: lstm(x)[0].sin(), backend="tilewright")
for mode in (False, True):
    lstm.train(mode)
    print((compiled(x) == compiled(x)).all().item())
with torch.autocast("cpu", torch.bfloat16):
    lstm.eval()
    print(compiled(x).dtype, lstm(x)[0].dtype)
"""


def test_dropout_and_autocast(run: Run) -> None:
    """Values are dropped out in training only; autocast is torch's."""
    assert run(BEGIN + DROPOUT) == ["True", "False", "torch.bfloat16 torch.bfloat16"]


SIZES = """
import torch
lstm = torch.nn.LSTM(24, 128)
compiled = torch.compile(lambda x: lstm(x)[0].sin(), backend="tilewright", dynamic=True)
for steps, rows in ((5, 3), (7, 4), (9, 20), (1, 1), (3, 0)):
    x = torch.randn(steps, rows, 24)
    for is_trained in (False, True):
        with torch.set_grad_enabled(is_trained):
            torch.testing.assert_close(compiled(x), lstm(x)[0].sin())
try:
    compiled(torch.randn(0, 2, 24))
except RuntimeError as error:
    print(error)
other = torch.compile(lambda x: lstm(x)[0].sin(), backend="eager")
torch._dynamo.utils.counters.clear()
other(x)
print(len(torch._dynamo.utils.counters["graph_break"]))
"""


def test_any_size(run: Run) -> None:
    """Graphs for any size; torch's own error for no steps; other back ends still leave LSTMs out."""
    *_, error, breaks = run(SIZES)
    assert (error, breaks) == ("Expected sequence length to be larger than 0 in RNN", "1")
