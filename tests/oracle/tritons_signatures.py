"""Run by an interpreter with Triton: members of the classes of `triton.language`, and how its functions are called.

Output: JSON, by owner (`tl`, `tensor`, `math`, …) and name, the parameters as text, None for what is no function.

    {"tl": {"arange": "start, end", …}, "tensor": {"T": null, …}}
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import triton.language as tl

CLASSES = ("tensor", "dtype", "constexpr", "tuple", "tensor_descriptor", "block_type", "pointer_type")
MODULES = ("math", "random", "standard", "target_info")
HIDDEN = ("_semantic", "_generator", "_builder")
IMPORTED = ("Callable", "List", "Optional", "TypeVar", "annotations", "constexpr_function", "jit", "wraps")
KINDS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**", "KEYWORD_ONLY": "!"}


def parameters(function: Any) -> str | None:
    """`x, axis=0, *more, !only_by_name=None`."""
    function = getattr(function, "fn", function)
    if not callable(function) or inspect.isclass(function):
        return None
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    return ", ".join(text(parameter) for parameter in found if parameter.name not in HIDDEN)


def text(parameter: inspect.Parameter) -> str:
    default = getattr(parameter.default, "value", parameter.default)
    shown = "" if parameter.default is parameter.empty else f"={default!r}"
    return KINDS.get(parameter.kind.name, "") + parameter.name + shown


def members(owner: Any) -> dict[str, str | None]:
    """The public names of a class or module."""
    names = [name for name in dir(owner) if not name.startswith("_") or (name[:2] == "__" and is_operator(owner, name))]
    own = [name for name in names if inspect.isclass(owner) or (name not in IMPORTED and (owner is tl or name != "T"))]
    return {
        name: parameters(getattr(owner, name)) for name in sorted(own) if not inspect.ismodule(getattr(owner, name))
    }


def is_operator(owner: Any, name: str) -> bool:
    return inspect.isclass(owner) and not hasattr(object, name) and callable(getattr(owner, name))


def main() -> None:
    """Write the members of the installed Triton."""
    owners = {"tl": tl, **{name: getattr(tl, name) for name in (*CLASSES, *MODULES)}}
    found = {name: members(owner) for name, owner in owners.items()}
    found["tl"] = {name: given for name, given in found["tl"].items() if name in tl.__all__}
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
