"""The modules of the package `triton`: the objects of Tilewright that each one shows, and their names there.

A row is a module. It lists modules of Tilewright with the names that are taken from them, and packages of `triton` with
their modules that are shown. `a=b` shows `b` as `a`; `*` stands for all public names. Names that start with `_` are not
part of `__all__`, nor are the modules under `""`, which are imported as well.
"""

from __future__ import annotations

from collections.abc import Mapping

MODULES: Mapping[str, Mapping[str, str]] = {
    "triton": {
        "tilewright": (
            "AsyncCompileMode CompilationError Config FutureKernel InterpreterError JITFunction KernelInterface "
            "MockTensor OutOfResources TensorWrapper aggregate autotune cdiv compile constexpr_function heuristics "
            "jit next_power_of_2 reinterpret set_allocator TritonError=TilewrightError"
        ),
        "tilewright.language.callable": "must_use_result",
        "": "_C backends compiler errors knobs",
        "triton": "language runtime testing tools",
    },
    "triton._C": {"triton._C": "libtriton"},
    "triton._C.libtriton": {
        "tilewright.compat.signatures": "native_specialize_impl",
        "triton._C.libtriton": "ir nvidia",
    },
    "triton._C.libtriton.ir": {
        "tilewright.compat.bindings": (
            "block=BlockView module=ModuleView operation=OpView region=RegionView value=ValueView context load_dialects"
        ),
    },
    "triton._C.libtriton.nvidia": {"triton._C.libtriton.nvidia": "cublas"},
    "triton._C.libtriton.nvidia.cublas": {"tilewright.compat.bindings": "CublasLt"},
    "triton._filecheck": {
        "tilewright.compat.filecheck": (
            "MatchError filecheck_test run_filecheck run_filecheck_test run_parser stub_target"
        ),
    },
    "triton._internal_testing": {"tilewright.compat.internal_testing": "* _fresh_knobs_impl"},
    "triton._utils": {
        "tilewright.compat.tensor_descriptor": "is_power_of_two validate_block_shape",
        "tilewright.compat.signatures": (
            "apply_with_path find_paths_if get_iterable_path is_iterable is_namedtuple set_iterable_path BITWIDTH_DICT"
            " canonicalize_dtype canonicalize_ptr_dtype get_primitive_bitwidth type_canonicalisation_dict"
        ),
        "tilewright.semantics.types": "TRITON_MAX_TENSOR_NUMEL=MAX_TILE_ELEMENTS",
    },
    "triton.backends": {
        "tilewright.compat.driver": "backends=INSTALLED Backend DriverBase",
        "triton.backends": "amd compiler driver nvidia",
        "tilewright.backends.base": "BaseBackend",
    },
    "triton.backends.amd": {"triton.backends.amd": "compiler"},
    "triton.backends.amd.compiler": {"tilewright.compat.unavailable": "HIPBackend"},
    "triton.backends.compiler": {"tilewright.backends.base": "BaseBackend GPUTarget Language"},
    "triton.backends.driver": {
        "tilewright.compat.tensor_descriptor": "expand_signature wrap_handle_tensordesc_impl",
        "tilewright.compat.driver": "Benchmarker DriverBase GPUDriver",
    },
    "triton.backends.nvidia": {"triton.backends.nvidia": "compiler driver"},
    "triton.backends.nvidia.compiler": {
        "tilewright.backends.base": "BaseBackend GPUTarget Language",
        "tilewright.backends.nvidia.backend": "CUDABackend=NvidiaBackend",
        "tilewright.backends.nvidia.options": "CUDAOptions=CudaOptions",
        "tilewright.support.diagnostics": "PTXASError",
    },
    "triton.backends.nvidia.driver": {
        "tilewright.backends.base": "GPUTarget",
        "tilewright.compat.driver": "CudaDriver CudaUtils=CudaUtilities GPUDriver",
    },
    "triton.compiler": {
        "tilewright.compat.bindings": "ASTSource",
        "tilewright.compat.driver": "max_shared_mem",
        "tilewright.backends.registry": "make_backend",
        "tilewright.runtime.compile": "IRSource compile get_cache_key",
        "tilewright.runtime.kernel": "CompiledKernel",
        "tilewright.runtime.launch_hooks": "LazyDict",
        "tilewright.support.diagnostics": "CompilationError",
        "": "code_generator compiler errors",
    },
    "triton.compiler.code_generator": {
        "tilewright.language.callable": "JITCallable",
        "tilewright.runtime.constexpr_function": "ConstexprFunction",
        "tilewright.runtime.jit": "JITFunction",
        "tilewright.support.diagnostics": (
            "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct=Unsupported"
        ),
    },
    "triton.compiler.compiler": {
        "tilewright.compat.bindings": "ASTSource",
        "tilewright.compat.driver": "max_shared_mem driver",
        "tilewright.compat.signatures": "triton_key",
        "tilewright.backends.base": "BaseBackend GPUTarget Language",
        "tilewright.backends.registry": "make_backend",
        "tilewright.runtime.compile": "IRSource compile filter_traceback get_cache_key",
        "tilewright.runtime.kernel": "CompiledKernel",
        "tilewright.runtime.cache.managers": "get_cache_manager get_dump_manager get_override_manager",
        "tilewright.runtime.errors": "OutOfResources",
        "tilewright.runtime.launch_hooks": "LazyDict",
        "tilewright": "knobs",
    },
    "triton.compiler.errors": {
        "tilewright.support.diagnostics": (
            "CompilationError CompileTimeAssertionFailure TritonError=TilewrightError "
            "UnsupportedLanguageConstruct=Unsupported"
        ),
    },
    "triton.compiler.make_launcher": {},  # empty in Triton, too
    "triton.errors": {"tilewright.support.diagnostics": "TritonError=TilewrightError"},
    "triton.experimental": {"triton.experimental": "gluon"},
    "triton.experimental.gluon": {
        "tilewright.language.aggregates": "aggregate aggregate_replace",
        "tilewright.language.callable": "must_use_result",
        "tilewright.runtime.constexpr_function": "constexpr_function",
        "tilewright.gluon": "jit",
        "triton.experimental.gluon": "language nvidia",
    },
    "triton.experimental.gluon._runtime": {
        "tilewright.compat.gluon": "GluonASTSource",
        "tilewright.runtime.constexpr_function": "constexpr_function",
        "tilewright.gluon": "GluonJITFunction jit",
    },
    "triton.experimental.gluon.language": {
        "tilewright.language.gluon": "*",
        "triton.experimental.gluon.language": "_layouts extra nvidia",
    },
    "triton.experimental.gluon.language._layouts": {
        "tilewright.compat.gluon": "bases_per_dim warps_per_cta",
        "tilewright.semantics.layout_values": (
            "AutoLayout BlockedLayout CoalescedLayout DistributedLayout DistributedLinearLayout DotOperandLayout "
            "NVMMADistributedLayout SliceLayout"
        ),
        "tilewright.semantics.shared_layouts": (
            "NVMMASharedLayout PaddedSharedLayout SharedLayout SharedLinearLayout SwizzledSharedLayout"
        ),
    },
    "triton.experimental.gluon.language.extra": {"triton.experimental.gluon.language.extra": "libdevice"},
    "triton.experimental.gluon.language.extra.libdevice": {"tilewright.language.extra.libdevice": "*"},
    "triton.experimental.gluon.language.nvidia": {
        "triton.experimental.gluon.language.nvidia": "ampere blackwell hopper",
    },
    "triton.experimental.gluon.language.nvidia.ampere": {
        "tilewright.language.gluon.nvidia.ampere": "CachePolicy FractionalEvictionPolicy mma_v2",
        "triton.experimental.gluon.language.nvidia.ampere": "async_copy mbarrier",
    },
    "triton.experimental.gluon.language.nvidia.ampere.async_copy": {
        "tilewright.language.gluon.nvidia.ampere.async_copy": "*",
    },
    "triton.experimental.gluon.language.nvidia.ampere.mbarrier": {
        "tilewright.language.gluon.nvidia.ampere.mbarrier": "*",
    },
    "triton.experimental.gluon.language.nvidia.blackwell": {
        "tilewright.language.gluon.nvidia.blackwell": "*",
        "triton.experimental.gluon.language.nvidia.blackwell": "clc float2 tma",
    },
    "triton.experimental.gluon.language.nvidia.blackwell.float2": {"tilewright.compat.float2": "*"},
    "triton.experimental.gluon.language.nvidia.blackwell.clc": {
        "tilewright.language.gluon.nvidia.blackwell.clc": "*",
    },
    "triton.experimental.gluon.language.nvidia.blackwell.tma": {
        "tilewright.language.gluon.nvidia.blackwell.tma": "*",
    },
    "triton.experimental.gluon.language.nvidia.hopper": {
        "tilewright.language.gluon.nvidia.hopper": "*",
        "triton.experimental.gluon.language.nvidia.hopper": "cluster mbarrier tma",
    },
    "triton.experimental.gluon.language.nvidia.hopper.cluster": {
        "tilewright.language.gluon.nvidia.hopper.cluster": "*",
    },
    "triton.experimental.gluon.language.nvidia.hopper.mbarrier": {
        "tilewright.language.gluon.nvidia.hopper.mbarrier": "*",
    },
    "triton.experimental.gluon.language.nvidia.hopper.tma": {
        "tilewright.language.gluon.nvidia.hopper.tma": "*",
    },
    "triton.experimental.gluon.nvidia": {"triton.experimental.gluon.nvidia": "blackwell hopper"},
    "triton.experimental.gluon.nvidia.blackwell": {
        "tilewright.compat.gluon": "TensorDescriptor TensorDescriptorIm2Col",
    },
    "triton.experimental.gluon.nvidia.hopper": {
        "tilewright.compat.gluon": "TensorDescriptor TensorDescriptorIm2Col",
    },
    "triton.knobs": {"tilewright.support.knobs": "*"},
    "triton.language": {
        "tilewright.language": "* __getattr__",
        "tilewright.language.callable": "must_use_result",
        "tilewright.language.aggregates": "aggregate_replace",
        "": "core extra math random standard target_info",
        "triton.language": "semantic",
    },
    "triton.language.core": {
        "tilewright.language.core": "*",
        "tilewright.language.callable": "must_use_result",
        "tilewright.compat.core_shims": "CONSTEXPR_0 get_int_dtype builtin is_builtin",
        "tilewright.language.aggregates": "_aggregate=aggregate aggregate_replace",
        "tilewright.semantics.constexpr": "_unwrap_if_constexpr=unwrap",
    },
    "triton.language.extra": {
        "tilewright.language.extra": "__getattr__",
        "triton.language.extra": "cpu cuda hip libdevice",
    },
    "triton.language.extra.cpu": {
        "tilewright.language.extra.cpu": "vnni_decode",
        "triton.language.extra": "libdevice",
    },
    "triton.language.extra.cpu.libdevice": {"tilewright.language.extra.libdevice": "*"},
    "triton.language.extra.cuda": {
        "triton.language.extra": "libdevice",
        "": "gdc utils",
        "tilewright.language.extra.cuda": "gdc_launch_dependents gdc_wait globaltimer num_threads num_warps smid",
    },
    "triton.language.extra.cuda.gdc": {"tilewright.language.extra.cuda": "gdc_launch_dependents gdc_wait"},
    "triton.language.extra.cuda.libdevice": {"tilewright.language.extra.libdevice": "*"},
    "triton.language.extra.cuda.utils": {"tilewright.language.extra.cuda": "globaltimer num_threads num_warps smid"},
    "triton.language.extra.hip": {"triton.language.extra": "libdevice"},
    "triton.language.extra.hip.libdevice": {"tilewright.language.extra.libdevice": "*"},
    "triton.language.extra.libdevice": {"tilewright.language.extra.libdevice": "*"},
    "triton.language.libdevice": {"tilewright.language.extra.libdevice": "*"},
    "triton.language.math": {"tilewright.language.math": "* __getattr__"},
    "triton.language.random": {"tilewright.language.random": "*"},
    "triton.language.semantic": {"tilewright.compat.core_shims": "IncompatibleTypeErrorImpl"},
    "triton.language.standard": {
        "tilewright.language.standard": "*",
        "tilewright.language.sorting": "bitonic_merge flip sort topk",
        "tilewright.compat.core_shims": "_log2",
    },
    "triton.language.target_info": {
        "tilewright.language.target_info": (
            "cuda_capability_geq current_target is_cpu is_cuda is_hip is_hip_cdna3=is_hip is_hip_cdna4=is_hip "
            "is_hip_gfx1250=is_hip"
        ),
    },
    "triton.profiler": {
        "": "language mode",
        "tilewright.compat.profiler": (
            "DEFAULT_PROFILE_NAME activate cpu_timed_scope deactivate enter_scope enter_state exit_scope exit_state "
            "finalize metadata_state profile scope start state"
        ),
    },
    "triton.profiler.language": {
        "tilewright.compat.profiler": (
            "Event allocate_event scope=KernelScope disable_semantic=mark enable_semantic=mark end_event=mark "
            "enter_scope=mark exit_scope=mark start_event=mark"
        ),
    },
    "triton.profiler.mode": {"tilewright.compat.profiler": "BaseMode Default InstrumentationMode MMA PCSampling"},
    "triton.profiler.viewer": {},
    "triton.runtime": {
        "": "_allocation _async_compile autotuner build cache driver errors interpreter jit",
        "tilewright": (
            "Autotuner Config Heuristics InterpreterError JITFunction KernelInterface MockTensor OutOfResources "
            "TensorWrapper autotune heuristics reinterpret"
        ),
        "tilewright.runtime.cache.redis": "RedisRemoteCacheBackend",
        "tilewright.runtime.cache.remote": "RemoteCacheBackend",
        "tilewright.compat.driver": "driver",
    },
    "triton.runtime._allocation": {
        "tilewright.runtime.allocation": "Allocator Buffer NullAllocator set_allocator _allocator=allocator",
    },
    "triton.runtime._async_compile": {"tilewright.runtime.async_compile": "AsyncCompileMode FutureKernel active_mode"},
    "triton.runtime.autotuner": {
        "tilewright": (
            "Autotuner Config Heuristics JITFunction KernelInterface OutOfResources autotune heuristics knobs"
        ),
        "tilewright.compat.signatures": "triton_key",
        "tilewright.runtime.cache.managers": "get_cache_manager",
        "tilewright.runtime.errors": "AutotunerError",
        "tilewright.support.diagnostics": "PTXASError",
        "tilewright.compat.driver": "driver",
    },
    "triton.runtime.build": {
        "tilewright.compat.c_modules": (
            "compile_module_from_file compile_module_from_src compile_so_from_file compile_so_from_src platform_key"
        ),
        "tilewright.runtime.cache.managers": "get_cache_manager",
        "tilewright": "knobs",
    },
    "triton.runtime.cache": {
        "tilewright.compat.deprecated": "default_cache_dir default_dump_dir default_override_dir",
        "tilewright.compat.signatures": "make_so_cache_key triton_key",
        "tilewright.runtime.cache.managers": (
            "CacheManager FileCacheManager get_cache_manager get_dump_manager get_override_manager _base32=base32"
        ),
        "tilewright.runtime.cache.redis": "RedisRemoteCacheBackend",
        "tilewright.runtime.cache.remote": "RemoteCacheBackend RemoteCacheManager",
        "tilewright.runtime.compile": "get_cache_key",
        "tilewright": "knobs",
    },
    "triton.runtime.driver": {
        "tilewright.compat.driver": "backends=INSTALLED DriverBase DriverConfig driver",
    },
    "triton.runtime.errors": {
        "tilewright.runtime.errors": "AutotunerError InterpreterError OutOfResources",
        "tilewright.support.diagnostics": "PTXASError TritonError=TilewrightError",
    },
    "triton.runtime.interpreter": {
        "tilewright.compat.core_shims": "TensorHandle _implicit_cvt=implicit_cvt",
        "tilewright.runtime.errors": "InterpreterError",
        "tilewright.runtime.interpreted": "InterpretedFunction",
    },
    "triton.runtime.jit": {
        "tilewright.compat.driver": "get_device_key driver",
        "tilewright.compat.signatures": (
            "DependenciesFinder canonicalize_dtype type_canonicalisation_dict "
            "find_paths_if get_iterable_path is_namedtuple compute_cache_key create_function_from_signature "
            "get_full_name mangle_type native_specialize_impl GLUON_MODULE TRITON_MODULE"
        ),
        "tilewright.compat.tensor_descriptor": "TensorDescriptor",
        "tilewright.language.callable": "JITCallable",
        "tilewright.runtime.captured": "_triton_jit_function_registry=functions_by_name",
        "tilewright.backends.base": "BaseBackend",
        "tilewright.runtime.compile": "get_cache_key",
        "tilewright.runtime.compile_hooks": "JitFunctionInfo",
        "tilewright.runtime.constexpr_function": "ConstexprFunction constexpr_function",
        "tilewright.runtime.parameters": "KernelInterface KernelParam",
        "tilewright.runtime.jit": "JITFunction jit",
        "tilewright.runtime.array_shims": "MockTensor TensorWrapper reinterpret",
        "tilewright": "knobs",
    },
    "triton.testing": {
        "tilewright.compat.deprecated": "allclose assert_almost_equal",
        "tilewright.testing": "Benchmark Mark assert_close do_bench do_bench_cudagraph=do_bench perf_report",
    },
    "triton.tools": {
        "tilewright.compat.linear_layout": "LinearLayout",
        "triton.tools": "disasm mxfp tensor_descriptor",
    },
    "triton.tools.disasm": {},
    "triton.tools.experimental_descriptor": {
        "tilewright.compat.deprecated": "create_1d_tma_descriptor create_2d_tma_descriptor",
    },
    "triton.tools.mxfp": {"tilewright.compat.mxfp": "MXFP4Tensor MXScaleTensor"},
    "triton.tools.ragged_tma": {
        "tilewright.compat.tensor_descriptor": "create_ragged_descriptor",
        "tilewright.language.ragged": "atomic_add_ragged load_ragged store_ragged to_ragged_indices",
    },
    "triton.tools.tensor_descriptor": {
        "tilewright.compat.tensor_descriptor": "TensorDescriptor validate_block_shape",
        "tilewright.compat.signatures": "canonicalize_dtype",
    },
}

PACKAGES = frozenset(name.rpartition(".")[0] for name in MODULES if "." in name)
"""The modules that have modules."""

SCRIPTS = ("triton.tools.compile", "triton.tools.link")
"""Modules that are files, because programs start them by their path."""

ITSELF: Mapping[str, str] = {"triton.knobs": "tilewright.support.knobs"}
"""Modules that are one of Tilewright's, so that what is set there counts."""

DEPRECATED: Mapping[str, str] = {"triton.language.libdevice": "triton.language.extra.libdevice"}
"""Modules that were moved, with their present names: importing one of these warns."""

NOT_ON_CPU: Mapping[str, Mapping[str, str]] = {
    "triton.profiler.viewer": dict.fromkeys(
        ("apply_frame_filter", "get_min_time_bytes", "get_min_time_flops", "parse", "print_tree", "read"),
        "there are no profiles to read: nothing is recorded there",
    ),
    "triton.testing": {
        "cublas": "it is a library of CUDA",
        "cuda_graph_without_gc": "there are no graphs of launches",
        "cuda_memcheck": "it runs a tool of CUDA",
        "do_bench_cudagraph_proton": "it asks Proton, which counts what GPUs do",
        "do_bench_proton": "it asks Proton, which counts what GPUs do",
        "get_dram_gbps": "it asks a GPU for its clock rates",
        "get_max_simd_tflops": "it asks a GPU for its clock rates",
        "get_max_tensorcore_tflops": "it asks a GPU for its clock rates",
        "nvsmi": "it asks the driver of an NVIDIA GPU",
        "set_gpu_clock": "it sets the clock of an NVIDIA GPU",
    },
    "triton.tools.disasm": dict.fromkeys(
        ("extract", "get_sass", "parseCtrl", "path_to_cuobjdump", "processSassLines"),
        "it shows the machine code of NVIDIA's GPUs; `kernel.asm[\"asm\"]` shows the CPU's",
    ),
}
"""Functions of a module that raise when they are called, with the reason."""
