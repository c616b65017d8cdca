"""`triton.testing`."""

from tilewright.compat.deprecated_testing import allclose, assert_almost_equal
from tilewright.compat.unavailable import unavailable
from tilewright.testing import Benchmark, Mark, assert_close, do_bench, perf_report

do_bench_cudagraph = do_bench
"""There are no graphs of launches on a CPU, and no need for them."""

_GPU_ONLY = {
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
}
globals().update({name: unavailable(f"triton.testing.{name}", reason) for name, reason in _GPU_ONLY.items()})

__all__ = [
    "Benchmark",
    "Mark",
    "allclose",
    "assert_almost_equal",
    "assert_close",
    "do_bench",
    "do_bench_cudagraph",
    "perf_report",
    *_GPU_ONLY,
]
