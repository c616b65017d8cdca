"""Calls of `@jit` functions from kernels.

Each combination of argument types and constants becomes one private function of the module:

    helper(x, 3)  →  tt.call @module.helper__fp32_c3(%x)    tt.func private @module.helper__fp32_c3(%a: f32) -> f32

The symbol encodes the function and its specialisation in Triton's spelling:

    scale(x, 2.0) in kernels.py         kernels.scale__fp32_c2.0
    Pair(x, 3).total()                  kernels.Pair.total__kernels.Pair<fp32S64S, i32>
    each((x, 1), relu)                  kernels.each__Tfp32_c1T_cJITFunction(kernels:relu)

A pass inlines them later. The combine functions of reductions are evaluated in place, inside the region.

Where a constant is required, ops on constants are folded at once:

    B = 4; tl.arange(0, B * 2)        %c4 = arith.constant 4; %8 = arith.muli %c4, %c2        8

This serves functions read from bytecode without source, in which `B: tl.constexpr = 4` leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.dialects.arith import Constant
from tilewright.dialects.arithmetic_semantics import is_defined
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_function import Func
from tilewright.frontends import hir
from tilewright.frontends.errors import BadArguments, NoinlineNeedsScalars, RecursionTooDeep
from tilewright.frontends.evaluate.explain import called_from
from tilewright.frontends.evaluate.frame import Frame
from tilewright.frontends.evaluate.tiles import TileDomain, TileFrame, known
from tilewright.ir.attributes import Attribute, FileLocation, Number, Symbol
from tilewright.ir.builder import Builder, PlacedBuilder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import FunctionType, Type, i1, i32
from tilewright.language.aggregates import FIELDS
from tilewright.language.callable import JITCallable
from tilewright.language.values import (
    Compound,
    Fixed,
    Structure,
    describe,
    flatten,
    rebuild,
    set_name,
)
from tilewright.language.values import Sequence as TupleLayout
from tilewright.semantics.active import context, emitting_into
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import CompilationError

MAX_DEPTH = 64
_MISSING = object()


class Specialised(NamedTuple):
    """A private function of the module."""

    symbol: str
    result: Structure
    result_types: tuple[Type, ...]


def call_kernel_function(
    frame: TileFrame, callee: JITCallable, arguments: list[Any], keywords: dict[str, Any], location: FileLocation
) -> Any:
    """Call another kernel function; its result.

    Args:
        frame: the frame of the caller.
        callee: the function.
        arguments, keywords: values of its parameters.
        location: the place of the call.

    Raises:
        CompilationError: the arguments do not fit, or the callee is wrong (the error shows both places).
    """
    domain = frame.domain
    function = domain.read(_python(callee))
    noinline = bool(getattr(callee, "noinline", False))
    bound = checked_arguments(frame, function, arguments, keywords, location)
    for parameter in function.parameters:
        if parameter.constant:
            bound[parameter.name] = known(frame, bound[parameter.name])
    if noinline:
        _check_scalars(frame, function, bound, location)
    frame.mark(location)
    handles: list[Value] = []
    layouts = {name: flatten(value, handles) for name, value in bound.items()}
    warps = context().worker_warps
    key = (callee.fn, warps, tuple(_key(layout) for layout in layouts.values()))
    found = domain.functions.get(key)
    if found is None:
        domain.functions[key] = RecursionTooDeep(function.name)
        try:
            found = _specialise(domain, function, layouts, [h.type for h in handles], warps, noinline=noinline)
        except CompilationError as error:
            raise called_from(error, location) from error.__cause__
        domain.functions[key] = found
    if isinstance(found, RecursionTooDeep):
        raise frame.fail(found, location)
    attributes: dict[str, Attribute] = {"callee": Symbol(found.symbol)}
    return rebuild(found.result, iter(frame.emitter.emit("tt.call", handles, found.result_types, attributes)))


def call_in_place(frame: TileFrame, callee: JITCallable, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Evaluate a kernel function right here, into the region that is being filled."""
    function = frame.domain.read(_python(callee))
    return evaluate_in_place(frame, function, bind_arguments(function, list(arguments), dict(keywords)))


def evaluate_in_place(frame: Frame[Any], function: hir.Function, names: dict[str, Any]) -> Any:
    """Evaluate a function whose parameters have the values `names` right here; what it returns."""
    caller = frame.emitter.location
    inner = Frame(frame.domain, function, frame.emitter, names, caller)
    try:
        return inner.evaluate()
    finally:
        frame.emitter.location = caller


def _python(callee: JITCallable) -> Any:
    """The Python function behind a kernel function."""
    return callee.fn


def bind_arguments(function: hir.Function, arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """The value of each parameter, in the order of the declaration.

    Raises:
        TypeError: an argument is missing, unknown or given twice.
    """
    bound: dict[str, Any] = {}
    defaults = function.defaults()
    positional = iter(arguments)
    rest = dict(keywords)
    code = function.python.__code__
    unnamed = code.co_varnames[: code.co_posonlyargcount]
    for parameter in function.parameters:
        name = parameter.name
        if parameter.variadic:
            bound[name] = tuple(positional)
            continue
        value = _MISSING if parameter.keyword_only else next(positional, _MISSING)
        if name in rest:
            if name in unnamed:
                raise TypeError(f"argument `{name}` cannot be given by name")
            if value is not _MISSING:
                raise TypeError(f"argument `{name}` is given twice")
            value = rest.pop(name)
        if value is _MISSING:
            value = defaults.get(name, _MISSING)
        if value is _MISSING:
            raise TypeError(f"argument `{name}` is missing")
        bound[name] = unwrap(value)
    surplus = len(list(positional))
    if surplus:
        raise TypeError(f"it takes {len(arguments) - surplus} positional arguments, not {len(arguments)}")
    if rest:
        raise TypeError(f"it has no parameter `{next(iter(rest))}`")
    return bound


def checked_arguments(
    frame: Frame[Any], function: hir.Function, arguments: list[Any], keywords: dict[str, Any], location: FileLocation
) -> dict[str, Any]:
    """The value of each parameter.

    Args:
        frame: the frame of the caller.
        function: the callee.
        arguments, keywords: values of its parameters.
        location: the place of the call.

    Raises:
        CompilationError: the call does not fit the parameters.
    """
    try:
        return bind_arguments(function, arguments, keywords)
    except TypeError as error:
        raise frame.fail(BadArguments(function.name, str(error)), location) from None


def _check_scalars(frame: TileFrame, function: hir.Function, bound: dict[str, Any], location: FileLocation) -> None:
    for name, value in bound.items():
        if isinstance(value, Tile) and value.extents:
            raise frame.fail(NoinlineNeedsScalars(function.name, name, describe(value)), location)


def _specialise(
    domain: TileDomain,
    function: hir.Function,
    layouts: dict[str, Structure],
    types: list[Type],
    warps: int,
    *,
    noinline: bool,
) -> Specialised:
    """Evaluate `function` for arguments of these layouts, and so many warps, into a new function of the module."""
    if domain.depth >= MAX_DEPTH:
        raise CompilationError(RecursionTooDeep(function.name))
    is_worker = bool(warps)
    name = _mangled(function.python, layouts.values()) + (f"_NW{warps}" if is_worker else "")
    symbol = _unique(name, domain.symbols)
    block = Block(types)
    op = function_op(function, symbol, block, public=False, noinline=noinline)
    if is_worker:
        op.attributes["ttg.num-warps"] = Number(warps, i32)
    domain.module.append(op)
    domain.depth += 1
    arguments = iter(block.args)
    names = {name: rebuild(layout, arguments) for name, layout in layouts.items()}
    result = evaluate_into(domain, function, block, names, warps, specialized=context().specialized)
    domain.depth -= 1
    handles: list[Value] = []
    layout = flatten(result, handles)
    finish_function(op, handles)
    return Specialised(symbol, layout, tuple(handle.type for handle in handles))


def function_op(function: hir.Function, symbol: str, block: Block, *, public: bool, noinline: bool) -> Func:
    """The tt.func with `block` as its body; its type is set when the body is done.

    Args:
        function: what was read of the function.
        symbol: the name of the op.
        block: its body, with the parameters as arguments.
        public: programs can launch it.
        noinline: calls of it stay calls.
    """
    attributes: dict[str, Any] = {
        "sym_name": symbol,
        "sym_visibility": "public" if public else "private",
        "noinline": noinline,
        "arg_attrs": tuple({} for _ in block.args),
    }
    return Func(OPS["tt.func"], (), (), attributes, [Region([block])], location=function.location)


def finish_function(op: Func, results: Sequence[Value]) -> None:
    """End the function with the return of `results`."""
    block = op.body
    last = block.last
    block.append(Op.create("tt.return", results, location=op.location if last is None else last.location))
    inputs, outputs = (tuple(value.type for value in values) for values in (block.args, results))
    op.type = FunctionType(inputs, outputs)


def evaluate_into(
    domain: TileDomain,
    function: hir.Function,
    block: Block,
    names: dict[str, Any],
    warps: int = 0,
    *,
    specialized: bool = False,
) -> Any:
    """Evaluate a function whose parameters have the values `names` into `block`; what it returns.

    Args:
        warps: how many execute it; 0 for those of the program.
        specialized: whether it is one of `gl.warp_specialize`, or called by one.
    """
    for name, value in names.items():
        set_name(value, name)
    options = domain.options
    frame = Frame(domain, function, _builder(block, annotated=function.annotated, is_gluon=bool(options.target)), names)

    def call(callee: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        return call_in_place(frame, callee, arguments, keywords)

    def call_apart(callee: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        place = frame.emitter.location
        assert isinstance(place, FileLocation), "functions of their own are called from a place in the program"
        return call_kernel_function(frame, callee, list(arguments), dict(keywords), place)

    facts = options.facts() | {"worker_warps": warps, "warps": warps or options.warps, "specialized": specialized}
    with emitting_into(frame.emitter, call=call, call_apart=call_apart, **facts):
        return frame.evaluate()


def _builder(block: Block, *, annotated: bool, is_gluon: bool) -> Builder:
    if is_gluon:
        return PlacedBuilder(block)
    return Builder(block) if annotated else SeeingBuilder(block)


def _unique(symbol: str, taken: set[str]) -> str:
    candidate, number = symbol, 1
    while candidate in taken:
        candidate, number = f"{symbol}_{number}", number + 1
    taken.add(candidate)
    return candidate


def _key(layout: Structure) -> Any:
    """A key that is equal for arguments that one specialised function can serve."""
    if isinstance(layout, TupleLayout):
        return (layout.container, *map(_key, layout.items))
    if isinstance(layout, Compound):
        return (layout.kind, layout.names, *map(_key, layout.items))
    if not isinstance(layout, Fixed):
        return layout
    value = layout.value
    if isinstance(value, float):
        return (float, repr(value))
    try:
        hash(value)
    except TypeError:
        return (id(value), repr(value))
    return (value.__class__, value)


class SeeingBuilder(Builder):
    """A builder that knows the values of scalars that are computed from constants alone."""

    def concrete(self, value: Value) -> int | float | bool | None:
        """The value of such a scalar; None for everything else."""
        known = _number(value)
        return bool(known) if known is not None and value.type is i1 else known


def _number(value: Value) -> int | float | None:
    op = value.op
    if op is None:
        return None
    if isinstance(op, Constant):
        number = op.value
        return number.value if isinstance(number, Number) else None
    if op.definition.semantics is None or not op.operands or op.regions:
        return None
    numbers = [_number(operand) for operand in op.operands]
    if None in numbers:
        return None
    arrays = [numpy_dtype(operand.type).type(n) for operand, n in zip(op.operands, numbers, strict=True)]
    if not is_defined(op, *arrays):
        return None
    found: int | float = op.definition.semantics(op, *arrays).item()
    return found


_LONGEST = 1000


def _mangled(function: Any, layouts: Iterable[Structure]) -> str:
    """The symbol of a function.

    Args:
        layouts: what each parameter is: types and constants.
    """
    arguments = "_".join(map(_text, layouts))
    return f"{_full_name(function)}__{arguments}".replace("'", "_sq_")[:_LONGEST]


def _text(layout: Structure) -> str:
    if isinstance(layout, TupleLayout):
        return f"T{'_'.join(map(_text, layout.items))}T"
    if isinstance(layout, Compound):
        return f"{_full_name(layout.kind)}<{', '.join(map(_text, layout.items))}>"
    return _constant(unwrap(layout.value)) if isinstance(layout, Fixed) else layout.mangle()


def _constant(value: Any) -> str:
    fields = getattr(type(value), FIELDS, None)
    if fields is not None:
        return _text(Compound(type(value), fields, tuple(Fixed(getattr(value, name)) for name in fields)))
    if isinstance(value, JITCallable):
        return f"cJITFunction({value.fn.__module__}:{value.fn.__qualname__})"
    if hasattr(value, "mangle") and not isinstance(value, type):
        return f"c{value.mangle()}"
    text = repr(value)
    return f"c{describe(value) if ' at 0x' in text else text}"  # an address is another one in every process


def _full_name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"
