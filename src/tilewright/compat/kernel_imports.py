"""What kernels call of the language by its bare name, imported in the modules that torch writes for them.

    from tilewright.language import load        # a kernel says `load(x + lanes)`

Torch copies the text of a kernel and of the functions that it calls. It writes imports for names whose modules start
with `triton`, and ours are modules of Tilewright: `add_imports` lets it write those, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from typing import Any

from tilewright.runtime.jit import JITFunction
from tilewright.semantics.types import dtype

LANGUAGE = "tilewright.language"
WRITER = "user_defined_triton_kernel_transitive_closure_source_code"
"""The function of torch that gives the text of a kernel."""


def add_imports() -> None:
    """Let the texts that torch has of kernels import what they need."""
    wrapper = vars(import_module("torch._inductor.codegen.wrapper"))
    original = wrapper[WRITER]

    def with_imports(kernel: Any, *args: Any, **kwargs: Any) -> str:
        return "\n".join([original(kernel, *args, **kwargs), *sorted(set(_imports(kernel, set())))])

    wrapper[WRITER] = with_imports


def _imports(kernel: Any, seen: set[int]) -> Iterator[str]:
    """The imports of a kernel and of those that it calls."""
    if id(kernel) in seen:
        return
    seen.add(id(kernel))
    used = inspect.getclosurevars(kernel.fn)
    for name, value in {**used.globals, **used.nonlocals}.items():
        if isinstance(value, JITFunction):
            yield from _imports(value, seen)
        else:
            yield from _import(name, value)


def _import(name: str, value: Any) -> Iterator[str]:
    """The import of a function or a dtype of the language; nothing for other values."""
    module = LANGUAGE if isinstance(value, dtype) else getattr(value, "__module__", None) or ""
    if module.startswith(LANGUAGE):
        originals = (original for original, found in vars(import_module(module)).items() if found is value)
        yield from (f"from {module} import {original} as {name}" for original in islice(originals, 1))
