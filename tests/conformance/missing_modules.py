"""The modules of Triton that its tests of Gluon import and Tilewright leaves out.

AMD's part of Gluon is there as far as it has to be imported: modules with classes of layouts that mean nothing, and
with functions that refuse to be called.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from triton.experimental.gluon import language
from triton.experimental.gluon.language.nvidia import blackwell

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


def make_cga_layout(parts: Sequence[int], split: Sequence[int], order: Sequence[int]) -> list[list[int]]:
    """The steps of a cluster's CTAs, as Triton's function of that name in its native module gives them."""
    rows = []
    for axis in order:
        for bit in range(parts[axis].bit_length() - 1):
            step = 1 << bit if 1 << bit < split[axis] else 0
            rows.append([step if other == axis else 0 for other in range(len(parts))])
    return rows


def bind_missing_modules() -> None:
    """The names of Triton's modules that the tests import and Tilewright leaves out."""
    native = types.ModuleType("triton._C.libtriton.gluon_ir")
    vars(native)["make_cga_layout"] = make_cga_layout
    sys.modules[native.__name__] = native
    vars(language)["amd"] = sys.modules[LANGUAGE]
    if not hasattr(blackwell, "float2"):
        vars(blackwell)["float2"] = Refusing("float2")
