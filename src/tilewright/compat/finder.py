"""The import finder of `triton`, which makes modules from the table of `triton_modules.py`.

import triton                        # path/triton/__init__.py calls `show`
import triton.language.core          # no file: a module whose names are those of its row

Modules nevertheless have a file name and a source text, which says where their names come from: tracebacks,
`inspect.getsource`, `python -m` and `stubs.py` read it. It is not executed, because looking names up is faster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from os.path import join
from types import CodeType, ModuleType
from typing import Any, NamedTuple, cast

from tilewright.compat.aot_inductor import complete_wrappers
from tilewright.compat.torch_devices import answer_when_imported
from tilewright.compat.triton_modules import DEPRECATED, ITSELF, MODULES, NOT_ON_CPU, PACKAGES, SCRIPTS
from tilewright.compat.unavailable import unavailable
from tilewright.runtime.lazy_imports import deferred
from tilewright.runtime.tracebacks import show_uncaught
from tilewright.support import knobs
from tilewright.support.deprecation import warn_deprecated
from tilewright.support.diagnostics import present_errors

ROOT = "triton"
FOLDER = "tilewright.compat.path."
"""Before the full names of our modules, by which they are there where another `triton` is."""


class Shown(NamedTuple):
    """One name of a row.

    Attributes:
        name: what it is called in the module.
        source: the module that it is from.
        original: what it is called there; None for the module `source` itself.
        public: whether `__all__` has it.
    """

    name: str
    source: str
    original: str | None
    public: bool


def shown_names(module: str) -> Iterator[Shown]:
    """The names of a row, in order: of two of one name, the last counts. Under the name `*`, all of a module."""
    for source, names in MODULES[module].items():
        for text in names.split():
            name, _, original = text.partition("=")
            if source.partition(".")[0] in ("", ROOT):
                yield Shown(name, f"{source or module}.{name}", None, bool(source))
            else:
                yield Shown(name, source, original or name, not name.startswith("_"))


only_for_torch = False
"""Whether the program is not written for Triton: only torch looks for it, and nothing else of the process changes."""


def show(package: ModuleType) -> None:
    """Make `package` the package `triton`: its modules can be imported.

    For a program written for Triton, errors have Triton's form, compiled kernels are in Triton's cache folder, and
    torch answers queries about GPUs.
    """
    folder = package.__path__[0]
    _folders.update((join(folder, *name.split(".")[1:]), name) for name in PACKAGES)
    if _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
    sys.path_importer_cache.pop(folder, None)
    LOADER.exec_module(package)
    complete_wrappers()
    if not only_for_torch:
        knobs.cache.state_folder = ".triton"
        present_errors(by=deferred("compat.compile_errors", "as_triton"))
        show_uncaught()
        answer_when_imported()


_folders: dict[str, str] = {}
"""The packages by their folders, most of which do not exist."""


def _finder(folder: str) -> Finder:
    """The finder for a folder of the package; a hook of `sys.path_hooks`."""
    if folder not in _folders:
        raise ImportError(f"not of the package {ROOT}", path=folder)
    return Finder(folder, _folders[folder])


class Finder:
    """Finds the modules of one package."""

    def __init__(self, folder: str, package: str) -> None:
        self.folder, self.package = folder, package

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of the module, or None if there is none of that name."""
        place = join(self.folder, name.rpartition(".")[2])
        row = name.removeprefix(FOLDER)
        if row in SCRIPTS:
            return spec_from_file_location(name, f"{place}.py")
        if row not in MODULES:
            return None
        file = join(place, "__init__.py") if row in PACKAGES else f"{place}.py"
        spec = ModuleSpec(name, cast(Any, LOADER), origin=file, is_package=row in PACKAGES)
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(place)
        return spec

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """The modules of the package, and whether they have some of their own; `pkgutil` asks for it."""
        for name in sorted([*MODULES, *SCRIPTS]):
            package, _, last = name.rpartition(".")
            if package == self.package:
                yield prefix + last, name in PACKAGES


class Loader:
    """Fills modules with what their rows say; without the class of importlib.abc, which takes long to import."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Python makes it."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its names."""
        name = module.__name__.removeprefix(FOLDER)
        if name in ITSELF:
            sys.modules[module.__name__] = import_module(ITSELF[name])
            return
        if name in DEPRECATED:
            warn_deprecated(name, DEPRECATED[name])
        module.__doc__ = module.__doc__ or _summary(name)
        vars(module).update(_objects(name, in_folder=module.__name__ != name))

    def is_package(self, name: str) -> bool:
        """Whether the module has modules."""
        return name.removeprefix(FOLDER) in PACKAGES

    def get_code(self, name: str) -> CodeType:
        """The code that `python -m` executes."""
        return compile(self.get_source(name), f"<{name}>", "exec")

    def get_source(self, name: str) -> str:
        """A text that imports the module's names: also its stub, which leaves out `__getattr__`, good for any name."""
        if name in ITSELF:
            return f"from {ITSELF[name]} import *\n"
        lines = dict(line for shown in shown_names(name) for line in _imports(shown))
        if name in NOT_ON_CPU:
            lines["unavailable"] = "from tilewright.compat.unavailable import unavailable"
        for function, reason in NOT_ON_CPU.get(name, {}).items():
            lines[function] = f"{function} = unavailable({f'{name}.{function}'!r}, {reason!r})"
        return "\n".join([f'"""{_summary(name)}"""', "", *lines.values(), ""])


LOADER = Loader()


def _summary(name: str) -> str:
    return f"`{name}`: Triton's names of Tilewright's objects."


def _imports(shown: Shown) -> Iterator[tuple[str, str]]:
    """The lines that import a name or, of a module with `__all__`, all of its names."""
    names = getattr(import_module(shown.source), "__all__", ["*"]) if shown.original == "*" else [shown.name]
    for name in names:
        package, _, module = shown.source.rpartition(".")
        if name == "*":
            yield shown.source, f"from {shown.source} import *"
        elif shown.original is None:
            yield name, f"from {package} import {module} as {name}"
        elif name != "__getattr__":
            yield name, f"from {shown.source} import {name if shown.original == '*' else shown.original} as {name}"


def _objects(module: str, *, in_folder: bool) -> dict[str, Any]:
    """The objects that the names of a module stand for, and its `__all__`; modules by their full names `in_folder`."""
    found: dict[str, Any] = {}
    public: dict[str, None] = {}
    for shown in shown_names(module):
        is_ours = in_folder and shown.source.partition(".")[0] == ROOT
        source = import_module(FOLDER + shown.source if is_ours else shown.source)
        if shown.original == "*":
            names = public_names(source)
            found.update((name, getattr(source, name)) for name in names)
            public |= dict.fromkeys(names)
        else:
            found[shown.name] = source if shown.original is None else getattr(source, shown.original)
            if shown.public:
                public[shown.name] = None
    for name, reason in NOT_ON_CPU.get(module, {}).items():
        found[name] = unavailable(f"{module}.{name}", reason)
        public[name] = None
    return found | {"__all__": list(public)}


def public_names(module: ModuleType) -> list[str]:
    """The names in the `__all__` of a module; without one, those that are neither private nor of modules."""
    return getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
