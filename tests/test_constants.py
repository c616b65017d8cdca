"""Numbers and tables that code decides by, module by module: costs, limits, sizes, codes.

    analysis.integer_forms MAX_TERMS 16

What a limit is for is tested where it is used, mostly far from it; that it has changed is to be seen here.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "tilewright"
LEFT_OUT = ("compat", "runtime/ray_executor", "runtime/dask_arrays", "support/system", "torch_compile", "__main__")
LEFT_OUT += ("backends/llvm/nvptx_worker", "compiler/cache_key", "frontends/from_bytecode/opcodes")
LEFT_OUT += ("runtime/bytecode_names", "runtime/drivers/cpu/p", "runtime/foreign", "runtime/self_test")
LEFT_OUT += ("support/annotations", "vectorizing/process")
"""Files that need other packages or another system, that are programs, or whose tables are Python's own."""
LONGEST = 60
"""The letters of a value that stands there as it is; of a longer one there is a number."""


def modules() -> Iterator[tuple[str, list[str]]]:
    """Each module, and the names in capitals that it assigns values to."""
    for file in sorted(PACKAGE.rglob("*.py")):
        name = str(file.relative_to(PACKAGE).with_suffix("")).removesuffix("/__init__")
        if not name.startswith(LEFT_OUT):
            names = [target for statement in ast.parse(file.read_text()).body for target in assigned(statement)]
            yield name.replace("/", "."), names


def assigned(statement: ast.stmt) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and node.id.isupper():
                yield node.id


def plain(value: Any) -> str | None:
    """The text of numbers, words, and tables of these; None where a value has other parts."""
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, dict):
        pairs = [(plain(key), plain(each)) for key, each in value.items()]
        known = sorted(f"{key}: {each}" for key, each in pairs if key is not None and each is not None)
        return f"{{{', '.join(known)}}}" if known or not pairs else None
    if isinstance(value, (tuple, list, set, frozenset)):
        parts = [plain(each) for each in value]
        if None in parts:
            return None
        texts = [str(part) for part in parts]
        return f"({', '.join(sorted(texts) if isinstance(value, (set, frozenset)) else texts)})"
    return None


@pytest.mark.quick
def test_constants(golden: Callable[[str, str], None]) -> None:
    lines = []
    for name, names in modules():
        module = importlib.import_module(f"tilewright.{name}".removesuffix(".__init__")) if names else None
        for constant in names:
            text = plain(getattr(module, constant, None))
            if text is not None and any(letter.isdigit() for letter in text):
                shown = text if len(text) <= LONGEST else f"{len(text)} letters, {crc32(text.encode()):08x}"
                lines.append(f"{name} {constant} {shown}\n")
    golden("".join(lines), "constants.txt")
