"""Knobs: reading, setting, scopes, copies, hooks, and the names that Triton has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tilewright
from tilewright import knobs
from tilewright.support import knobs as same_knobs
from tilewright.support.nvidia_tools import NvidiaTool
from tilewright.tools.settings_table import page

pytestmark = pytest.mark.quick

GROUPS = {
    "build": "cc=CC cudacrt_path=TRITON_CUDACRT_PATH cudart_path=TRITON_CUDART_PATH",
    "redis": "key_format=TRITON_REDIS_KEY_FORMAT host=TRITON_REDIS_HOST port=TRITON_REDIS_PORT",
    "cache": "home_dir=TRITON_HOME dump_dir=TRITON_DUMP_DIR override_dir=TRITON_OVERRIDE_DIR dir=TRITON_CACHE_DIR "
    "manager_class=TRITON_CACHE_MANAGER remote_manager_class=TRITON_REMOTE_CACHE_BACKEND",
    "compilation": "override=TRITON_KERNEL_OVERRIDE dump_ir=TRITON_KERNEL_DUMP "
    "dump_ir_extract_di_local_variables=LLVM_EXTRACT_DI_LOCAL_VARIABLES store_binary_only=TRITON_STORE_BINARY_ONLY "
    "always_compile=TRITON_ALWAYS_COMPILE use_ir_loc=USE_IR_LOC enable_asan=TRITON_ENABLE_ASAN "
    "disable_line_info=TRITON_DISABLE_LINE_INFO front_end_debugging=TRITON_FRONT_END_DEBUGGING "
    "allow_non_constexpr_globals=TRITON_ALLOW_NON_CONSTEXPR_GLOBALS "
    "fpsan_homomorphic_casts=TRITON_FPSAN_HOMOMORPHIC_CASTS instrumentation_mode=TRITON_INSTRUMENTATION_MODE",
    "autotuning": "cache=TRITON_CACHE_AUTOTUNING print=TRITON_PRINT_AUTOTUNING",
    "runtime": "interpret=TRITON_INTERPRET debug=TRITON_DEBUG override_arch=TRITON_OVERRIDE_ARCH",
    "language": "fp32_default=TRITON_F32_DEFAULT default_fp_fusion=TRITON_DEFAULT_FP_FUSION "
    "force_disable_fp_fusion=TRITON_FORCE_DISABLE_FP_FUSION",
    "nvidia": "cuobjdump=TRITON_CUOBJDUMP_PATH nvdisasm=TRITON_NVDISASM_PATH ptxas=TRITON_PTXAS_PATH "
    "ptxas_blackwell=TRITON_PTXAS_BLACKWELL_PATH dump_nvptx=NVPTX_ENABLE_DUMP disable_ptxas_opt=DISABLE_PTXAS_OPT "
    "ptxas_options=PTXAS_OPTIONS mock_ptx_version=TRITON_MOCK_PTX_VERSION dump_ptxas_log=TRITON_DUMP_PTXAS_LOG "
    "libdevice_path=TRITON_LIBDEVICE_PATH libcuda_path=TRITON_LIBCUDA_PATH",
    "amd": "codegen_path=TRITON_AMD_CODEGEN_PATH use_buffer_ops=AMDGCN_USE_BUFFER_OPS "
    "use_buffer_atomics=AMDGCN_USE_BUFFER_ATOMICS "
    "buffer_ops_analyze_small_tensor_range=AMDGCN_ANALYZE_SMALL_TENSOR_RANGE dump_amdgcn=AMDGCN_ENABLE_DUMP "
    "libhip_path=TRITON_LIBHIP_PATH use_block_pingpong=TRITON_HIP_USE_BLOCK_PINGPONG "
    "use_in_thread_transpose=TRITON_HIP_USE_IN_THREAD_TRANSPOSE use_async_copy=TRITON_HIP_USE_ASYNC_COPY "
    "use_coexec_scheduler=TRITON_HIP_USE_COEXEC_SCHEDULER use_expert_scheduling=TRITON_HIP_USE_EXPERT_SCHEDULING "
    "global_prefetch=TRITON_HIP_GLOBAL_PREFETCH local_prefetch=TRITON_HIP_LOCAL_PREFETCH "
    "scalarize_packed_fops=AMDGCN_SCALARIZE_PACKED_FOPS dump_mir=TRITON_DUMP_MIR swap_mir=TRITON_SWAP_MIR "
    "swap_mir_enable_misched=TRITON_SWAP_MIR_ENABLE_MISCHED",
    "proton": "disable=TRITON_PROTON_DISABLE cupti_lib_dir=TRITON_CUPTI_LIB_PATH "
    "cupti_lib_blackwell_dir=TRITON_CUPTI_LIB_BLACKWELL_PATH hsa_runtime_path=TRITON_HSA_RUNTIME_PATH "
    "hsa_runtime_library=TRITON_HSA_RUNTIME_LIBRARY "
    "rocprofiler_sdk_include_path=TRITON_ROCPROFILER_SDK_INCLUDE_PATH "
    "rocprofiler_sdk_lib_path=TRITON_ROCPROFILER_SDK_LIB_PATH "
    "rocprofiler_sdk_library=TRITON_ROCPROFILER_SDK_LIBRARY roctracer_lib_path=TRITON_ROCTRACER_LIB_PATH "
    "roctracer_library=TRITON_ROCTRACER_LIBRARY roctx_lib_path=TRITON_ROCTX_LIB_PATH "
    "roctx_library=TRITON_ROCTX_LIBRARY profile_buffer_size=TRITON_PROFILE_BUFFER_SIZE "
    "profile_metric_buffer_size=TRITON_PROFILE_METRIC_BUFFER_SIZE enable_nvtx=TRITON_ENABLE_NVTX "
    "enable_hw_trace=TRITON_ENABLE_HW_TRACE",
}
"""Triton's knobs and their variables, those of 3.9 and of 3.5."""

OTHER_ATTRIBUTES = {
    "build": ("backend_dirs", "impl"),
    "cache": ("get_triton_dir",),
    "compilation": ("listener",),
    "autotuning": ("listener",),
    "runtime": (
        *("launch_enter_hook", "launch_exit_hook"),
        *("kernel_load_start_hook", "kernel_load_end_hook", "kernel_unload_hook"),
        *("jit_cache_hook", "jit_post_compile_hook", "add_stages_inspection_hook"),
    ),
    "language": ("fp_fusion_enabled",),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Every test starts without variables and ends with those of before."""
    before, groups = dict(os.environ), {name: getattr(knobs, name) for name in (*GROUPS, "tilewright")}
    for name, group in groups.items():
        setattr(knobs, name, group.copy().reset())
        for knob in group.knob_descriptors.values():
            os.environ.pop(knob.key, None)
    yield
    for name, group in groups.items():
        setattr(knobs, name, group)
    knobs.propagate_env = True
    os.environ.clear()
    os.environ.update(before)


def test_one_module() -> None:
    assert knobs is same_knobs


@pytest.mark.parametrize("group", GROUPS)
def test_tritons_names(group: str) -> None:
    found = getattr(knobs, group).knob_descriptors
    assert {name: knob.key for name, knob in found.items()} == dict(pair.split("=") for pair in GROUPS[group].split())
    assert [name for name in OTHER_ATTRIBUTES.get(group, ()) if not hasattr(getattr(knobs, group), name)] == []


def test_every_knob_says_what_it_means() -> None:
    groups = [group for group in vars(knobs).values() if isinstance(group, knobs.base_knobs)]
    assert [knob.key for group in groups for knob in group.knob_descriptors.values() if not knob.description] == []


@pytest.mark.parametrize(("text", "value"), [("1", True), ("On", True), ("y", True), ("no", False), ("", True)])
def test_the_environment_is_read_each_time(text: str, value: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", text)
    assert knobs.language.default_fp_fusion is value
    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION")
    assert knobs.language.default_fp_fusion is True


def test_what_is_set_wins_until_it_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs.redis.port = 1
    assert os.environ["TRITON_REDIS_PORT"] == "1"
    monkeypatch.setenv("TRITON_REDIS_PORT", "2")
    assert knobs.redis.port == 1
    del knobs.redis.port
    assert knobs.redis.port == 2
    knobs.redis.port = 3
    knobs.redis.port = knobs.env
    assert knobs.redis.port == 3, "its variable was set along with it"


def test_nothing_reaches_the_environment_without_propagation() -> None:
    knobs.propagate_env = False
    knobs.redis.host = "h"
    knobs.setenv("TRITON_REDIS_HOST", "g")
    assert "TRITON_REDIS_HOST" not in os.environ


def test_paths_become_text() -> None:
    knobs.cache.dir = Path("/a/b")
    assert (knobs.cache.dir, os.environ["TRITON_CACHE_DIR"]) == ("/a/b", "/a/b")


def test_none_unsets_the_variable() -> None:
    os.environ["USE_IR_LOC"] = "ttir"
    knobs.compilation.use_ir_loc = None
    assert "USE_IR_LOC" not in os.environ
    assert knobs.compilation.use_ir_loc is None


def test_scope_restores_values_and_variables() -> None:
    knobs.amd.use_buffer_ops = False
    with knobs.amd.scope():
        knobs.amd.use_buffer_ops = True
        knobs.amd.dump_mir = "x"
        assert os.environ["AMDGCN_USE_BUFFER_OPS"] == "1"
    assert (os.environ["AMDGCN_USE_BUFFER_OPS"], knobs.amd.use_buffer_ops) == ("0", False)
    assert "TRITON_DUMP_MIR" not in os.environ


def test_copies_are_apart_and_can_be_reset() -> None:
    knobs.redis.host = "a"
    other = knobs.redis.copy()
    other.host = "b"
    assert (knobs.redis.host, other.host) == ("a", "b")
    del os.environ["TRITON_REDIS_HOST"]
    assert other.reset().knobs == {"key_format": "triton:{key}:{filename}", "host": "localhost", "port": 6379}


def test_folders_follow_home(monkeypatch: pytest.MonkeyPatch) -> None:
    home = f"{Path.home()}/"
    assert (knobs.cache.home_dir, knobs.cache.dir) == (home, home + ".tilewright/cache")
    monkeypatch.setenv("TRITON_HOME", "/h")
    assert knobs.cache.dump_dir == "/h/.tilewright/dump"
    knobs.cache.home_dir = "/g"
    assert knobs.cache.override_dir == "/g/.tilewright/override"
    monkeypatch.setenv("TRITON_CACHE_DIR", "/c")
    assert knobs.cache.dir == "/c"


@pytest.mark.parametrize(
    ("variable", "text", "read"),
    [
        ("TRITON_REDIS_PORT", "many", lambda: knobs.redis.port),
        ("TILEWRIGHT_NUM_THREADS", "-1", lambda: knobs.tilewright.num_threads),
        ("TILEWRIGHT_NUM_THREADS", "1.5", lambda: knobs.tilewright.num_threads),
        ("TRITON_CACHE_MANAGER", "nowhere", lambda: knobs.cache.manager_class),
        ("TRITON_CACHE_MANAGER", "no.such.module:Class", lambda: knobs.cache.manager_class),
        ("TRITON_CACHE_MANAGER", "json:JSONDecoder", lambda: knobs.cache.manager_class),
    ],
)
def test_bad_value_names_the_variable(
    variable: str, text: str, read: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(knobs.KnobError, match=variable):
        read()


def test_missing_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])  # Triton's wheel has one
    os.environ["PATH"] = ""
    with pytest.raises(RuntimeError, match="TRITON_NVDISASM_PATH"):
        _ = knobs.nvidia.nvdisasm


def test_tool_with_a_version(tmp_path: Path) -> None:
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.8, V12.8.93\n")
    program.chmod(0o755)
    knobs.nvidia.ptxas = os.fspath(program)
    assert knobs.nvidia.ptxas == knobs.NvidiaTool(os.fspath(program), "12.8")


def test_compile_times() -> None:
    times = knobs.CompileTimes(ir_initialization=1, lowering_stages=[("ttir", 2), ("obj", 3)], store_results=4)
    assert (times.total_lowering, times.total) == (5, 10)


@pytest.mark.parametrize(("backwards", "order"), [(False, ["a", "b"]), (True, ["b", "a"])])
def test_hooks_in_order(backwards: bool, order: list[str]) -> None:
    chain: knobs.HookChain[Callable[..., None]] = knobs.HookChain(reversed=backwards)
    seen: list[str] = []

    def first(**_: int) -> None:
        seen.append("a")
        chain.remove(first)

    def second(**_: int) -> None:
        seen.append("b")

    for hook in (first, first, second):
        chain.add(hook)
    chain(value=1)
    assert (seen, chain.calls) == (order, [second])


def test_observers_hear_of_hooks_and_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    monkeypatch.setattr("tilewright.support.knob_kinds._observers", [lambda: heard.append(1)])

    def count_of(action: Callable[[], object]) -> int:
        heard.clear()
        action()
        return len(heard)

    chain = knobs.runtime.launch_enter_hook
    assert count_of(lambda: chain.add(print)) == 1
    assert count_of(lambda: chain.add(len)) == 0, "it was not empty"
    assert count_of(lambda: chain.remove(len)) == 0
    assert count_of(lambda: chain.remove(print)) == 1
    assert count_of(lambda: setattr(knobs.runtime, "debug", True)) == 1
    assert count_of(lambda: delattr(knobs.runtime, "debug")) == 1
    assert count_of(knobs.runtime.reset) == 1
    assert count_of(knobs.refresh_knobs) == 1
    assert count_of(lambda: setattr(knobs, "runtime", knobs.runtime.copy())) == 1


def test_page_is_up_to_date() -> None:
    document = Path(__file__).parents[2] / "docs" / "settings.md"
    assert document.read_text() == page(), "python -m tilewright settings > docs/settings.md"


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"0": 0, "4096": 4096, "500M": 500 << 20, "2G": 2 << 30, " 2 GiB ": 2 << 30, "1k": 1024, "1TB": 1 << 40}
    for text, size in sizes.items():
        monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", text)
        assert knobs.tilewright.cache_size == size
    for text in ("much", "-1", "1.5G", "1X"):
        monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", text)
        with pytest.raises(knobs.KnobError, match="TILEWRIGHT_CACHE_SIZE"):
            _ = knobs.tilewright.cache_size


def test_knobs_are_an_attribute_of_the_package() -> None:
    assert tilewright.knobs is knobs


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started_in = Path.cwd()
    monkeypatch.setenv("TRITON_CACHE_DIR", "kernels")
    monkeypatch.chdir(tmp_path)
    assert knobs.cache.dir == str(started_in / "kernels")
    knobs.cache.dump_dir = Path("dumped")
    monkeypatch.chdir(tmp_path.parent)
    assert knobs.cache.dump_dir == os.environ["TRITON_DUMP_DIR"] == str(tmp_path / "dumped")
    assert knobs.cache.override_dir == str(Path.home() / ".tilewright" / "override")
    monkeypatch.setenv("TRITON_CACHE_DIR", "~/kernels")
    assert knobs.cache.dir == "~/kernels"
    knobs.cache.dump_dir = knobs.env
    assert knobs.cache.dump_dir == str(tmp_path / "dumped"), "it was propagated"


def test_the_folder_of_the_cache_may_be_removed_under_the_process(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = (
        f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        "from tilewright import knobs; print(knobs.cache.dir, knobs.cache.dump_dir)"
    )
    environment = {**os.environ, "TRITON_CACHE_DIR": "kernels", "TRITON_DUMP_DIR": "/dumped"}
    # -P: without it CPython 3.13.0, which compares paths with that folder, fails to import NumPy.
    command = [sys.executable, "-P", "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "kernels /dumped\n"


def test_a_chain_of_hooks_takes_a_function() -> None:
    seen: list[object] = []
    shared = type(knobs.runtime).launch_enter_hook
    knobs.runtime.launch_enter_hook = seen.append
    knobs.runtime.launch_enter_hook.add(lambda _: seen.append("second"))
    knobs.runtime.launch_exit_hook = seen.append
    knobs.runtime.launch_exit_hook.add(lambda _: seen.append("before"))
    knobs.runtime.launch_enter_hook("enter")
    knobs.runtime.launch_exit_hook("exit")
    assert seen == ["enter", "second", "before", "exit"]
    assert shared.calls == [], "the chain that all groups share is as it was"
    knobs.runtime.launch_enter_hook = None
    assert knobs.runtime.launch_enter_hook.calls == []
    mine: knobs.HookChain[Callable[..., None]] = knobs.HookChain()
    knobs.runtime.launch_enter_hook = mine
    assert knobs.runtime.launch_enter_hook is mine
    with pytest.raises(TypeError, match="a hook is a function, a HookChain or None, and 3 is a int"):
        knobs.runtime.launch_enter_hook = 3


def test_a_tool_is_the_one_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_path(path: str) -> NvidiaTool | None:
        return NvidiaTool(path, "12.8") if path == "/here/assembler" else None

    monkeypatch.setattr(NvidiaTool, "from_path", staticmethod(from_path))
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/here/assembler")
    assert knobs.nvidia.ptxas == ("/here/assembler", "12.8")
