"""The facts that compile hooks get, and compilation from these facts.

    knobs.runtime.jit_cache_hook = lambda *, key, repr, fn, compile, is_manual_warmup, already_compiled: …
    kernel.preload(compile["specialization_data"])       # in another process

Names and entries are Triton's. `specialization_data` is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.backends.base import GPUTarget
from tilewright.language.callable import KeyedCallable
from tilewright.runtime import devices
from tilewright.runtime.arrays import CUDA_MEMORY
from tilewright.runtime.build import current_target
from tilewright.runtime.sources import ASTSource, Compilation
from tilewright.semantics.constexpr import constexpr
from tilewright.semantics.types import dtype
from tilewright.support.named_tuple import NamedTuple

DEVICE = 0
_DEFAULTS = {
    "num_warps": 4,
    "num_ctas": 1,
    "num_stages": 3,
    "enable_fp_fusion": True,
    "launch_cooperative_grid": False,
    "extern_libs": (),
}
"""The options that hooks get by name, and their values if the launch does not set them."""


class JitFunctionInfo(NamedTuple):
    """The kernel: its module's name, its qualified name, and the `JITFunction`."""

    module: str
    name: str
    jit_function: Any


def tell(hook: Callable[..., Any], compilation: Compilation) -> bool:
    """Call a hook; returns whether it forbids the compilation."""
    function, options = compilation.function, _DEFAULTS | dict(compilation.options)
    told = {name: options[name] for name in _DEFAULTS}
    if isinstance(told["extern_libs"], dict):
        told["extern_libs"] = tuple(told["extern_libs"].items())
    source = compilation.source
    types = ", ".join(f"{name}: {kind}" for name, kind in source.signature.items())
    shown = ", ".join(f"{name}={value}" for name, value in told.items() if name != "extern_libs")
    facts = {
        "key": compilation.key,
        "signature": source.signature,
        "device": DEVICE,
        "constants": source.constants,
        **told,
        "configs": [source.attrs],
        "specialization_data": specialization_data(compilation),
        "is_warmup": compilation.is_warmup,
    }
    answer = hook(
        key=compilation.key,
        repr=f"{function.fn.__qualname__}[{shown}]({types})",
        fn=JitFunctionInfo(function.fn.__module__, function.fn.__qualname__, function),
        compile=facts,
        is_manual_warmup=compilation.is_warmup,
        already_compiled=False,
    )
    return bool(answer)


def specialization_data(compilation: Compilation) -> str:
    """All of a compilation as JSON, for `preloaded`."""
    constants, attributes = compilation.source.constants, compilation.source.attrs
    python = compilation.function.fn
    data = {
        "name": f"{python.__module__}.{python.__qualname__}",
        "signature": compilation.source.signature,
        "constant_keys": list(constants),
        "constant_vals": list(map(_encoded, constants.values())),
        "attrs_keys": list(attributes),
        "attrs_vals": list(attributes.values()),
        "options": {name: _encoded(value) for name, value in compilation.options.items()},
        "key": compilation.key,
        "target": dict(vars(compilation.target)),
    }
    return json.dumps(data)


def preloaded(text: str, function: Any, functions: Mapping[str, Any]) -> Compilation:
    """The compilation of `function` that `text`, from `specialization_data`, is about.

    Args:
        functions: kernels by `module:name`, which may be constants.

    Raises:
        RuntimeError: the text is about another kernel or another machine.
    """
    found = restored(text, function, functions)
    target, here = found.target, current_target()
    if target != here and (target.backend != CUDA_MEMORY or devices.chosen() is not devices.BY_ARGUMENTS):
        raise RuntimeError(f"Specialization data is for {vars(target)} but trying to preload for {vars(here)}")
    return found


def restored(text: str, function: Any, functions: Mapping[str, Any]) -> Compilation:
    """Like `preloaded`, for whatever machine the text is about.

    Raises:
        RuntimeError: the text is about another kernel.
    """
    data = json.loads(text)
    if data["name"] != function._fn_name:
        raise RuntimeError(f"Specialization data is for {data['name']} but trying to preload for {function._fn_name}")
    target = GPUTarget(**data["target"])
    values = (_decoded(value, functions) for value in data["constant_vals"])
    constants = dict(zip(map(tuple, data["constant_keys"]), values, strict=True))
    attributes = dict(zip(map(tuple, data["attrs_keys"]), data["attrs_vals"], strict=True))
    source = ASTSource(function, data["signature"], constants, attributes)
    options = {name: _decoded(value, functions) for name, value in data["options"].items()}
    return Compilation.of(function, data["key"], source.specs, options, is_warmup=True, target=target)


def _encoded(value: Any) -> Any:
    if isinstance(value, KeyedCallable):
        return {"jit_function": f"{value.fn.__module__}:{value.fn.__qualname__}"}
    if isinstance(value, constexpr):
        return {"constexpr": _encoded(value.value)}
    if isinstance(value, dtype):
        return {"dtype": value.name}
    return list(map(_encoded, value)) if isinstance(value, tuple | list) else value


def _decoded(value: Any, functions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(part, functions) for part in value)
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "dtype":
        return dtype(content)
    if kind == "constexpr":
        return constexpr(_decoded(content, functions))
    if content not in functions:
        raise RuntimeError(f"Unable to resolve JITFunction {content} for preload")
    return functions[content]
