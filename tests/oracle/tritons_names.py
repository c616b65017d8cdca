"""The public names of Triton's modules, as JSON: run by an interpreter with Triton.

    {"triton.testing": ["Benchmark", "Mark", …], …}

A module has what it defines, a package also what it imports from others of Triton. Modules that cannot be imported
without torch and the like are left out, and so are names with an underscore in front.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

BINDINGS = ("ir", "interpreter", "llvm", "passes", "nvidia", "amd")
LEFT_OUT = {"__main__", "experimental", "include", "instrumentation", "lib", "triton_to_gluon_translator"}
"""Gluon, sanitizers, and what is no Python."""
FORMS = ("typing", "__future__", "_io")
"""Modules whose objects are no names that anybody asks for."""


def modules(root: Path) -> Iterator[str]:
    """All modules below the folder of the package."""
    yield from (f"triton._C.libtriton.{name}" for name in BINDINGS)
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        if not {"instrumentation", "include", "lib", "__main__", "experimental", "triton_to_gluon_translator"} & set(
            parts
        ):
            yield ".".join(parts).removesuffix(".__init__")


def found(name: str) -> Any:
    """A module, or an object of the compiled one; None when it cannot be imported here."""
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 - whatever it lacks
        parent, _, last = name.rpartition(".")
        return vars(sys.modules.get(parent, sys)).get(last)


def public(module: Any, name: str) -> Iterator[str]:
    """The names that `module` defines, or offers as a package."""
    package = hasattr(module, "__path__")
    for key in dir(module):
        value = getattr(module, key)
        home = getattr(value, "__module__", None)
        home = home if isinstance(home, str) else None
        if key.startswith("_") or type(value).__module__ in FORMS or isinstance(value, ModuleType):
            continue
        if home is None or home == name or (package and home.startswith("triton")):
            yield key


def main() -> None:
    """Print them."""
    import triton

    names = {}
    for name in modules(Path(triton.__file__).parent):
        module = found(name)
        if module is not None:
            names[name] = sorted(public(module, name))
    sys.stdout.write(json.dumps(names))


if __name__ == "__main__":
    main()
