"""The names of libdevice's functions in Triton are those that Gluon's calls have."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator

import pytest

from tilewright.language.extra import libdevice
from tilewright.language.extra.forms import ABSENT, nvidia_symbol

ASK = "import inspect, triton.language.extra.cuda.libdevice as library; print(inspect.getsource(library))"


def theirs() -> Iterator[tuple[str, str, str]]:
    """Function, types of arguments, and symbol of each call in Triton's file."""
    command = [os.environ["TRITON_PYTHON"], "-c", ASK]
    text = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    for function in ast.parse(text).body:
        for table in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            for types, found in zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ():
                names = [node.value for node in ast.walk(types or table) if isinstance(node, ast.Constant)]
                first = next(node for node in ast.walk(found) if isinstance(node, ast.Constant))
                yield function.name, ", ".join(map(str, names)), str(first.value)


@pytest.mark.needs_triton_python
def test_symbols_are_tritons() -> None:
    ours = {
        (name, types, nvidia_symbol(name, types, function.forms))
        for name, function in ((name, getattr(libdevice, name)) for name in libdevice.__all__)
        for types in (form.partition(" -> ")[0] for form in function.forms)
        if name not in ABSENT
    }
    assert ours == set(theirs())
