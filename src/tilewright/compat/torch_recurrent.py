"""Recurrent modules in torch's graphs on CPUs, a layer in one direction as one operator.

torch leaves recurrent modules out of graphs, and with `allow_rnn` it unrolls them where gradients are wanted. Here the
products of all inputs of a layer are one product of the graph, and its steps are an operator (`torch_steps.py`).

oneDNN, which torch calls for LSTMs, packs the weights of a layer in each call, and its steps with few rows take longer
than those of ours. With many rows and few hidden values it is faster: then it is called by the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from typing import Any, cast

from tilewright.compat.torch_bridge import torch
from tilewright.compat.torch_steps import define

MODULES, DECOMPOSITIONS = "torch._dynamo.variables.builder", "torch._decomp.decompositions"
MOST_ROWS, LEAST_WIDTH, LEAST_TRAINED = 8, 128, 256
"""LSTMs whose steps take less time than those of oneDNN: the max number of rows, and the min number of hidden values
with so few rows, and with any number where gradients are wanted."""
BACKEND = "tilewright.torch_compile"
"""The module of the back end whose graphs have recurrent modules."""
TAKEN = "_tilewright_takes_recurrent_modules"
"""The name in torch's context of a graph that says that it may have recurrent modules."""
Steps = Callable[..., tuple[Any, ...]]
"""Compute a layer in one direction: from its inputs, initial states and weights to its outputs and last states."""


def take_modules(builder: Any) -> None:
    """Let the module `MODULES` trace recurrent modules for this back end that it can compute as torch does."""
    wrapper, config = builder.VariableBuilder, builder.config
    frames = import_module("torch._dynamo.eval_frame")
    original = wrapper.wrap_module

    def wrap_module(self: Any, module: Any) -> Any:
        output = self.tx.output
        if not (_is_recurrent(module) and _is_ours(output.compiler_fn, frames) and _is_taken(module)):
            return original(self, module)
        setattr(output.tracing_context, TAKEN, True)
        with config.patch(allow_rnn=True):
            return original(self, module)

    wrapper.wrap_module = wrap_module


def _is_recurrent(module: Any) -> bool:
    modules = torch().nn
    return type(module) in (modules.LSTM, modules.GRU, modules.RNN)


def _is_ours(backend: Any, frames: Any) -> bool:
    """Whether a back end of Dynamo is Tilewright's, with its mode and options around it."""
    inner = frames.innermost_backend(backend)
    return getattr(getattr(inner, "compiler_fn", inner), "__module__", None) == BACKEND


def _is_taken(module: Any) -> bool:
    """Whether a recurrent module has float32 weights on the CPU, and no projections."""
    if module.proj_size or torch().is_autocast_enabled("cpu"):
        return False
    return all(each.dtype == torch().float32 and each.device.type == "cpu" for each in module.parameters())


def replace_layers(decompositions: Any) -> None:
    """Let the module `DECOMPOSITIONS` make operators of ours of the recurrent modules of marked graphs."""
    define()
    aten, keys = decompositions.torch.ops.aten, decompositions.torch._C.DispatchKey
    for overload, replacing in {
        aten.lstm.input: _replacing_lstm,
        aten.gru.input: _replacing(_gru),
        aten.rnn_tanh.input: _replacing(_rnn(is_relu=False)),
        aten.rnn_relu.input: _replacing(_rnn(is_relu=True)),
    }.items():
        for key in (keys.Autograd, keys.CompositeImplicitAutograd):
            overload.py_kernels[key] = replacing(overload.py_kernels[key])
        overload._dispatch_cache.clear()


def _replacing_lstm(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function for `aten.lstm.input` that computes layers by our operators where that is faster, or torch's wrong."""

    @wraps(original)
    def lstm(x: Any, hx: Any, weights: Any, biases: bool, layers: int, dropout: float, train: bool, *ways: bool) -> Any:
        if not _is_known(x, *hx, *weights) or hx[0].shape != hx[1].shape:
            return original(x, hx, weights, biases, layers, dropout, train, *ways)
        is_trained = torch().is_grad_enabled() and any(each.requires_grad for each in (x, *hx, *weights))
        rows, width = hx[0].shape[1:]
        by_steps = (rows <= MOST_ROWS and width >= LEAST_WIDTH) or (is_trained and width >= LEAST_TRAINED)
        drops = dropout if train else 0.0
        if not (by_steps or is_trained or drops):  # torch's does not drop out
            return original(x, hx, weights, biases, layers, dropout, train, *ways)
        steps = _lstm_by_steps if by_steps or not torch()._C._get_mkldnn_enabled() else _lstm_by_library
        y, h, c = _layers(steps, x, hx, _by_direction(weights, biases=biases), drops, *ways)
        return y, h, c

    return lstm


def _replacing(steps: Steps) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of functions that replaces them for modules with one state: each layer is computed by `steps`."""

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def run(x: Any, h: Any, weights: Any, biases: bool, count: int, drops: float, train: bool, *ways: bool) -> Any:
            if not _is_known(x, h, *weights):
                return original(x, h, weights, biases, count, drops, train, *ways)
            directions = _by_direction(weights, biases=biases)
            return _layers(steps, x, (h,), directions, drops if train else 0.0, *ways)

        return run

    return replacing


def _is_known(*tensors: Any) -> bool:
    """Whether the graph is marked, and all tensors are of float32, and on the CPU.

    Raises:
        NotImplementedError: one is empty: a graph ends there, and torch raises its own error if there are no steps.
    """
    if not hasattr(torch()._guards.TracingContext.try_get(), TAKEN):
        return False
    if any(0 in each.shape for each in tensors):
        raise NotImplementedError("a recurrent module without rows or steps runs outside of graphs")
    return all(each.dtype == torch().float32 and each.device.type == "cpu" for each in tensors)


def _by_direction(weights: Sequence[Any], *, biases: bool) -> list[Sequence[Any]]:
    """The weights of each layer and direction."""
    count = 4 if biases else 2
    return [weights[at : at + count] for at in range(0, len(weights), count)]


def _layers(
    steps: Steps, x: Any, states: Sequence[Any], directions: Sequence[Any], drops: float, both: bool, batch_first: bool
) -> tuple[Any, ...]:
    """All layers of a module; `drops` is the share of what is dropped out between them."""
    x = x.transpose(0, 1) if batch_first else x
    last: list[tuple[Any, ...]] = []
    while len(last) < len(directions):
        if last and drops:
            x = torch().dropout(x, drops, True)
        found = []
        for reverse in (False, True)[: 1 + both]:
            at = len(last)
            y, *after = steps(x, *(each[at] for each in states), directions[at], reverse=reverse)
            found.append(y)
            last.append(tuple(after))
        x = torch().cat(found, -1) if both else found[0]
    return x.transpose(0, 1) if batch_first else x, *(torch().stack(each) for each in zip(*last, strict=True))


def _of_inputs(x: Any, weights: Sequence[Any]) -> Any:
    """The product of all inputs of a layer, with both biases."""
    of_inputs, _, *biases = weights
    return torch().nn.functional.linear(x, of_inputs, sum(biases[1:], start=biases[0]) if biases else None)


def _lstm_by_steps(x: Any, h: Any, c: Any, weights: Sequence[Any], *, reverse: bool) -> tuple[Any, ...]:
    y, h, c, *_ = torch().ops.tilewright.lstm_steps(_of_inputs(x, weights), h, c, weights[1], reverse)
    return y, h, c


def _lstm_by_library(x: Any, h: Any, c: Any, weights: Sequence[Any], *, reverse: bool) -> tuple[Any, ...]:
    biases = weights[2:] or (x.new_zeros(len(weights[0])),) * 2
    with _sizes_without_nodes():
        y, h, c, _ = torch().ops.tilewright.lstm_layer(x, h, c, [*weights[:2], *biases], reverse)
    return y, h, c


def _sizes_without_nodes() -> AbstractContextManager[Any]:
    """Let a graph have no node for an operator that makes symbols of sizes: in Dynamo's, an LSTM is one node."""
    if import_module("torch.fx.experimental.proxy_tensor").get_proxy_mode() is not None:
        return nullcontext()
    mode = torch()._guards.detect_fake_mode()
    return cast(AbstractContextManager[Any], mode.shape_env.ignore_fresh_unbacked_symbols())


def _gru(x: Any, h: Any, weights: Sequence[Any], *, reverse: bool) -> tuple[Any, ...]:
    of_inputs, of_hidden, *biases = weights
    bias, bias_of_hidden = biases or (None, x.new_zeros(len(of_hidden)))
    inputs = torch().nn.functional.linear(x, of_inputs, bias)
    y, h, _ = torch().ops.tilewright.gru_steps(inputs, h, of_hidden, bias_of_hidden, reverse)
    return y, h


def _rnn(*, is_relu: bool) -> Steps:
    def rnn(x: Any, h: Any, weights: Sequence[Any], *, reverse: bool) -> tuple[Any, ...]:
        return tuple(torch().ops.tilewright.rnn_steps(_of_inputs(x, weights), h, weights[1], is_relu, reverse))

    return rnn
