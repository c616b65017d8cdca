"""Annotations of a user's functions.

From Python 3.14 on they are evaluated lazily; undefined names then remain text, as all annotations do under `from
__future__ import annotations`.

>>> def kernel(x: Later, n: int): ...
>>> annotations_of(kernel)                              # 3.14; earlier versions refuse the definition
{'x': 'Later', 'n': <class 'int'>}
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, ForwardRef

_IS_LAZY = bool(sys.version_info >= (3, 14))
_FORWARD: dict[str, Any] = {}
if _IS_LAZY:
    from annotationlib import Format  # type: ignore[import-not-found]  # 3.14 has it

    _FORWARD["annotation_format"] = Format.FORWARDREF


def annotations_of(function: FunctionType) -> dict[str, Any]:
    """The annotations of a function by name of the parameter, and `return`."""
    if not _IS_LAZY:
        return function.__annotations__
    signature = signature_of(function)
    found = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    found["return"] = signature.return_annotation
    return {name: annotation for name, annotation in found.items() if annotation is not inspect.Signature.empty}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function.

    Raises:
        ValueError: there is none, as for some functions that are not written in Python.
        TypeError: `function` cannot be called.
    """
    signature = inspect.signature(function, **_FORWARD)
    if not _IS_LAZY:
        return signature
    parameters = [each.replace(annotation=_text(each.annotation)) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=_text(signature.return_annotation))


def _text(annotation: Any) -> Any:
    """The annotation, or its text when its names are not there."""
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
