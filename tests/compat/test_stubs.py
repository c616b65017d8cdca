"""Stubs of the package `triton`: what editors and type checkers see are the names that programs have."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.test_triton_package import asked

from tilewright.compat.stubs import main, stub_texts
from tilewright.compat.triton_modules import ITSELF, MODULES, SCRIPTS
from tilewright.tools.run_command import PACKAGE_PATH

PROGRAM = """
import triton
import triton.language as tl
import triton.tools.compile
from triton.language.extra import libdevice
from triton.runtime import driver
from triton.tools.mxfp import MXFP4Tensor

reveal_type(tl.float32)
reveal_type(driver.active)
reveal_type(triton.testing.nvsmi)
print(triton.__version__, triton.knobs.cache.dir, tl.core.load, libdevice.exp, triton.tools.compile.main, MXFP4Tensor)
triton.nothing
tl.nothing
libdevice.nothing
driver.nothing
"""
SEEN = """\
program.py:9: note: Revealed type is "tilewright.semantics.types.dtype"
program.py:10: note: Revealed type is "tilewright.compat.driver.DriverBase"
program.py:11: note: Revealed type is "def (*Any, **Any) -> Any"
program.py:13: error: Module has no attribute "nothing"  [attr-defined]
program.py:14: error: Module has no attribute "nothing"  [attr-defined]
program.py:15: error: Module has no attribute "nothing"  [attr-defined]
program.py:16: error: "DriverConfig" has no attribute "nothing"  [attr-defined]
Found 4 errors in 1 file (checked 1 source file)
"""


def imported_names(text: str) -> set[str]:
    """The names that a stub has, without those of `import *`."""
    body = ast.parse(text).body
    imports = {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imports | {ast.unparse(node.targets[0]) for node in body if isinstance(node, ast.Assign)}


@pytest.mark.needs_torch
def test_stubs_have_the_names_of_the_modules() -> None:
    names = sorted({*MODULES} - {*ITSELF})
    question = (
        f"import importlib, warnings\nwarnings.simplefilter('ignore')\n"
        f"print(json.dumps({{name: importlib.import_module(name).__all__ for name in {names}}}))"
    )

    found = asked(question)

    for path, text in stub_texts().items():
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        if name in found and "import *" not in text:
            assert {*found[name]} - imported_names(text) - {"annotations"} == set(), name
    assert len(stub_texts()) == len(MODULES) + len(SCRIPTS)


@pytest.mark.slow
def test_type_checker_follows_the_stubs(tmp_path: Path) -> None:
    """Bodies of functions in other files are not checked, which would take three times as long."""
    main([str(tmp_path / "typings")])
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ("strict = True", "follow_imports = silent", f"mypy_path = typings:{PACKAGE_PATH.parents[2]}")
    (tmp_path / "mypy.ini").write_text("\n".join(("[mypy]", *options)))

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.stdout == SEEN
