"""`tilewright functions`: the functions of the language, as in `docs/functions.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum, EnumType
from typing import Any

from tilewright import language

HEAD = """# Functions of the language

The functions of `tilewright.language` for kernels, from the docstrings of the code.
`python -m tilewright functions` prints this page. [language.md](language.md) says how kernels are written.
"""

TOPICS = {
    "shaping": "Programs, new tiles, shapes",
    "memory": "Memory and atomics",
    "descriptors": "Tensor descriptors",
    "operations": "Elementwise, reductions, products",
    "scaled": "Microscaled products",
    "math": "Mathematics",
    "standard": "Written in the language itself",
    "sorting": "Sorting",
    "random": "Random numbers",
    "loops": "Loops",
    "control": "Control flow as functions",
    "debug": "Output, checks, hints",
}
"""The modules of the language by their last name, in the order of the page."""

HIDDEN = frozenset(["self", "_semantic", "_builder", "_generator"])


def page() -> str:
    return HEAD + "".join(f"\n## {title}\n\n{''.join(_rows(module))}" for module, title in TOPICS.items())


def _rows(module: str) -> Iterator[str]:
    yield "| | |\n|---|---|\n"
    for name in language.__all__:
        found = getattr(language, name)
        if getattr(found, "__module__", "") == f"{language.__name__}.{module}" and not isinstance(found, EnumType):
            yield f"| `{name}{_parameters(found)}` | {_summary(found)} |\n"


def _parameters(function: Any) -> str:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return ""
    return f"({', '.join(_parameter(p) for p in parameters if p.name not in HIDDEN)})"


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    name, default = star + parameter.name, parameter.default
    if default is parameter.empty:
        return name
    return f"{name}={default if isinstance(default, Enum) else repr(default).removeprefix('triton.language.')}"


def _summary(function: Any) -> str:
    """The first paragraph of the docstring on one line."""
    text = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")
