"""The package `triton`: its modules are real, their names are Triton's, their objects Tilewright's."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.tools.run_command import PACKAGE_PATH

FILES = sorted((PACKAGE_PATH / "triton").rglob("*.py"))
MODULES = [".".join(f.relative_to(PACKAGE_PATH).with_suffix("").parts).removesuffix(".__init__") for f in FILES]
ITSELF = {"triton.knobs"}
"""Modules that are one of Tilewright's, so that assignments to them count."""


def asked(question: str) -> Any:
    """What a process with our `triton` answers."""
    command = [sys.executable, "-c", f"import json, sys, triton\n{question}"]
    variables = os.environ | {"PYTHONPATH": str(PACKAGE_PATH)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.needs_torch
def test_every_module_can_be_imported_and_knows_its_place() -> None:
    question = (
        f"import importlib\nfound = {{name: importlib.import_module(name) for name in {MODULES}}}\n"
        "print(json.dumps({name: [m.__name__, m.__spec__.name, m.__file__] for name, m in found.items()}))"
    )

    found = asked(question)

    for name, file in zip(MODULES, FILES, strict=True):
        if name not in ITSELF:
            assert found[name] == [name, name, str(file)]


@pytest.mark.needs_torch
def test_every_name_of_all_exists() -> None:
    question = (
        f"import importlib\nfound = [importlib.import_module(name) for name in {MODULES}]\n"
        "missing = [f'{m.__name__}.{n}' for m in found for n in getattr(m, '__all__', ()) if not hasattr(m, n)]\n"
        "print(json.dumps(missing))"
    )

    assert asked(question) == []


NAMES = {
    "triton": "_C AsyncCompileMode CompilationError Config FutureKernel InterpreterError JITFunction KernelInterface "
    "MockTensor OutOfResources TensorWrapper TritonError aggregate autotune compile "
    "cdiv compiler constexpr_function heuristics jit knobs language must_use_result next_power_of_2 reinterpret "
    "runtime set_allocator testing tools",
    "triton.language": "load store dot constexpr math random standard core extra tensor float8e5 range make_block_ptr",
    "triton.language.core": "CONSTEXPR_0 builtin constexpr_type dtype get_int_dtype tensor _unwrap_if_constexpr",
    "triton.language.standard": "_log2 zeros_like",
    "triton.language.extra.libdevice": "exp tanh fast_dividef",
    "triton.runtime": "Autotuner Config JITFunction RedisRemoteCacheBackend TensorWrapper driver jit reinterpret",
    "triton.runtime._allocation": "NullAllocator",
    "triton.runtime.jit": "DependenciesFinder JITCallable JITFunction JitFunctionInfo MockTensor TensorWrapper "
    "compute_cache_key create_function_from_signature native_specialize_impl type_canonicalisation_dict",
    "triton.runtime.build": "compile_module_from_src",
    "triton.runtime.cache": "FileCacheManager RemoteCacheManager get_cache_manager triton_key",
    "triton.runtime.errors": "AutotunerError InterpreterError OutOfResources PTXASError",
    "triton.compiler": "ASTSource CompilationError CompiledKernel IRSource compile make_backend",
    "triton.compiler.compiler": "ASTSource IRSource make_backend",
    "triton.compiler.errors": "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct",
    "triton.testing": "Benchmark assert_close do_bench do_bench_cudagraph nvsmi perf_report",
    "triton.tools.mxfp": "MXFP4Tensor MXScaleTensor",
    "triton.tools.tensor_descriptor": "TensorDescriptor",
    "triton._C.libtriton.ir": "context load_dialects",
    "triton.backends": "backends",
    "triton.backends.compiler": "BaseBackend GPUTarget",
    "triton.runtime.autotuner": "Autotuner Config OutOfResources PTXASError",
    "triton.backends.driver": "DriverBase GPUDriver expand_signature",
    "triton._utils": "canonicalize_dtype",
}


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


def test_knobs_that_a_program_sets_count() -> None:
    question = (
        "from tilewright.support import knobs\nimport triton.knobs\ntriton.knobs.cache.dir = '/here'\n"
        "triton.knobs.propagate_env = False\nprint(json.dumps([knobs.cache.dir, knobs.propagate_env]))"
    )

    assert asked(question) == ["/here", False]


def test_cache_is_where_users_of_triton_look_for_it() -> None:
    question = (
        "from triton import knobs\ndel knobs.cache.dir\nprint(json.dumps([knobs.cache.dir, knobs.cache.dump_dir]))"
    )

    cache, dump = asked(f"import os\nos.environ.pop('TRITON_CACHE_DIR', None)\n{question}")

    assert cache.endswith("/.triton/cache")
    assert dump.endswith("/.triton/dump")


def test_installed_version_is_the_one_that_the_package_states() -> None:
    question = "from importlib.metadata import version\nprint(json.dumps([version('triton'), triton.__version__]))"

    assert len(set(asked(question))) == 1


def test_kernels_belong_to_the_module_that_defines_them(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("import triton\n@triton.jit\ndef nothing():\n    pass\n")
    question = (
        f"import pickle\nsys.path.insert(0, {str(tmp_path)!r})\nfrom kernels import nothing\n"
        "print(json.dumps([nothing.__module__, pickle.loads(pickle.dumps(nothing)) is nothing]))"
    )

    assert asked(question) == ["kernels", True]


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
