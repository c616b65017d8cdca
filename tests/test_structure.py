"""The shape of the code base, checked like any other behaviour.

1. A module imports only from layers below its own, also under TYPE_CHECKING and inside functions.
2. Imports inside functions stand only in the files of `LAZY_IMPORTS`, each with its reason.
3. No file is longer than 500 lines, no function longer than 60.
4. Only `support/knob_kinds.py` reads the environment.
5. Only `support/system` asks which system this is, and for what not every system has.
6. A file of fewer than 60 lines is an entry point, or stands in `SMALL_FILES` with its reason; others join a neighbour.
7. A docstring names its subject: none begins with "What", "Which", "Who" or "Of", in tests, bench and examples neither.
8. A check that a line turns off (`noqa`, `type: ignore`) has its reason behind it.
9. The root of the repository has the files and folders of `AT_THE_ROOT` and no others.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tilewright"
MIN_FILE, MAX_FILE, MAX_FUNCTION = 60, 500, 60

# Lowest first; layers of one rank may not import each other.
RANKS: tuple[tuple[str, ...], ...] = (
    ("support",),
    ("ir",),
    ("layouts",),
    ("dialects",),
    ("semantics",),
    ("language",),
    ("analysis", "frontends", "interpreter"),
    ("transforms",),
    ("backends.base", "backends.llvm"),
    ("backends.cpu", "backends.nvidia", "backends.ptxsim"),
    ("backends.registry",),
    ("compiler",),
    ("runtime",),
    ("vectorizing",),
    ("tools",),
    ("compat",),
)
RANK = {layer: rank for rank, layers in enumerate(RANKS) for layer in layers}
APART = {("transforms", "interpreter"), ("transforms", "frontends")}
"""Pairs of layers that never import each other although their ranks would allow it."""

LAZY_IMPORTS = {
    "__init__.py": "names that many programs do without, with what only they need",
    "frontends/choice.py": "the front ends that few kernels take: their modules are a thirtieth of a first compilation",
    "runtime/lazy_imports.py": "the compiler: a process whose kernels come from the disk cache never imports it",
    "runtime/ray_executor.py": "Ray, which need not be installed",
    "ir/literals.py": "ml_dtypes: 4 ms; numbers of floats without a format in `struct` are read and rounded by it",
    "support/source.py": "unicodedata: needed only to point at places behind letters that are not ASCII",
    "support/system/posix.py": "mmap, grp and pwd: libraries that a launch from the disk cache does without",
    "compiler/cache_key.py": "importlib.util: needed only where llvmlite is in no folder of the path",
    "runtime/dependencies.py": "copy: needed only for kernels that read lists and the like",
    "support/nvidia_tools.py": "subprocess and shutil: 5 ms, needed only when one of NVIDIA's programs is looked for",
    "backends/cpu/backend.py": "the stages, which a process whose kernels come from the disk cache never runs",
    "backends/nvidia/backend.py": "the stages, which a process whose kernels come from the disk cache never runs",
    "backends/registry.py": "NVIDIA's back end, and importlib.metadata: for targets other than the CPU",
    "tools/main.py": "the modules of commands, some of which import all parts of the compiler, and one runs a program",
    "transforms/adopt_libraries.py": "libdevice, which only kernels need that call it by NVIDIA's names",
    "language/assembly.py": "what runs PTX without a GPU: programs without inline assembly do without it",
    "backends/llvm/machine.py": "llvmlite: 45 ms, and the figures of CPUs: for what is compiled; signals; its version",
}

SYSTEM_FOLDER = "support/system/"
MODULES_OF_SYSTEMS = frozenset({"fcntl", "grp", "mmap", "msvcrt", "platform", "pwd", "resource", "select"})
NAMES_OF_SYSTEMS = frozenset(
    {f"sys.{name}" for name in ("platform", "getwindowsversion")}
    | {
        f"os.{name}"
        for name in (
            *("name", "uname", "fork", "register_at_fork", "getuid", "geteuid", "getgid", "getegid", "cpu_count"),
            *("sched_getaffinity", "process_cpu_count", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "pread", "pwrite"),
            *("lockf", "kill", "chown", "fchmod", "umask", "setsid"),
        )
    }
    | {f"ctypes.{name}" for name in ("WinDLL", "windll", "get_last_error", "get_errno")}
    | {"signal.SIGKILL", "os.replace"}
)
_OWNERS = "|".join(sorted({name.partition(".")[0] for name in NAMES_OF_SYSTEMS}))
_NAMES = "|".join(sorted(name.partition(".")[2] for name in NAMES_OF_SYSTEMS))
MAY_ASK = re.compile(
    rf"from\s+(?:{_OWNERS})\s+import|hasattr\(\s*(?:{_OWNERS})\b|\b(?:{_OWNERS})\s*\.\s*(?:{_NAMES})\b"
)
"""Texts without any such words ask for no system: a fifth of the files is looked at more closely."""
ASKS_THE_SYSTEM = {
    "compat/c_modules.py": "platform: the key of Triton's own folders of C modules, as Triton spells it",
    "runtime/compile_task.py": "platform: the name of the host, for reports",
    "runtime/tuning/forked.py": "fork, and what ends a child: called only where SYSTEM.can_fork",
    "tools/doctor.py": "platform: the name of the Python",
}
"""Other files that ask for the system, each with its reason."""

COMMAND = 'if __name__ == "__main__":'
ENTRY_POINTS = (
    *("gluon.py", "knobs.py", "testing.py"),
    *("language/core.py", "runtime/allocation.py", "runtime/ray_executor.py"),
    *("language/gluon/nvidia/hopper/cluster.py", "language/gluon/nvidia/hopper/mbarrier.py"),
    *("tools/rules_table.py", "tools/settings_table.py"),
    *("runtime/drivers/cpu/native/text.py", "vectorizing/compile.py"),
)
"""Files that programs import by name, that are a command's page, or where a part that is imported late begins; beside
packages and files that Python runs."""
SMALL_FILES = {
    **dict.fromkeys(
        (
            *("backends/cpu/expand_dots.py", "backends/cpu/expand_histogram.py", "backends/cpu/expand_unsplat.py"),
            "backends/cpu/version_atomics.py",
            *("transforms/canonicalize.py", "transforms/gpu/barrier_layouts.py"),
        ),
        "a pass, and each pass has its file",
    ),
    **dict.fromkeys(("dialects/gluon.py", "dialects/math.py"), "a dialect, and each has its files"),
    **dict.fromkeys(
        (
            "runtime/drivers/cpu/native/systems/windows_faults.py",
            "support/system/macos.py",
        ),
        "one system's side of what others have in files of the same names",
    ),
    **dict.fromkeys(("interpreter/assembly.py", "interpreter/dots.py"), "one kind of ops, and each has its file"),
    **dict.fromkeys(("layouts/errors.py", "backends/ptxsim/errors.py"), "errors, which all files of the folder raise"),
    **dict.fromkeys(
        ("backends/nvidia/lower/tables.py", "backends/ptxsim/families.py"),
        "the table that joins those of all files of the folder",
    ),
    **dict.fromkeys(
        (
            *("support/annotations.py", "support/cached_property.py", "support/deprecation.py", "support/hashing.py"),
            *("support/kernel_output.py", "support/locks.py"),
        ),
        "one small thing that several layers take",
    ),
    "backends/cpu/launch_facts.py": "read where nothing is compiled, written where something is",
    "backends/cpu/sanitize/layout.py": "the numbers that sanitised kernels share with the runtime",
    "compat/torch_threads.py": "a choice that has nothing to do with what torch writes, as its neighbours have",
    "backends/llvm/debug_writer.py": "a writer that knows debug information, which the plain writer imports",
    "backends/nvidia/lower/cluster_launch.py": "the ops of cluster launch control, which nothing else shares",
    "backends/ptxsim/waiting.py": "a report on the machine, which imports it",
    "compat/unavailable.py": "what the finder and the driver refuse, in a word",
    "dialects/numpy_types.py": "it imports ml_dtypes, which programs whose kernels come from the cache do without",
    "frontends/signature.py": "what the compiler hands to every front end",
    "language/signatures.py": "it imports the types, which programs whose kernels come from the cache do without",
    "language/counterparts.py": "a table of names, which the runtime reads without the language",
    "runtime/drivers/cuda/structs.py": "copied into the bundles that run on machines without Tilewright",
    "semantics/named_ops.py": "how the nine files of Gluon's language for NVIDIA's GPUs make ops",
    "semantics/running_sums.py": "a type of the language, apart from those that every kernel has",
}
"""Other files of fewer than `MIN_FILE` lines, each with its reason."""

AT_THE_ROOT = frozenset(
    {
        *(".ci", ".gitignore", "Makefile", "pyproject.toml", "MANIFEST.in"),
        *("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"),
        *("bench", "docs", "examples", "packaging", "src", "tests"),
    }
)
"""All that git keeps at the root: notes and programs for one day are not committed."""

ENVIRONMENT = ("environ", "environb", "getenv", "getenvb")
ENVIRONMENT_READER = "support/knob_kinds.py"


def statements(tree: ast.Module) -> list[ast.AST]:
    """All statements, those inside others too: a tenth of the nodes, and all that most rules ask about."""
    found: list[ast.AST] = list(tree.body)
    for node in found:
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, field, ())
    return found


def layer_of(module: str) -> str | None:
    """`backends.cpu.pipeline` -> `backends.cpu`; None outside every layer (the package root)."""
    parts = module.split(".")
    return next((name for name in (".".join(parts[:2]), parts[0]) if name in RANK), None)


def imports(nodes: list[ast.AST], module: str, package: str) -> Iterator[tuple[int, str]]:
    """Every module of this package that is imported anywhere in the file, with its line."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == package:
                    yield node.lineno, alias.name.removeprefix(package).lstrip(".")
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *filter(None, [node.module])])
            elif (node.module or "").split(".")[0] == package:
                base = (node.module or "").removeprefix(package).lstrip(".")
            else:
                continue
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}".lstrip(".")


def imports_upward(here: str, there: str) -> bool:
    return here != there and (RANK[there] >= RANK[here] or (here, there) in APART)


def layer_violations(nodes: list[ast.AST], module: str, package: str) -> Iterator[tuple[int, str]]:
    here = layer_of(module)
    for line, target in imports(nodes, module, package):
        there = layer_of(target)
        if here and there and imports_upward(here, there):
            yield line, f"{here} must not import {there}"


def length_violations(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                yield node.lineno, f"{node.name} has {length} lines (limit {MAX_FUNCTION})"


def lazy_import_violations(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Imports inside functions; those of a function inside another are found twice."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in statements(ast.Module(node.body, [])):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    yield inner.lineno, "import at the top of the file (or list the file in LAZY_IMPORTS)"


def environment_violations(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        attribute = isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT
        imported = isinstance(node, ast.ImportFrom) and node.module == "os"
        if attribute or (imported and any(alias.name in ENVIRONMENT for alias in node.names)):
            yield node.lineno, "read the environment through support.knobs"


def system_violations(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        asks = "ask for the system through support.system"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if f"{node.value.id}.{node.attr}" in NAMES_OF_SYSTEMS:
                yield node.lineno, asks
        elif isinstance(node, ast.Import):
            if any(alias.name in MODULES_OF_SYSTEMS for alias in node.names):
                yield node.lineno, asks
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            if node.module in MODULES_OF_SYSTEMS or names & NAMES_OF_SYSTEMS:
                yield node.lineno, asks
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            owner, name = node.args
            asked = f"{ast.unparse(owner)}.{name.value}" if isinstance(name, ast.Constant) else ""
            if asked in NAMES_OF_SYSTEMS:
                yield node.lineno, asks


def is_small_for_a_reason(place: str, text: str) -> bool:
    """Whether a file is an entry point, or listed."""
    return place.endswith("__.py") or COMMAND in text or place in ENTRY_POINTS or place in SMALL_FILES


def violations(root: Path) -> Iterator[str]:
    """Every place under the package folder `root` that breaks a rule, as `path:line: what`."""
    for path in sorted(root.rglob("*.py")):
        text, relative = path.read_text(), path.relative_to(root)
        tree = ast.parse(text)
        nodes = statements(tree)
        parts = relative.with_suffix("").parts
        # The package file `a/__init__.py` is the module `a`; relative imports count from inside it.
        found = [*layer_violations(nodes, ".".join(parts), root.name), *length_violations(nodes)]
        if relative.as_posix() not in LAZY_IMPORTS:
            found += lazy_import_violations(nodes)
        if relative.as_posix() != ENVIRONMENT_READER and any(name in text for name in ENVIRONMENT):
            found += environment_violations(tree)
        place = relative.as_posix()
        may_ask = MAY_ASK.search(text) or any(name in text for name in MODULES_OF_SYSTEMS)
        if may_ask and not place.startswith(SYSTEM_FOLDER) and place not in ASKS_THE_SYSTEM:
            found += system_violations(tree)
        lines = text.count("\n")
        if lines < MIN_FILE and not is_small_for_a_reason(place, text):
            found.append((lines, f"{lines} lines (fewer than {MIN_FILE}): join a neighbour, or list it in SMALL_FILES"))
        if lines > MAX_FILE:
            found.append((MAX_FILE, f"{lines} lines (limit {MAX_FILE})"))
        yield from (f"{relative.as_posix()}:{line}: {what}" for line, what in sorted(set(found)))


def test_structure() -> None:
    assert list(violations(PACKAGE)) == []


def test_lists_name_only_files_that_exist() -> None:
    listed = {**LAZY_IMPORTS, **ASKS_THE_SYSTEM, **SMALL_FILES, **dict.fromkeys(ENTRY_POINTS)}
    assert [name for name in listed if not (PACKAGE / name).exists()] == []


def test_lists_of_small_files_name_only_small_ones() -> None:
    small = (*ENTRY_POINTS, *SMALL_FILES)
    assert [name for name in small if (PACKAGE / name).read_text().count("\n") >= MIN_FILE] == []


PLANTED = {
    "upward": ("ir/core.py", "import tilewright.semantics.binary\n", "ir must not import semantics"),
    "upward from": ("ir/core.py", "from tilewright import language\n", "ir must not import language"),
    "relative": ("ir/core.py", "from ..runtime import jit\n", "ir must not import runtime"),
    "sideways": ("frontends/a.py", "from tilewright.interpreter.eager import x\n", "must not import interpreter"),
    "transforms stay apart": ("transforms/a.py", "import tilewright.frontends.hir\n", "must not import frontends"),
    "type checking": (
        "ir/core.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tilewright.dialects import tt\n",
        "3: ir must not import dialects",
    ),
    "inside a function": ("runtime/a.py", "def f():\n    import json\n", "2: import at the top"),
    "environment": ("ir/core.py", "import os\nx = os.environ['A']\n", "2: read the environment"),
    "imported environment": ("ir/core.py", "from os import getenv\n", "1: read the environment"),
    "the system": ("runtime/a.py", "import sys\nx = sys.platform == 'linux'\n", "2: ask for the system"),
    "a module of one system": ("runtime/a.py", "import fcntl\n", "1: ask for the system"),
    "what one system has": ("ir/core.py", "import os\nx = hasattr(os, 'fork')\n", "2: ask for the system"),
    "a name of one system": ("ir/core.py", "from os import O_NOFOLLOW\n", "1: ask for the system"),
    "long function": ("ir/core.py", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
    "long file": ("ir/core.py", "x = 1\n" * 501, " lines (limit 500)"),
    "small file": ("ir/spans.py", "x = 1\n" * 59, "59 lines (fewer than 60)"),
}


@pytest.mark.parametrize("case", PLANTED)
def test_planted_violation_is_found(case: str, tmp_path: Path) -> None:
    name, text, expected = PLANTED[case]
    path = tmp_path / "tilewright" / name
    path.parent.mkdir(parents=True)
    path.write_text(text if case == "small file" else text + "y = 2\n" * MIN_FILE)

    found = list(violations(tmp_path / "tilewright"))

    assert len(found) == 1
    assert expected in found[0]


def test_permitted_imports_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "tilewright" / "runtime" / "a.py"
    path.parent.mkdir(parents=True)
    text = "import os\nfrom tilewright.compiler.artifact import Artifact\nfrom . import jit\n"
    path.write_text(text + "x = 1\n" * MIN_FILE)

    assert list(violations(tmp_path / "tilewright")) == []


FRAGMENT = re.compile(r"(Of|What|Who|Whose|Which|So many|So much)\b")
PERHAPS = re.compile(rf'"""{FRAGMENT.pattern}')
"""Stands in a file with fragments; only such files are parsed, which takes 4 s for all."""


def fragments(text: str) -> Iterator[str]:
    """The docstrings of a file, those of constants too, that begin as a part of a sentence."""
    for node in ast.walk(ast.parse(text)) if PERHAPS.search(text) else ():
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and FRAGMENT.match(value.value):
                yield f"{statement.lineno}: {value.value.splitlines()[0]}"


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "examples", "docs"])
def test_docstrings_are_no_fragments(folder: str) -> None:
    paths = (path for path in sorted((ROOT / folder).rglob("*.py")) if "errors" not in path.parts)  # wrong on purpose
    found = {str(path.relative_to(ROOT)): [*fragments(path.read_text())] for path in paths}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_planted_fragment_is_found() -> None:
    assert [*fragments('def f():\n    """What it gives."""\n\n\nX = 1\n"""Of so many."""\nS = "What?"\n')] == [
        "6: Of so many.",
        "2: What it gives.",
    ]


TURNED_OFF = re.compile(r"# (?:noqa(?:: [A-Z]+\d+(?:, [A-Z]+\d+)*)?|type: ignore(?:\[[\w, -]+\])?)(?P<reason>.*)")


def without_reason(text: str) -> list[str]:
    """The lines of a file that turn a check off and do not say why."""
    lines = [line for line in text.splitlines() if "noqa" in line or "type: ignore" in line]
    return [line.strip() for line in lines for match in TURNED_OFF.finditer(line) if not match["reason"].strip(" -#")]


@pytest.mark.parametrize("folder", [PACKAGE, Path(__file__).parent], ids=["src", "tests"])
def test_checks_are_turned_off_for_a_reason(folder: Path) -> None:
    others = (path for path in sorted(folder.rglob("*.py")) if path != Path(__file__))
    found = {str(path.relative_to(folder)): without_reason(path.read_text()) for path in others}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_planted_suppression_is_found() -> None:
    assert without_reason("x = 1  # noqa: E731\ny = 2  # type: ignore[misc]\nz = 3  # noqa: N801 - a reason\n") == [
        "x = 1  # noqa: E731",
        "y = 2  # type: ignore[misc]",
    ]


def at_the_root(paths: Iterable[str]) -> frozenset[str]:
    """The first parts of paths."""
    return frozenset(path.partition("/")[0] for path in paths)


def test_no_stray_files_at_the_root() -> None:
    git = shutil.which("git")
    command = [git or "git", "ls-files", "-z"]
    tracked = git and subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not tracked:
        pytest.skip("no checkout of git")
    assert at_the_root(tracked.strip("\0").split("\0")) == AT_THE_ROOT


def test_planted_stray_file_is_found() -> None:
    assert at_the_root(["README.md", "src/a.py", "try.py", "notes/a.md"]) - AT_THE_ROOT == {"notes", "try.py"}
