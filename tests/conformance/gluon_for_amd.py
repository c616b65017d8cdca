"""AMD's part of Gluon, as far as Triton's tests need it to be imported: modules with classes of
layouts that mean nothing, and with functions that refuse to be called."""

from __future__ import annotations

import re
import sys
import types
from typing import Any, ClassVar, NoReturn

LANGUAGE = "triton.experimental.gluon.language.amd"
MODULES = ("", "_layouts", "cdna3", "cdna4", "cdna4.async_copy", "gfx1250", "gfx1250.async_copy")
MODULES += ("gfx1250.mbarrier", "gfx1250.cluster")
FOR_AMD = re.compile(r"HIP_TARGET|amd|cdna|rdna|gfx1250|[Pp]artitioned|efficient_padded|\bhip\b")


def _accept(_self: Any, *_arguments: Any, **_keywords: Any) -> None:
    """Layouts are made while modules of tests are imported."""


class Refusing(types.ModuleType):
    """A module all of whose names are there, and refuse to be called."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            return type(name, (), {"__init__": _accept})
        return Refusing(f"{self.__name__}.{name}")

    def __call__(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        raise NotImplementedError(f"{self.__name__}: nothing is compiled for AMD's GPUs")


for module in MODULES:
    full = f"{LANGUAGE}.{module}".rstrip(".")
    sys.modules[full] = Refusing(full)
