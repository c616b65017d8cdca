"""The package `triton`: its modules are real, their names are Triton's, their objects Tilewright's."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tilewright.compat.triton_modules import ITSELF, PACKAGES, SCRIPTS
from tilewright.compat.triton_modules import MODULES as ROWS
from tilewright.tools.run_command import PACKAGE_PATH

MODULES = sorted([*ROWS, *SCRIPTS])


ANSWERING = """
import json, os, sys, traceback, triton
for question in map(json.loads, sys.stdin):
    child = os.fork()
    if not child:
        try:
            exec(question, {"json": json, "sys": sys, "triton": triton})
        except BaseException:
            print(traceback.format_exc())
            os._exit(sys.stdout.flush() or 1)
        os._exit(sys.stdout.flush() or 0)
    print("status", os.waitpid(child, 0)[1], flush=True)
"""


def asked(question: str, *, path: str = str(PACKAGE_PATH)) -> Any:
    """The answer of a process that has just imported our `triton`: a fork of one that does nothing else."""
    process = answering(path)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{json.dumps(question)}\n")
    process.stdin.flush()
    said: list[str] = []
    while not said or not said[-1].startswith("status "):
        said.append(process.stdout.readline())
        assert said[-1], "the process is gone"
    assert said[-1] == "status 0\n", "".join(said)
    return json.loads("".join(said[:-1]))


@cache
def answering(path: str) -> subprocess.Popen[str]:
    """The process that imports `triton` from a path and answers questions, each in a fork."""
    variables = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", ANSWERING]
    process = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)
    return process


@pytest.mark.spared
@pytest.mark.needs_torch
def test_every_module_can_be_imported_and_knows_its_place() -> None:
    question = (
        f"import importlib\nfound = {{name: importlib.import_module(name) for name in {MODULES}}}\n"
        "print(json.dumps({name: [m.__name__, m.__spec__.name, m.__file__] for name, m in found.items()}))"
    )

    found = asked(question)

    for name in {*MODULES} - {*ITSELF}:
        place = PACKAGE_PATH.joinpath(*name.split("."))
        file = place / "__init__.py" if name in PACKAGES else place.with_name(f"{place.name}.py")
        assert found[name] == [name, name, str(file)]


@pytest.mark.spared
@pytest.mark.needs_torch
def test_texts_of_modules_import_what_the_modules_have() -> None:
    """The text that programs are shown says the same as the table, but for `__getattr__` and modules."""
    question = f"""
import importlib, inspect, types, warnings
warnings.simplefilter("ignore")
wrong = []
for name in {sorted({*ROWS} - {*ITSELF} - {"triton"})}:
    module, copy = importlib.import_module(name), {{}}
    exec(inspect.getsource(module), copy)
    exec(module.__loader__.get_code(name), copy)
    for key in module.__all__:
        same = copy[key] is getattr(module, key) or copy[key].__module__ == "tilewright.compat.unavailable"
        wrong += [] if same else [name + "." + key]
print(json.dumps(wrong))
"""

    assert asked(question) == []


@pytest.mark.spared
@pytest.mark.needs_torch
def test_package_can_be_walked_over() -> None:
    question = (
        "import importlib, pkgutil, warnings\nwarnings.simplefilter('ignore')\n"
        "def walk():\n    return [[m.name, m.ispkg] for m in pkgutil.walk_packages(triton.__path__, 'triton.')]\n"
        "first = walk()\nimportlib.invalidate_caches()\nsys.path_importer_cache.clear()\n"
        "print(json.dumps([first, walk()]))"
    )

    first, again = asked(question)

    assert first == again == [[name, name in PACKAGES] for name in MODULES if name != "triton"]


@pytest.mark.spared
def test_modules_that_are_not_there() -> None:
    question = (
        "import importlib.util\nerrors = []\n"
        "for name in ('triton.nothing', 'triton.language.jit', 'triton.errors.x'):\n"
        "    try:\n        __import__(name)\n    except ModuleNotFoundError as error:\n"
        "        errors.append(str(error))\n"
        "print(json.dumps([errors, importlib.util.find_spec('triton.language.nothing')]))"
    )

    errors, spec = asked(question)

    assert errors[:2] == ["No module named 'triton.nothing'", "No module named 'triton.language.jit'"]
    assert errors[2] == "No module named 'triton.errors.x'; 'triton.errors' is not a package"
    assert spec is None


@pytest.mark.spared
def test_package_is_reloaded_and_found_by_a_relative_path() -> None:
    question = (
        "import importlib, importlib.resources, os\nimport triton.language as tl\nload = tl.load\ntl.load = None\n"
        "importlib.reload(triton)\nimportlib.reload(tl)\nprint(json.dumps([tl.load is load, "
        "importlib.resources.files('triton').joinpath('__init__.py').is_file(), os.path.isabs(triton.__path__[0])]))"
    )

    assert asked(question, path=os.path.relpath(PACKAGE_PATH)) == [True, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compile", "link"])
def test_scripts_are_started_by_name_and_by_path(command: str) -> None:
    variables = os.environ | {"PYTHONPATH": str(PACKAGE_PATH)}
    starts = ["-m", f"triton.tools.{command}"], [str(PACKAGE_PATH / "triton" / "tools" / f"{command}.py")]
    for start in starts:
        done = subprocess.run(
            [sys.executable, *start, "--help"], env=variables, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: tilewright {command}")


@pytest.mark.spared
@pytest.mark.needs_torch
def test_every_name_of_all_exists() -> None:
    question = (
        f"import importlib\nfound = [importlib.import_module(name) for name in {MODULES}]\n"
        "missing = [f'{m.__name__}.{n}' for m in found for n in getattr(m, '__all__', ()) if not hasattr(m, n)]\n"
        "print(json.dumps(missing))"
    )

    assert asked(question) == []


NAMES = {
    "triton": "_C compiler knobs language runtime testing tools",
    "triton.language": "math random standard core extra",
    "triton.language.core": "_unwrap_if_constexpr",
    "triton.language.standard": "_log2",
    "triton.runtime": "jit",
    "triton.runtime.jit": "native_specialize_impl",
    "triton.runtime.autotuner": "OutOfResources PTXASError",
    "triton.tools.mxfp": "MXFP4Tensor MXScaleTensor",
}
"""Names besides those of `triton_names.json`: private ones, modules, and what Triton's modules have by chance."""


@pytest.mark.spared
def test_names_that_programs_use_exist() -> None:
    question = (
        f"import importlib\nnames = {NAMES}\n"
        "print(json.dumps([f'{m}.{n}' for m, text in names.items() for n in text.split()\n"
        "                  if not hasattr(importlib.import_module(m), n)]))"
    )

    assert asked(question) == []


def test_objects_are_those_of_tilewright() -> None:
    question = (
        "import tilewright, tilewright.language, triton.language as tl\n"
        "same = [triton.jit is tilewright.jit, tl.load is tilewright.language.load, tl.core.load is tl.load]\n"
        "print(json.dumps([*same, triton.runtime.jit.JITFunction is tilewright.JITFunction]))"
    )

    assert asked(question) == [True] * 4


@pytest.mark.spared
def test_knobs_that_a_program_sets_count() -> None:
    question = (
        "from tilewright.support import knobs\nimport triton.knobs\ntriton.knobs.cache.dir = '/here'\n"
        "triton.knobs.propagate_env = False\nprint(json.dumps([knobs.cache.dir, knobs.propagate_env]))"
    )

    assert asked(question) == ["/here", False]


@pytest.mark.spared
def test_cache_is_where_users_of_triton_look_for_it() -> None:
    question = (
        "from triton import knobs\ndel knobs.cache.dir\nprint(json.dumps([knobs.cache.dir, knobs.cache.dump_dir]))"
    )

    cache, dump = asked(f"import os\nos.environ.pop('TRITON_CACHE_DIR', None)\n{question}")

    assert cache.endswith("/.triton/cache")
    assert dump.endswith("/.triton/dump")


@pytest.mark.spared
def test_import_leaves_the_compiler_alone() -> None:
    """The names that stand for Triton's come without what compiles: kernels may all be in the cache."""
    compiling = ("tilewright.frontends", "tilewright.transforms", "tilewright.compiler.compile", "llvmlite")
    question = f"import triton.language\nprint(json.dumps([name for name in {compiling} if name in sys.modules]))"

    assert asked(question) == []


@pytest.mark.spared
def test_installed_version_is_the_one_that_the_package_states() -> None:
    question = "from importlib.metadata import version\nprint(json.dumps([version('triton'), triton.__version__]))"

    assert len(set(asked(question))) == 1


@pytest.mark.spared
def test_kernels_belong_to_the_module_that_defines_them(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("import triton\n@triton.jit\ndef nothing():\n    pass\n")
    question = (
        f"import pickle\nsys.path.insert(0, {str(tmp_path)!r})\nfrom kernels import nothing\n"
        "print(json.dumps([nothing.__module__, pickle.loads(pickle.dumps(nothing)) is nothing]))"
    )

    assert asked(question) == ["kernels", True]


@pytest.mark.spared
def test_what_needs_a_gpu_says_so_when_called() -> None:
    question = (
        "import triton.testing\ntry:\n    triton.testing.nvsmi(['clocks'])\nexcept NotImplementedError as error:\n"
        "    print(json.dumps(str(error)))"
    )

    assert asked(question) == "triton.testing.nvsmi does not exist on a CPU: it asks the driver of an NVIDIA GPU"


@pytest.mark.slow
@pytest.mark.needs_torch
def test_driver_is_the_cpu() -> None:
    question = (
        "from triton.runtime import driver\ndevice = driver.active.get_active_torch_device()\n"
        "figures = driver.active.utils.get_device_properties(device.index)\n"
        "target = driver.active.get_current_target()\n"
        "print(json.dumps([str(device), target.backend, 128 // target.warp_size, min(figures.values()) > 0]))"
    )

    assert asked(question) == ["cpu", "cpu", 128, True]


@pytest.mark.slow
@pytest.mark.needs_torch
@pytest.mark.needs_gxx  # torch.compile starts it
def test_torch_compile_finds_what_it_asks_triton_for(tmp_path: Path) -> None:
    question = (
        f"import os\nos.environ['TORCHINDUCTOR_CACHE_DIR'] = {str(tmp_path)!r}\nimport torch\n"
        "x = torch.arange(9.0) - 4\ncompiled = torch.compile(lambda x: torch.relu(x) * 2)\n"
        "print(json.dumps((compiled(x) == torch.relu(x) * 2).all().item()))"
    )

    assert asked(question) is True


def test_package_is_not_importable_without_being_asked_for() -> None:
    """Importing Tilewright must not put our `triton` in anybody's way."""
    importlib.import_module("tilewright")

    assert str(PACKAGE_PATH) not in sys.path
