"""LSTMs in torch's graphs on CPUs, a layer in one direction as one operator.

torch leaves recurrent modules out of graphs, and with `allow_rnn` it unrolls them where gradients are wanted. Here the
products of all inputs of a layer are one product of the graph, and its steps are an operator of ours:

    gates[t] = inputs[t] + h[t - 1] · weightᵀ           a product of torch's library, in place
    c[t], h[t] = cell(gates[t], c[t - 1])               a kernel

oneDNN, which torch calls, packs the weights of a layer in each call, and its steps with few rows take longer than
those products. With many rows it is as fast: without gradients it is then called by the graph, and a graph that is to
have gradients ends before the module, as with torch's own back ends.

torch's decomposition omits dropout between layers, so modules that drop out values in training stay out of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

from tilewright import language as tl
from tilewright.language.extra import libdevice
from tilewright.runtime.jit import jit

MODULES, DECOMPOSITIONS = "torch._dynamo.variables.builder", "torch._decomp.decompositions"
OPERATOR, GRADIENT = "tilewright::lstm_steps", "tilewright::lstm_steps_backward"
"""The operators of a layer's steps, and of their gradient."""
SCHEMAS = {
    OPERATOR: "(Tensor inputs, Tensor h, Tensor c, Tensor weight, bool reverse) -> "
    "(Tensor y, Tensor h, Tensor c, Tensor gates, Tensor cells)",
    GRADIENT: "(Tensor dy, Tensor dh, Tensor dc, Tensor gates, Tensor cells, Tensor c, Tensor weight, bool reverse) -> "
    "(Tensor dinputs, Tensor dh, Tensor dc)",
}
MOST_ROWS, LEAST_WIDTH = 8, 128
"""Max number of rows and min number of hidden values with which steps of ours take less time than those of oneDNN."""
BACKEND = "tilewright.torch_compile"
"""The module of the back end whose graphs have LSTMs."""
TAKEN = "_tilewright_takes_lstms"
"""The name in torch's context of a graph that says that it may have LSTMs: True if it must not end at one."""
BLOCK = 256
"""The number of hidden values that a program computes."""


@jit
def _cell(gates: Any, before: Any, after: Any, y: Any, width: Any, block: tl.constexpr) -> None:
    """Apply the gates of a row to its cells; they are stored as the gradient needs them."""
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < width
    gates += 4 * row * width + at
    at += row * width
    let_in = tl.sigmoid(tl.load(gates, inside))
    keep = tl.sigmoid(tl.load(gates + width, inside))
    new = libdevice.tanh(tl.load(gates + 2 * width, inside))
    let_out = tl.sigmoid(tl.load(gates + 3 * width, inside))
    cell = keep * tl.load(before + at, inside) + let_in * new
    tl.store(gates, let_in, inside)
    tl.store(gates + width, keep, inside)
    tl.store(gates + 2 * width, new, inside)
    tl.store(gates + 3 * width, let_out, inside)
    tl.store(after + at, cell, inside)
    tl.store(y + at, let_out * libdevice.tanh(cell), inside)


@jit
def _cell_backward(
    gates: Any, before: Any, after: Any, dy: Any, dh: Any, dc: Any, dgates: Any, width: Any, block: tl.constexpr
) -> None:
    """The gradients of a row's gates, and of its cells before, from those of its hidden values and cells after."""
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < width
    gates += 4 * row * width + at
    dgates += 4 * row * width + at
    at += row * width
    let_in = tl.load(gates, inside)
    keep = tl.load(gates + width, inside)
    new = tl.load(gates + 2 * width, inside)
    let_out = tl.load(gates + 3 * width, inside)
    shown = libdevice.tanh(tl.load(after + at, inside))
    of_hidden = tl.load(dy + at, inside) + tl.load(dh + at, inside)
    of_cell = tl.load(dc + at, inside) + of_hidden * let_out * (1 - shown * shown)
    tl.store(dgates, of_cell * new * let_in * (1 - let_in), inside)
    tl.store(dgates + width, of_cell * tl.load(before + at, inside) * keep * (1 - keep), inside)
    tl.store(dgates + 2 * width, of_cell * let_in * (1 - new * new), inside)
    tl.store(dgates + 3 * width, of_hidden * shown * let_out * (1 - let_out), inside)
    tl.store(dc + at, of_cell * keep, inside)


def take_modules(builder: Any) -> None:
    """Let the module `MODULES` trace LSTMs for this back end that it can compute as torch does."""
    wrapper, torch, config = builder.VariableBuilder, builder.torch, builder.config
    frames = import_module("torch._dynamo.eval_frame")
    original = wrapper.wrap_module

    def wrap_module(self: Any, module: Any) -> Any:
        output = self.tx.output
        if not (type(module) is torch.nn.LSTM and _is_ours(output.compiler_fn, frames) and _is_taken(module, torch)):
            return original(self, module)
        setattr(output.tracing_context, TAKEN, bool(self.tx.one_graph))
        with config.patch(allow_rnn=True):
            return original(self, module)

    wrapper.wrap_module = wrap_module


def _is_ours(backend: Any, frames: Any) -> bool:
    """Whether a back end of Dynamo is Tilewright's, with its mode and options around it."""
    inner = frames.innermost_backend(backend)
    return getattr(getattr(inner, "compiler_fn", inner), "__module__", None) == BACKEND


def _is_taken(module: Any, torch: Any) -> bool:
    """Whether an LSTM has float32 weights on the CPU, and neither projections nor dropout."""
    drops = module.dropout and module.training
    if drops or module.proj_size or torch.is_autocast_enabled("cpu"):
        return False
    return all(each.dtype == torch.float32 and each.device.type == "cpu" for each in module.parameters())


def keep_whole(torch: Any) -> None:
    """Forbid the graph that is compiled now, whose LSTMs have been decided on, to end at one."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and hasattr(context, TAKEN):
        setattr(context, TAKEN, True)


def replace_layers(decompositions: Any) -> None:
    """Let the module `DECOMPOSITIONS` make operators of ours of the LSTMs of marked graphs."""
    torch = decompositions.torch
    _define(torch)
    overload, keys = torch.ops.aten.lstm.input, torch._C.DispatchKey
    for key in (keys.Autograd, keys.CompositeImplicitAutograd):
        overload.py_kernels[key] = _replacing(overload.py_kernels[key], torch)
    overload._dispatch_cache.clear()


def _replacing(original: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    """A function for `aten.lstm.input` that computes layers by our operators where that is faster."""

    @wraps(original)
    def lstm(x: Any, hx: Any, weights: Any, biases: bool, layers: int, dropout: float, train: bool, *ways: bool) -> Any:
        is_whole = getattr(torch._guards.TracingContext.try_get(), TAKEN, None)
        tensors = (x, *hx, *weights)
        is_known = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in tensors)
        if is_whole is None or not is_known or hx[0].shape != hx[1].shape or (dropout and train):
            return original(x, hx, weights, biases, layers, dropout, train, *ways)
        rows, width = hx[0].shape[1:]
        is_fast = rows <= MOST_ROWS and width >= LEAST_WIDTH and 0 not in x.shape
        is_trained = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        if not is_fast and not is_trained:
            return original(x, hx, weights, biases, layers, dropout, train, *ways)
        if not is_fast and not is_whole:
            raise NotImplementedError("the gradient of an LSTM of this size is oneDNN's, outside of graphs")
        return _layers(torch, x, hx, weights, 4 if biases else 2, *ways)

    return lstm


def _layers(torch: Any, x: Any, hx: Any, weights: Sequence[Any], count: int, both: bool, batch_first: bool) -> Any:
    """All layers of an LSTM, each with `count` weights for a direction."""
    x = x.transpose(0, 1) if batch_first else x
    directions = [weights[at : at + count] for at in range(0, len(weights), count)]
    last: list[tuple[Any, Any]] = []
    while len(last) < len(directions):
        found = []
        for reverse in (False, True)[: 1 + both]:
            at = len(last)
            found.append(_layer(torch, x, hx[0][at], hx[1][at], directions[at], reverse=reverse))
            last.append(found[-1][1:3])
        x = torch.cat([y for y, *_ in found], -1) if both else found[0][0]
    h, c = (torch.stack(each) for each in zip(*last, strict=True))
    return x.transpose(0, 1) if batch_first else x, h, c


def _layer(torch: Any, x: Any, h: Any, c: Any, weights: Sequence[Any], *, reverse: bool) -> Any:
    """A layer in one direction: the product of all its inputs, and its steps."""
    of_inputs, of_hidden, *biases = weights
    inputs = torch.nn.functional.linear(x, of_inputs, sum(biases[1:], start=biases[0]) if biases else None)
    return torch.ops.tilewright.lstm_steps(inputs, h, c, of_hidden, reverse)


def _define(torch: Any) -> None:
    """Define `OPERATOR` and `GRADIENT`."""
    for name, schema in SCHEMAS.items():
        torch.library.define(name, schema)

    def forward(inputs: Any, h: Any, c: Any, weight: Any, reverse: bool) -> Any:
        gates = torch.empty(inputs.shape)
        cells = torch.empty(*inputs.shape[:2], weight.shape[1])
        y = torch.empty(cells.shape)
        c, turned, width = c.contiguous(), weight.t(), weight.shape[1]
        launch = _cell[_grid(h)]
        steps = list(zip(*(each.unbind(0) for each in (inputs, gates, cells, y)), strict=True))
        for given, of_step, after, shown in reversed(steps) if reverse else steps:
            torch.addmm(given, h, turned, out=of_step)
            launch(of_step, c, after, shown, width, BLOCK)
            h, c = shown, after
        return y, h.clone(), c.clone(), gates, cells

    def backward(dy: Any, dh: Any, dc: Any, gates: Any, cells: Any, c: Any, weight: Any, reverse: bool) -> Any:
        dgates = torch.empty(gates.shape)
        dh, dc = (each.clone(memory_format=torch.contiguous_format) for each in (dh, dc))
        before = _before(torch, cells, c, reverse=reverse).contiguous()
        width, launch = weight.shape[1], _cell_backward[_grid(dh)]
        steps = list(zip(*(each.unbind(0) for each in (gates, before, cells, dy.contiguous(), dgates)), strict=True))
        for of_step, cell, after, shown, found in steps if reverse else reversed(steps):
            launch(of_step, cell, after, shown, dh, dc, found, width, BLOCK)
            torch.mm(found, weight, out=dh)
        return dgates, dh, dc

    def forward_shapes(inputs: Any, h: Any, c: Any, weight: Any, reverse: bool) -> Any:
        cells = inputs.new_empty([*inputs.shape[:2], weight.shape[1]])
        new = [inputs.new_empty(each) for each in (cells.shape, h.shape, c.shape, inputs.shape)]
        return (*new, cells)

    def backward_shapes(dy: Any, dh: Any, dc: Any, gates: Any, *rest: Any) -> Any:
        return tuple(gates.new_empty(each.shape) for each in (gates, dh, dc))

    for name, function, shapes in ((OPERATOR, forward, forward_shapes), (GRADIENT, backward, backward_shapes)):
        torch.library.impl(name, "CPU", function)
        torch.library.register_fake(name, shapes)
    torch.library.register_autograd(OPERATOR, _gradient(torch), setup_context=_remember)


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    _, h, c, weight, ctx.reverse = inputs
    y, _, _, gates, cells = output
    ctx.mark_non_differentiable(gates, cells)
    ctx.save_for_backward(h, c, weight, y, gates, cells)


def _gradient(torch: Any) -> Callable[..., Any]:
    def gradient(ctx: Any, dy: Any, dh: Any, dc: Any, *_: Any) -> Any:
        h, c, weight, y, gates, cells = ctx.saved_tensors
        dinputs, dh, dc = torch.ops.tilewright.lstm_steps_backward(dy, dh, dc, gates, cells, c, weight, ctx.reverse)
        before = _before(torch, y, h, reverse=ctx.reverse)
        dweight = dinputs.flatten(0, 1).t() @ before.flatten(0, 1)
        return dinputs, dh, dc, dweight, None

    return gradient


def _before(torch: Any, values: Any, first: Any, *, reverse: bool) -> Any:
    """The values that each step begins with: those that the one before has left, or the first ones."""
    parts = [values[1:], first[None]] if reverse else [first[None], values[:-1]]
    return torch.cat(parts)


def _grid(h: Any) -> tuple[int, int]:
    """The programs of a step: by blocks of hidden values, and by rows."""
    rows, width = h.shape
    return -(-width // BLOCK), rows
