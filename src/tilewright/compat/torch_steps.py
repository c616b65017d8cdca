"""Operators of torch for recurrent layers in one direction, with their gradients.

Most are the steps of a layer, whose inputs have been multiplied by their weights before:

    gates[t] = inputs[t] + h[t - 1] · weightᵀ           a product of torch's library, in place
    c[t], h[t] = cell(gates[t], c[t - 1])               a kernel

`lstm_layer` is a whole layer of oneDNN's. Only oneDNN knows the size of what it keeps for the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tilewright.compat.torch_bridge import torch
from tilewright.compat.torch_cells import BLOCK, grid, gru_cell, gru_cell_backward, lstm_cell, lstm_cell_backward

LSTM = 2
"""oneDNN's number for an LSTM."""


def define() -> None:
    """Define the operators of `OPERATORS` in torch, as `torch.ops.tilewright`."""
    library = torch().library
    for name, (schema, function, shapes) in OPERATORS.items():
        library.define(f"tilewright::{name}", schema)
        library.impl(f"tilewright::{name}", "CPU", function)
        library.register_fake(f"tilewright::{name}", shapes)
    for name, (remember, gradient) in GRADIENTS.items():
        library.register_autograd(f"tilewright::{name}", gradient, setup_context=remember)


def _in_order(tensors: Sequence[Any], *, reverse: bool) -> list[Any]:
    """The parts of some tensors that each step has, in the order in which the steps are taken."""
    steps = list(zip(*(each.unbind(0) for each in tensors), strict=True))
    return steps[::-1] if reverse else steps


def _before(values: Any, first: Any, *, reverse: bool) -> Any:
    """The values that each step begins with: those that the one before has left, or the first ones."""
    parts = [values[1:], first[None]] if reverse else [first[None], values[:-1]]
    return torch().cat(parts)


def _copy(values: Any) -> Any:
    return values.clone(memory_format=torch().contiguous_format)


def _of_weight(found: Any, before: Any) -> Any:
    """The gradient of a weight, from those of its products and from what it was multiplied by, in all steps."""
    return found.flatten(0, 1).t() @ before.flatten(0, 1)


def _lstm_steps(inputs: Any, h: Any, c: Any, weight: Any, reverse: bool) -> Any:
    addmm, empty, width = torch().addmm, torch().empty, weight.shape[1]
    gates, cells = empty(inputs.shape), empty(*inputs.shape[:2], width)
    y = empty(cells.shape)
    c, turned, launch = c.contiguous(), weight.t(), lstm_cell[grid(h)]
    for given, of_step, after, shown in _in_order((inputs, gates, cells, y), reverse=reverse):
        addmm(given, h, turned, out=of_step)
        launch(of_step, c, after, shown, width, BLOCK)
        h, c = shown, after
    return y, h.clone(), c.clone(), gates, cells


def _lstm_steps_backward(dy: Any, dh: Any, dc: Any, gates: Any, cells: Any, c: Any, weight: Any, reverse: bool) -> Any:
    mm, dgates, dh, dc = torch().mm, torch().empty(gates.shape), _copy(dh), _copy(dc)
    before = _before(cells, c, reverse=reverse).contiguous()
    width, launch = weight.shape[1], lstm_cell_backward[grid(dh)]
    steps = (gates, before, cells, dy.contiguous(), dgates)
    for of_step, cell, after, shown, found in _in_order(steps, reverse=not reverse):
        launch(of_step, cell, after, shown, dh, dc, found, width, BLOCK)
        mm(found, weight, out=dh)
    return dgates, dh, dc


def _lstm_shapes(inputs: Any, h: Any, c: Any, weight: Any, reverse: bool) -> Any:
    cells = inputs.new_empty([*inputs.shape[:2], weight.shape[1]])
    new = [inputs.new_empty(each) for each in (cells.shape, h.shape, c.shape, inputs.shape)]
    return (*new, cells)


def _lstm_backward_shapes(dy: Any, dh: Any, dc: Any, gates: Any, *rest: Any) -> Any:
    return tuple(gates.new_empty(each.shape) for each in (gates, dh, dc))


def _remember_lstm(ctx: Any, inputs: Any, output: Any) -> None:
    _, h, c, weight, ctx.reverse = inputs
    y, _, _, gates, cells = output
    ctx.mark_non_differentiable(gates, cells)
    ctx.save_for_backward(h, c, weight, y, gates, cells)


def _lstm_gradient(ctx: Any, dy: Any, dh: Any, dc: Any, *_: Any) -> Any:
    h, c, weight, y, gates, cells = ctx.saved_tensors
    backward = torch().ops.tilewright.lstm_steps_backward
    dinputs, dh, dc = backward(dy, dh, dc, gates, cells, c, weight, ctx.reverse)
    return dinputs, dh, dc, _of_weight(dinputs, _before(y, h, reverse=ctx.reverse)), None


def _lstm_layer(x: Any, h: Any, c: Any, weights: Sequence[Any], reverse: bool) -> Any:
    with torch().enable_grad():  # for which oneDNN keeps what the gradient needs; this is not recorded
        y, h, c, kept = torch().ops.aten.mkldnn_rnn_layer(
            *(x.contiguous(), *weights, h.contiguous()[None], c.contiguous()[None]),
            *(reverse, [], LSTM, h.shape[1], 1, True, False, False, True),
        )
    return y, h[0], c[0], kept


def _lstm_layer_backward(
    gradients: Sequence[Any], x: Any, before: Sequence[Any], weights: Sequence[Any], after: Sequence[Any], reverse: bool
) -> Any:
    *states, kept = (each.contiguous() for each in after)
    y, *states = (states[0], *(each[None] for each in states[1:]))
    dy, dh, dc = (each.contiguous() for each in gradients)
    dx, *dweights, _, dh, dc = torch().ops.aten.mkldnn_rnn_layer_backward(
        *(x.contiguous(), *weights, *(each.contiguous()[None] for each in before), y, *states, dy, dh[None], dc[None]),
        *(reverse, LSTM, before[0].shape[1], 1, True, True, False, [], False, kept),
    )
    return dx, dh[0], dc[0], dweights


def _lstm_layer_shapes(x: Any, h: Any, c: Any, weights: Sequence[Any], reverse: bool) -> Any:
    symbols = import_module("torch.fx.experimental.symbolic_shapes")
    bytes_kept = torch().library.get_ctx()._shape_env.create_unbacked_symint()
    symbols._constrain_range_for_size(bytes_kept, min=0)
    y = x.new_empty([*x.shape[:2], h.shape[1]])
    return y, x.new_empty(h.shape), x.new_empty(c.shape), x.new_empty([bytes_kept], dtype=torch().uint8)


def _lstm_layer_backward_shapes(
    gradients: Sequence[Any], x: Any, before: Sequence[Any], weights: Sequence[Any], *rest: Any
) -> Any:
    return *(x.new_empty(each.shape) for each in (x, *before)), [x.new_empty(each.shape) for each in weights[:3]]


def _remember_layer(ctx: Any, inputs: Any, output: Any) -> None:
    x, h, c, weights, ctx.reverse = inputs
    ctx.mark_non_differentiable(output[-1])
    ctx.save_for_backward(x, h, c, *output, *weights)


def _layer_gradient(ctx: Any, *gradients: Any) -> Any:
    x, h, c, *rest = ctx.saved_tensors
    after, weights = rest[:4], rest[4:]
    backward = torch().ops.tilewright.lstm_layer_backward
    dx, dh, dc, dweights = backward(list(gradients[:3]), x, [h, c], weights, after, ctx.reverse)
    return dx, dh, dc, [*dweights, dweights[-1]], None  # both biases have the same gradient


def _gru_steps(inputs: Any, h: Any, weight: Any, bias: Any, reverse: bool) -> Any:
    addmm, empty, width = torch().addmm, torch().empty, weight.shape[1]
    y, of_hidden = empty(*inputs.shape[:2], width), empty(inputs.shape[1:])
    gates = empty(*inputs.shape[:2], 4 * width)
    h, turned, launch = h.contiguous(), weight.t(), gru_cell[grid(h)]
    for given, of_step, shown in _in_order((inputs.contiguous(), gates, y), reverse=reverse):
        addmm(bias, h, turned, out=of_hidden)
        launch(given, of_hidden, h, of_step, shown, width, BLOCK)
        h = shown
    return y, h.clone(), gates


def _gru_steps_backward(dy: Any, dh: Any, gates: Any, before: Any, weight: Any, reverse: bool) -> Any:
    addmm, width = torch().addmm, weight.shape[1]
    dinputs, dh = torch().empty(*dy.shape[:2], 3 * width), _copy(dh)
    dhidden, launch = torch().empty(dinputs.shape), gru_cell_backward[grid(dh)]
    steps = (gates, before.contiguous(), dy.contiguous(), dinputs, dhidden)
    for of_step, h, shown, of_inputs, of_hidden in _in_order(steps, reverse=not reverse):
        launch(of_step, h, shown, dh, of_inputs, of_hidden, width, BLOCK)
        addmm(dh, of_hidden, weight, out=dh)
    return dinputs, dhidden, dh


def _gru_shapes(inputs: Any, h: Any, weight: Any, *_: Any) -> Any:
    width = weight.shape[1]
    shapes = ([*inputs.shape[:2], width], h.shape, [*inputs.shape[:2], 4 * width])
    return tuple(inputs.new_empty(each) for each in shapes)


def _gru_backward_shapes(dy: Any, dh: Any, gates: Any, before: Any, weight: Any, reverse: bool) -> Any:
    of_inputs = [*dy.shape[:2], 3 * weight.shape[1]]
    return tuple(dy.new_empty(each) for each in (of_inputs, of_inputs, dh.shape))


def _remember_gru(ctx: Any, inputs: Any, output: Any) -> None:
    _, h, weight, _, ctx.reverse = inputs
    y, _, gates = output
    ctx.mark_non_differentiable(gates)
    ctx.save_for_backward(h, weight, y, gates)


def _gru_gradient(ctx: Any, dy: Any, dh: Any, _: Any) -> Any:
    h, weight, y, gates = ctx.saved_tensors
    before = _before(y, h, reverse=ctx.reverse)
    backward = torch().ops.tilewright.gru_steps_backward
    dinputs, dhidden, dh = backward(dy, dh, gates, before, weight, ctx.reverse)
    return dinputs, dh, _of_weight(dhidden, before), dhidden.sum((0, 1)), None


def _rnn_steps(inputs: Any, h: Any, weight: Any, is_relu: bool, reverse: bool) -> Any:
    addmm, turned = torch().addmm, weight.t()
    activate = torch().relu_ if is_relu else torch().tanh_
    y = torch().empty(inputs.shape)
    for given, shown in _in_order((inputs, y), reverse=reverse):
        addmm(given, h, turned, out=shown)
        h = activate(shown)
    return y, h.clone()


def _rnn_steps_backward(dy: Any, dh: Any, y: Any, weight: Any, is_relu: bool, reverse: bool) -> Any:
    add, mm, ops = torch().add, torch().mm, torch().ops.aten
    dinputs, dh = torch().empty(y.shape), _copy(dh)
    for given, shown, found in _in_order((dy, y, dinputs), reverse=not reverse):
        add(given, dh, out=found)
        if is_relu:
            ops.threshold_backward.grad_input(found, shown, 0, grad_input=found)
        else:
            ops.tanh_backward.grad_input(found, shown, grad_input=found)
        mm(found, weight, out=dh)
    return dinputs, dh


def _rnn_shapes(inputs: Any, h: Any, *_: Any) -> Any:
    return inputs.new_empty(inputs.shape), inputs.new_empty(h.shape)


def _rnn_backward_shapes(dy: Any, dh: Any, *_: Any) -> Any:
    return dy.new_empty(dy.shape), dy.new_empty(dh.shape)


def _remember_rnn(ctx: Any, inputs: Any, output: Any) -> None:
    _, h, weight, ctx.is_relu, ctx.reverse = inputs
    ctx.save_for_backward(h, weight, output[0])


def _rnn_gradient(ctx: Any, dy: Any, dh: Any) -> Any:
    h, weight, y = ctx.saved_tensors
    backward = torch().ops.tilewright.rnn_steps_backward
    dinputs, dh = backward(dy, dh, y, weight, ctx.is_relu, ctx.reverse)
    return dinputs, dh, _of_weight(dinputs, _before(y, h, reverse=ctx.reverse)), None, None


OPERATORS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "lstm_steps": (
        "(Tensor inputs, Tensor h, Tensor c, Tensor weight, bool reverse) -> "
        "(Tensor y, Tensor h, Tensor c, Tensor gates, Tensor cells)",
        _lstm_steps,
        _lstm_shapes,
    ),
    "lstm_steps_backward": (
        "(Tensor dy, Tensor dh, Tensor dc, Tensor gates, Tensor cells, Tensor c, Tensor weight, bool reverse) -> "
        "(Tensor dinputs, Tensor dh, Tensor dc)",
        _lstm_steps_backward,
        _lstm_backward_shapes,
    ),
    "lstm_layer": (
        "(Tensor x, Tensor h, Tensor c, Tensor[] weights, bool reverse) -> (Tensor y, Tensor h, Tensor c, Tensor kept)",
        _lstm_layer,
        _lstm_layer_shapes,
    ),
    "lstm_layer_backward": (
        "(Tensor[] gradients, Tensor x, Tensor[] before, Tensor[] weights, Tensor[] after, bool reverse) -> "
        "(Tensor dx, Tensor dh, Tensor dc, Tensor[] dweights)",
        _lstm_layer_backward,
        _lstm_layer_backward_shapes,
    ),
    "gru_steps": (
        "(Tensor inputs, Tensor h, Tensor weight, Tensor bias, bool reverse) -> (Tensor y, Tensor h, Tensor gates)",
        _gru_steps,
        _gru_shapes,
    ),
    "gru_steps_backward": (
        "(Tensor dy, Tensor dh, Tensor gates, Tensor before, Tensor weight, bool reverse) -> "
        "(Tensor dinputs, Tensor dhidden, Tensor dh)",
        _gru_steps_backward,
        _gru_backward_shapes,
    ),
    "rnn_steps": (
        "(Tensor inputs, Tensor h, Tensor weight, bool is_relu, bool reverse) -> (Tensor y, Tensor h)",
        _rnn_steps,
        _rnn_shapes,
    ),
    "rnn_steps_backward": (
        "(Tensor dy, Tensor dh, Tensor y, Tensor weight, bool is_relu, bool reverse) -> (Tensor dinputs, Tensor dh)",
        _rnn_steps_backward,
        _rnn_backward_shapes,
    ),
}
"""The operators: what they take and give, what computes them, and what computes the shapes of their results."""
GRADIENTS: dict[str, tuple[Callable[..., None], Callable[..., Any]]] = {
    "lstm_steps": (_remember_lstm, _lstm_gradient),
    "lstm_layer": (_remember_layer, _layer_gradient),
    "gru_steps": (_remember_gru, _gru_gradient),
    "rnn_steps": (_remember_rnn, _rnn_gradient),
}
"""The operators that have gradients: what keeps values for these, and what computes them."""
