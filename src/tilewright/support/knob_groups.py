"""The knobs: name, kind, environment variable, default, description. docs/settings.md is generated from these classes.

`NO_EFFECT` marks knobs that are accepted so that programs written for Triton run, and change nothing here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tilewright.support.knob_kinds import (
    HookChain,
    base_knobs,
    chain_of,
    env_bool,
    env_class,
    env_folder,
    env_int,
    env_opt_bool,
    env_opt_str,
    env_size,
    env_str,
)
from tilewright.support.nvidia_tools import env_nvidia_tool

NO_EFFECT = "accepted, no effect: "
_AMD = f"{NO_EFFECT}there is no AMD back end"
_UNUSED = f"{NO_EFFECT}nothing here uses it"
_PROTON = f"{NO_EFFECT}there is no Proton"


class build_knobs(base_knobs):
    """Calls of a C compiler by `triton.runtime.build.compile_module_from_src`; kernels need none.

    Attributes:
        impl: called instead of the compiler with name, source file, folder, library folders, header folders and
            libraries; returns the path of the library.
    """

    cc = env_opt_str("CC", "the C compiler")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH", "a further folder of header files")
    cudart_path = env_opt_str("TRITON_CUDART_PATH", "a further folder of header files")
    impl: Callable[..., str] | None = None

    @property
    def backend_dirs(self) -> set[str]:
        """The folders that are set."""
        return {path for path in (self.cudacrt_path, self.cudart_path) if path is not None}


class redis_knobs(base_knobs):
    """The Redis server that `RedisRemoteCacheBackend` talks to."""

    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}", "name of a cached file in Redis")
    host = env_str("TRITON_REDIS_HOST", "localhost", "the host of Redis")
    port = env_int("TRITON_REDIS_PORT", 6379, "the port of Redis")


class cache_knobs(base_knobs):
    """The folders of files, and the classes that keep them.

    Attributes:
        state_folder: in `home_dir`: where everything is kept that has no folder of its own.
    """

    state_folder = ".tilewright"
    # The default ends in a slash, as Triton's does.
    home_dir = env_folder("TRITON_HOME", lambda _: os.path.expanduser("~/"), "the folder that holds `.tilewright`")
    dump_dir = env_folder(
        "TRITON_DUMP_DIR", lambda group: group.get_triton_dir("dump"), "where TRITON_KERNEL_DUMP writes"
    )
    override_dir = env_folder(
        "TRITON_OVERRIDE_DIR", lambda group: group.get_triton_dir("override"), "where TRITON_KERNEL_OVERRIDE reads"
    )
    dir = env_folder("TRITON_CACHE_DIR", lambda group: group.get_triton_dir("cache"), "where compiled kernels are kept")
    manager_class: env_class[Any] = env_class(
        "TRITON_CACHE_MANAGER", "CacheManager", "the class that keeps compiled kernels, as `module:Class`"
    )
    remote_manager_class: env_class[Any] = env_class(
        "TRITON_REMOTE_CACHE_BACKEND",
        "RemoteCacheBackend",
        "the client of a remote cache for `RemoteCacheManager`, as `module:Class`",
    )

    def get_triton_dir(self, dirname: str) -> str:
        """The folder of this name below `home_dir`."""
        return os.path.join(os.path.expanduser(self.home_dir), self.state_folder, dirname)


class compilation_knobs(base_knobs):
    """Compilation and storage of kernels.

    Attributes:
        listener: called after each compilation and each load from the cache, with `src`, `metadata`, `metadata_group`,
            `times` (a `CompileTimes`) and `cache_hit` as keywords.
    """

    override = env_bool("TRITON_KERNEL_OVERRIDE", description="take stages from the override folder if it has them")
    dump_ir = env_bool(
        "TRITON_KERNEL_DUMP", description="write every stage of every compiled kernel to the dump folder"
    )
    dump_ir_extract_di_local_variables = env_bool(
        "LLVM_EXTRACT_DI_LOCAL_VARIABLES", description="objects contain source lines and variables, for debuggers"
    )
    store_binary_only = env_bool(
        "TRITON_STORE_BINARY_ONLY", description="keep only object and metadata on disk, not the texts of the stages"
    )
    always_compile = env_bool("TRITON_ALWAYS_COMPILE", description="ignore compiled kernels that are already on disk")
    use_ir_loc = env_opt_str("USE_IR_LOC", f"{NO_EFFECT}locations are those of the Python source")
    enable_asan = env_bool("TRITON_ENABLE_ASAN", description=_AMD)
    disable_line_info = env_opt_bool(
        "TRITON_DISABLE_LINE_INFO",
        "`0`: objects contain source lines, for debuggers; unset or `1`: they do not",
    )
    front_end_debugging = env_bool(
        "TRITON_FRONT_END_DEBUGGING",
        description="as TILEWRIGHT_FULL_TRACEBACK; `filter_traceback` leaves these frames, too",
    )
    allow_non_constexpr_globals = env_bool(
        "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", description="kernels may read ordinary globals; these are constants"
    )
    fpsan_homomorphic_casts = env_bool("TRITON_FPSAN_HOMOMORPHIC_CASTS", description=_UNUSED)
    instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "", _UNUSED)
    listener: Callable[..., None] | None = None


class autotuning_knobs(base_knobs):
    """Reports and memory of the autotuner.

    Attributes:
        listener: called after each tuning, with `fn`, `key`, `best_config`, `configs_timings`, `duration`, `cache_hit`.
    """

    cache = env_bool("TRITON_CACHE_AUTOTUNING", description="keep the results of tuning on disk")
    print = env_bool("TRITON_PRINT_AUTOTUNING", description="print the best configuration after tuning")
    listener: Callable[..., None] | None = None


class runtime_knobs(base_knobs):
    """Launches of kernels, and their hooks.

    A chain of hooks takes a function, too: `launch_enter_hook = f` makes a chain that has only `f`, None an empty one.

    Attributes:
        launch_enter_hook: called before each launch with its metadata; `launch_exit_hook` after it.
        kernel_load_start_hook: called before code is mapped with module, function, name, metadata group and hash;
            `kernel_load_end_hook` afterwards, `kernel_unload_hook` before it is unmapped.
        jit_cache_hook: called before a compilation; may cancel it by returning true.
        jit_post_compile_hook: called after a compilation.
        add_stages_inspection_hook: may change the stages of a compilation.
    """

    interpret = env_bool(
        "TRITON_INTERPRET", description="`@jit` makes kernels that run eagerly in Python instead of compiled ones"
    )
    debug = env_bool(
        "TRITON_DEBUG", description="compile every kernel with `debug=True`: device assertions are checked"
    )
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH", "compile for this GPU instead, for example `sm80`")
    launch_enter_hook: HookChain[Callable[..., None]] = HookChain()
    launch_exit_hook: HookChain[Callable[..., None]] = HookChain(reversed=True)
    kernel_load_start_hook: HookChain[Callable[..., None]] = HookChain()
    kernel_load_end_hook: HookChain[Callable[..., None]] = HookChain(reversed=True)
    kernel_unload_hook: HookChain[Callable[..., None]] = HookChain()
    jit_cache_hook: Callable[..., bool | None] | None = None
    jit_post_compile_hook: Callable[..., bool | None] | None = None
    add_stages_inspection_hook: Callable[..., Any] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        chain = getattr(type(self), name, None)
        super().__setattr__(name, chain_of(value, like=chain) if isinstance(chain, HookChain) else value)


class language_knobs(base_knobs):
    """Choices that the language leaves open."""

    fp32_default = env_opt_str("TRITON_F32_DEFAULT", "the default of `input_precision` of `tl.dot`")
    default_fp_fusion = env_bool(
        "TRITON_DEFAULT_FP_FUSION", True, "a multiplication and an addition may become one fused operation"
    )
    force_disable_fp_fusion = env_bool(
        "TRITON_FORCE_DISABLE_FP_FUSION", description="they never do, even if a launch sets `enable_fp_fusion`"
    )

    @property
    def fp_fusion_enabled(self) -> bool:
        """Whether operations are fused in a launch that does not say."""
        return self.default_fp_fusion and not self.force_disable_fp_fusion


class nvidia_knobs(base_knobs):
    """Tools and libraries of NVIDIA."""

    cuobjdump = env_nvidia_tool("cuobjdump", _UNUSED)
    nvdisasm = env_nvidia_tool("nvdisasm", "NVIDIA's disassembler, for `asm['sass']`")
    ptxas = env_nvidia_tool("ptxas", "NVIDIA's assembler")
    ptxas_blackwell = env_nvidia_tool("ptxas-blackwell", "NVIDIA's assembler for sm_90 and later")
    dump_nvptx = env_bool("NVPTX_ENABLE_DUMP", description="print the PTX of every kernel that is compiled")
    disable_ptxas_opt = env_bool(
        "DISABLE_PTXAS_OPT", description="ptxas does not optimise, and keeps debug information"
    )
    ptxas_options = env_opt_str("PTXAS_OPTIONS", "further arguments for ptxas, where `ptx_options` are not given")
    mock_ptx_version = env_opt_str("TRITON_MOCK_PTX_VERSION", _UNUSED)
    dump_ptxas_log = env_bool("TRITON_DUMP_PTXAS_LOG", description="print the output of ptxas for every kernel")
    libdevice_path = env_opt_str("TRITON_LIBDEVICE_PATH", "the file libdevice.10.bc")
    libcuda_path = env_opt_str("TRITON_LIBCUDA_PATH", "the folder of libcuda.so.1")


class amd_knobs(base_knobs):
    """AMD's back end."""

    codegen_path = env_opt_str("TRITON_AMD_CODEGEN_PATH", _AMD)
    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True, _AMD)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True, _AMD)
    buffer_ops_analyze_small_tensor_range = env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE", description=_AMD)
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP", description=_AMD)
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH", _AMD)
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG", _AMD)
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE", _AMD)
    use_async_copy = env_opt_bool("TRITON_HIP_USE_ASYNC_COPY", _AMD)
    use_coexec_scheduler = env_opt_bool("TRITON_HIP_USE_COEXEC_SCHEDULER", _AMD)
    use_expert_scheduling = env_opt_bool("TRITON_HIP_USE_EXPERT_SCHEDULING", _AMD)
    global_prefetch = env_int("TRITON_HIP_GLOBAL_PREFETCH", 0, _AMD)
    local_prefetch = env_int("TRITON_HIP_LOCAL_PREFETCH", 0, _AMD)
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS", description=_AMD)
    dump_mir = env_opt_str("TRITON_DUMP_MIR", _AMD)
    swap_mir = env_opt_str("TRITON_SWAP_MIR", _AMD)
    swap_mir_enable_misched = env_bool("TRITON_SWAP_MIR_ENABLE_MISCHED", description=_AMD)


class proton_knobs(base_knobs):
    """The profiler Proton."""

    disable = env_bool("TRITON_PROTON_DISABLE", description=_PROTON)
    cupti_lib_dir = env_str("TRITON_CUPTI_LIB_PATH", "triton/backends/nvidia/lib/cupti", _PROTON)
    cupti_lib_blackwell_dir = env_str(
        "TRITON_CUPTI_LIB_BLACKWELL_PATH", "triton/backends/nvidia/lib/cupti-blackwell", _PROTON
    )
    hsa_runtime_path = env_opt_str("TRITON_HSA_RUNTIME_PATH", _PROTON)
    hsa_runtime_library = env_opt_str("TRITON_HSA_RUNTIME_LIBRARY", _PROTON)
    rocprofiler_sdk_include_path = env_opt_str("TRITON_ROCPROFILER_SDK_INCLUDE_PATH", _PROTON)
    rocprofiler_sdk_lib_path = env_opt_str("TRITON_ROCPROFILER_SDK_LIB_PATH", _PROTON)
    rocprofiler_sdk_library = env_opt_str("TRITON_ROCPROFILER_SDK_LIBRARY", _PROTON)
    roctracer_lib_path = env_opt_str("TRITON_ROCTRACER_LIB_PATH", _PROTON)
    roctracer_library = env_opt_str("TRITON_ROCTRACER_LIBRARY", _PROTON)
    roctx_lib_path = env_opt_str("TRITON_ROCTX_LIB_PATH", _PROTON)
    roctx_library = env_str("TRITON_ROCTX_LIBRARY", "libroctx64.so", _PROTON)
    profile_buffer_size = env_int("TRITON_PROFILE_BUFFER_SIZE", 64 << 20, _PROTON)
    profile_metric_buffer_size = env_int("TRITON_PROFILE_METRIC_BUFFER_SIZE", 64 << 20, _PROTON)
    enable_nvtx = env_bool("TRITON_ENABLE_NVTX", True, _PROTON)
    enable_hw_trace = env_bool("TRITON_ENABLE_HW_TRACE", description=_PROTON)


class tilewright_knobs(base_knobs):
    """Settings that Triton has no knob for."""

    ir_dump = env_str(
        "MLIR_ENABLE_DUMP",
        "",
        "print the IR after each pass to stderr: `1` for every kernel, otherwise the name of one",
    )
    verify_passes = env_bool(
        "TILEWRIGHT_VERIFY_PASSES", description="verify the IR after each pass, as printing it does"
    )
    cpu = env_str("TILEWRIGHT_CPU", "", "generate code for this CPU instead of the host's, for example `x86-64-v3`")
    gpu_arch = env_str(
        "TILEWRIGHT_GPU_ARCH",
        "sm_90",
        "the GPU for which `asm['ttgir']`, `['ptx']`, `['cubin']` and `['sass']` of a kernel for a CPU are compiled",
    )
    insert_fences = env_bool(
        "TILEWRIGHT_INSERT_FENCES",
        True,
        "kernels for GPUs get fences between stores to shared memory and engines that read it; 0: programs of Gluon "
        "have only their own, and a simulated GPU reports what is missing",
    )
    default_backend = env_str(
        "TRITON_DEFAULT_BACKEND",
        "",
        "`cpu` or `cuda`: the target of `driver.active`; by default a GPU if torch has one, else the CPU",
    )
    sanitize = env_str(
        "TILEWRIGHT_SANITIZE", "", "what kernels check while they run: `bounds,races,uninit`, or some of them"
    )
    num_threads = env_int(
        "TILEWRIGHT_NUM_THREADS", 0, "number of threads that share a grid; 0: as many as the process may use", least=0
    )
    interruptible = env_bool(
        "TILEWRIGHT_INTERRUPTIBLE",
        description="signals are handled in `for` loops of kernels, too; else between programs and in `while` loops",
    )
    spin_seconds = env_int(
        "TILEWRIGHT_SPIN_SECONDS",
        60,
        "seconds after which it is an error that all running programs only wait for others; 0: no limit",
        least=0,
    )
    cache_size = env_size(
        "TILEWRIGHT_CACHE_SIZE",
        1 << 30,
        "max size of the cache folder, such as `500M` or `2G`; least recently used entries are evicted; 0: no limit",
    )
    cache_key = env_str(
        "TILEWRIGHT_CACHE_KEY",
        "",
        "the secret key by which entries of a remote cache are signed; entries without a valid signature are refused",
    )
    cache_is_shared = env_bool(
        "TILEWRIGHT_CACHE_IS_SHARED",
        description="machines share the cache folder: keys stand for the content of Tilewright's sources instead of "
        "their dates (15 ms per process); so it always is with TRITON_CACHE_MANAGER",
    )
    worker_seconds = env_int(
        "TILEWRIGHT_WORKER_SECONDS",
        60,
        "seconds without any answer of an executor's workers after which this process does their work itself",
        least=1,
    )
    compile_workers = env_int(
        "TILEWRIGHT_COMPILE_WORKERS",
        0,
        "processes of this machine that compile, in `AsyncCompileMode()` and for an autotuned kernel; 0: as many as "
        "CPUs that may be used",
        least=0,
    )
    bench_seconds = env_int(
        "TILEWRIGHT_BENCH_SECONDS",
        0,
        "how long each table of a `triton.testing` report may take; what is not measured by then is NaN; 0: no limit",
        least=0,
    )
    full_traceback = env_bool(
        "TILEWRIGHT_FULL_TRACEBACK", description="tracebacks of compile errors show the compiler's frames, too"
    )
    progress = env_opt_bool(
        "TILEWRIGHT_PROGRESS",
        "bars with the time left for long work: `0` never, `1` always, unset on terminals and in notebooks",
    )
    leave_loops = env_bool(
        "TILEWRIGHT_LEAVE_LOOPS",
        True,
        "kernels may have `break`, `continue`, `return` and `else` in loops; Triton refuses them, and so does "
        "`tilewright run` unless this is `1`",
    )
    torch_products = env_opt_bool(
        "TILEWRIGHT_TORCH_PRODUCTS",
        "kernels compute products of float32 matrices in graphs of `torch.compile`, not torch's library: `0` never, "
        "`1` always, unset on CPUs where they are faster",
    )
    trace = env_opt_str("TILEWRIGHT_TRACE", "the file for a trace of compilations and launches, for a trace viewer")
