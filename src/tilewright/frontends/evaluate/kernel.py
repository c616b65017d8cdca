"""The kernel: parameters become arguments of a public tt.func or constants, then its body is evaluated.

def kernel(x, n, BLOCK: tl.constexpr)  with  x: *fp32 divisible by 16, n: i32, BLOCK = 128

tt.func public @kernel(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import BadArguments, KernelReturnsValue
from tilewright.frontends.evaluate.inlining import evaluate_into, finish_function, function_op
from tilewright.frontends.evaluate.kernel_steps import HANDLERS
from tilewright.frontends.evaluate.tiles import EvaluateOptions, TileDomain
from tilewright.frontends.from_ast import read_function_once
from tilewright.frontends.signature import Parameter
from tilewright.ir.attributes import Attribute, Number, span_of
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.types import i32
from tilewright.language.values import describe, holder_of, is_compile_time, make_tuple
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import located


def evaluate_kernel(
    function: hir.Function,
    parameters: Sequence[Parameter],
    *,
    name: str,
    options: EvaluateOptions | None = None,
    read: Callable[[FunctionType], hir.Function] = read_function_once,
) -> Op:
    """Evaluate a kernel for the given parameters.

    Args:
        function: the kernel as read.
        parameters: one per parameter of the function that has no default, in any order; the others may be left out.
        name: the symbol of the kernel.
        options: what else evaluation depends on.
        read: reads the functions that the kernel calls.

    Returns:
        A builtin.module with the kernel and the private functions that it calls.

    Raises:
        CompilationError: the program is wrong.
        Unsupported: it uses what Tilewright does not have.
    """
    module = Block()
    domain = TileDomain(module, options or EvaluateOptions(), read, HANDLERS, symbols={name})
    block = Block()
    attributes: list[dict[str, Attribute]] = []
    names = bind_parameters(function, {parameter.name: parameter for parameter in parameters}, block, attributes)
    kernel = function_op(function, name, block, public=True, noinline=False)
    kernel.argument_attributes = attributes
    module.append(kernel)
    result = evaluate_into(domain, function, block, names)
    if not is_compile_time(result):
        raise located(KernelReturnsValue(describe(result)), span_of(_return_location(function)))
    finish_function(kernel, ())
    made = Op.create("builtin.module", regions=[Region([module])], location=function.location)
    made.attributes.update(module_attributes(domain.options))
    return made


def module_attributes(options: EvaluateOptions) -> dict[str, Attribute]:
    """The attributes of a module of Gluon that describe the device; in the tile language passes add them."""
    if not options.target:
        return {}
    return {
        "ttg.num-ctas": Number(options.ctas, i32),
        "ttg.num-warps": Number(options.warps, i32),
        "ttg.target": options.target,
        "ttg.threads-per-warp": Number(32, i32),
    }


def bind_parameters(
    function: hir.Function, parameters: dict[str, Parameter], block: Block, attributes: list[dict[str, Attribute]]
) -> dict[str, Any]:
    """The value of each parameter; run-time ones become arguments of `block`, with their attributes."""
    declared = {parameter.name for parameter in function.parameters}
    unknown = next((name for name in parameters if name not in declared), None)
    if unknown is not None:
        raise located(BadArguments(function.name, f"it has no parameter `{unknown}`"), span_of(function.location))
    names = {}
    defaults = function.defaults()
    for declaration in function.parameters:
        name = declaration.name
        if name in parameters:
            names[name] = _value(parameters[name], name, block, attributes)
        elif name in defaults:
            names[name] = unwrap(defaults[name])
        elif declaration.variadic:
            names[name] = ()
        else:
            raise located(BadArguments(function.name, f"argument `{name}` is missing"), span_of(declaration.location))
    return names


def _value(parameter: Parameter, name: str, block: Block, attributes: list[dict[str, Attribute]]) -> Any:
    if parameter.is_constant:
        return unwrap(parameter.constant)
    if parameter.elements is not None:
        items = [_value(item, f"{name}_{i}", block, attributes) for i, item in enumerate(parameter.elements)]
        return make_tuple(parameter.container, items)
    assert parameter.type is not None, f"parameter {name} has neither a type nor a value"
    divisibility: dict[str, Attribute] = {"tt.divisibility": Number(parameter.divisibility, i32)}
    attributes.append(divisibility if parameter.divisibility > 1 else {})
    return holder_of(parameter.type)(block.add_argument(parameter.type.ir, name), parameter.type)


def _return_location(function: hir.Function) -> Any:
    for step in hir.walk(function.body):
        if isinstance(step, hir.Return):
            return step.location
    return function.location
