"""Triton's tutorials and examples of Gluon on simulated GPUs, their test functions at reduced sizes.

    python tests/conformance/gluon_tutorials.py ~/triton.git               # all
    python tests/conformance/gluon_tutorials.py ~/triton.git 01 05         # some tutorials
    python tests/conformance/gluon_tutorials.py ~/triton.git example       # the examples

The first argument is a repository of Triton, of whose HEAD the files are; nothing of it is in this one. It needs
torch and pytest. Each function runs in a process of its own by `tilewright run`, on tensors of the CPU: the tutorials'
`cuda` is replaced. A function passes if it ends without an error, which all of them raise where results are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
LIMIT = 300
"""Seconds for each function."""
MEASURES = re.compile(r"^benchmark_\w+\(\)$", re.MULTILINE)
"""A call that measures times while a module is imported."""
WAITS = re.compile(
    r"^(    tma\.async_copy_shared_to_global\([^\n]*|(?s:def matmul_epilogue_partition.*?i \+= 1))\n\n\n", re.MULTILINE
)
"""The ends of kernels of tutorial 14, which nobody lets wait for their last copies: that is reported."""
EARLIER = re.compile(
    r"^( +mbarrier\.expect\(tma_bar, in_desc.*?)^( +mma = mma\.wait_num_outstanding\(0\)\n)", re.MULTILINE | re.DOTALL
)
"""The loop of tutorial 13, whose next copies overwrite what the product before still reads: it is waited for first."""
DRAIN = re.compile(
    r"^( +# Wait for the last store\.\n    tma\.store_wait\(0\)\n)(    for i in gl\.static_range\(num_buffers\):\n"
    r" +mbarrier\.invalidate\(load_bars.*?mma_bars)",
    re.MULTILINE | re.DOTALL,
)
"""The end of the pipelined kernel of tutorial 11, whose last copies of scales nobody waits for: that is reported."""
DRAINED = (
    r"\1    tcgen05_commit(mma_bars.index(mma_producer.index))\n"
    r"    mbarrier.wait(mma_bars.index(mma_consumer.index), mma_consumer.phase)\n\2"
)
SMALLER = (
    ("M, N, K = 1024, 1024, 512", "M, N, K = 512, 512, 128"),
    ("c = matmul_multicta(a, b)", "c = matmul_multicta(a, b, stages=2)"),
)
"""The sizes of the product of tutorial 14, its number of buffers, and those that it gets: each buffer is used again."""
CASES: tuple[tuple[str, str, tuple[object, ...], int], ...] = (
    ("01-intro", "test_copy_scalar", (), 90),
    ("01-intro", "test_memcpy", (64, 500), 90),
    ("02-layouts", "test_memcpy_1d", (128, 1000, 4), 90),
    ("02-layouts", "test_memcpy_2d", (128, 256, 100, 200, True, 4), 90),
    ("02-layouts", "test_memcpy_2d_inout", (60, 80, True, False), 90),
    ("03-async-copy", "test_memcpy_1d_cpasync", (1000, 256), 80),
    ("03-async-copy", "test_elementwise_add", (100, 200, 32, 32), 80),
    ("03-async-copy", "test_elementwise_add_cpasync", (100, 200, 32, 32), 80),
    ("03-async-copy", "test_elementwise_add_pipelined", (100, 200, 32, 64, 2), 80),
    ("04-tma", "test_tma_message_passing", (16,), 90),
    ("04-tma", "test_memcpy_1d_tma", (64, 500), 90),
    ("04-tma", "test_elementwise_add_pipelined", (100, 200, 32, 64, 2), 90),
    ("05-wgmma", "test_small_mma", (64, 32, 32, False, 16, 4), 90),
    ("05-wgmma", "test_small_mma", (64, 64, 32, True, 16, 4), 90),
    ("05-wgmma", "test_blocked_matmul", (208, 128, 176, 64, 64, 64, True, 4), 90),
    ("05-wgmma", "test_blocked_matmul_pipelined", (208, 128, 176, 64, 64, 64, 4), 90),
    ("06-tcgen05", "test_tmem_example_kernel", (128, 64, 4), 100),
    ("06-tcgen05", "test_small_mma", (128, 128, 128, False, True, 4), 100),
    ("06-tcgen05", "test_blocked_matmul", (208, 128, 176, 64, 64, 64, False, 4), 100),
    ("06-tcgen05", "test_blocked_matmul_pipelined", (208, 128, 176, 64, 64, 64, 4), 100),
    ("07-persistence", "test_pipelined_matmul", (256, 256, 128, 128, 256, 64, 2, 8), 90),
    ("07-persistence", "test_persistent_matmul", (256, 128, 192, 64, 64, 64, 3, 4, "=PersistentTileScheduler"), 90),
    (
        "07-persistence", "test_persistent_matmul_pipelined",
        (208, 128, 304, 64, 64, 64, 3, 4, "=PersistentTileScheduler"), 90,
    ),
    ("08-warp-specialization", "test_elementwise_add_warp_specialized", (100, 200, 32, 64, 2, 2, 4), 90),
    (
        "08-warp-specialization", "test_matmul_warp_specialized",
        (384, 512, 128, 128, 256, 64, 2, 4, 4, "=t7.PersistentTileScheduler"), 100,
    ),
    ("09-tma-gather-scatter", "test_async_gather", (8, 16, 48, "=torch.float32", 64, 64, "=None"), 100),
    ("09-tma-gather-scatter", "test_async_gather", (8, 16, -16, "=torch.bfloat16", 64, 64, "=None"), 100),
    ("09-tma-gather-scatter", "test_async_scatter", (8, 16, 48, "=torch.float32", 64, 64, "=None"), 100),
    # Compared with torch's bf16 product within 0.1 %: no sum of this size is near the middle of two neighbours.
    ("09-tma-gather-scatter", "test_matmul_fused_gather_scatter", (384, 8, 248, 128, 64, 64, 3), 100),
    ("10-tcgen05-copy", "test_tcgen05_copy_nvmma_shared", (128, 64, 64, "=torch.float32", 64), 100),
    ("10-tcgen05-copy", "test_matmul_accumulate", (256, 256, 256, 128, 64, 64, 3, "=torch.float16"), 100),
    ("10-tcgen05-copy", "test_matmul_accumulate", (256, 256, 128, 128, 64, 64, 3, "=torch.float16"), 100),
    ("11-tcgen05-mma-scaled", "test_simple_mma_scaled", (128, 128, 256, "mxfp8", "mxfp8", 64, 128), 100),
    ("11-tcgen05-mma-scaled", "test_mma_scaled_contig", (128, 128, 256, "mxfp8", "mxfp8", 128, 128), 100),
    ("11-tcgen05-mma-scaled", "test_mma_scaled_packed_block", (128, 128, 256, "mxfp8", "mxfp8", 128, 128), 100),
    ("11-tcgen05-mma-scaled", "test_mma_scaled_tcgen05_copy", (128, 128, 256, "mxfp8", "mxfp8", 128, 128), 100),
    (
        "11-tcgen05-mma-scaled", "test_mma_scaled_pipelined",
        (256, 512, 640, "mxfp8", "mxfp8", "=mma_scaled_pipelined_kernel"), 100,
    ),
    (
        "11-tcgen05-mma-scaled", "test_mma_scaled_pipelined",
        (256, 512, 640, "mxfp8", "mxfp8", "=mma_scaled_warp_specialized_kernel"), 100,
    ),
    ("12-cluster-launch-control", "test_op", (256, 256, 128, True), 100),
    ("13-conv-im2col", "test_tma_im2col_simple", (), 90),
    ("13-conv-im2col", "test_tma_im2col_padded", (), 90),
    ("13-conv-im2col", "test_tma_im2col_offset", (), 90),
    ("13-conv-im2col", "test_tma_im2col_multi_batch", (), 90),
    ("13-conv-im2col", "test_tma_im2col_multi_batch_padded", (), 90),
    ("13-conv-im2col", "test_conv2d_tma_im2col", (1, 16, 16, 64, 64, 3, 3, 1, 1), 90),
    ("13-conv-im2col", "test_conv2d_tma_im2col", (2, 16, 16, 96, 96, 3, 3, 2, 0), 100),
    ("14-multicta", "test_multicta_softmax_f32", (4, 256), 90),
    ("14-multicta", "test_multicta_softmax_f32", (2, 32768), 90),
    ("14-multicta", "test_tma_multicast_copy", (), 90),
    ("14-multicta", "test_two_cta_tcgen05", (), 100),
    ("14-multicta", "test_tma_tcgen05", (), 100),
    ("14-multicta", "test_matmul_multicta", (), 100),
)
"""Tutorial, function, arguments and compute capability; behind `=` stands what the tutorial's module evaluates."""
FPROP, DGRAD, WGRAD = (f"=conv2d_{kind}_fixed" for kind in ("fprop", "dgrad", "wgrad"))
SMALL = (
    "=MLPConfig(name='', num_experts=8, experts_per_token=2, num_expert_shards=2, hidden_size=512,"
    " intermediate_size=512)"
)
EXAMPLES: tuple[tuple[str, str, tuple[object, ...], int], ...] = (
    ("example/01-attention-forward", "test_op", (1, 1, 512, 64, False, "=torch.float16", False, "=()"), 100),
    ("example/01-attention-forward", "test_op", (1, 2, 512, 128, True, "=torch.bfloat16", False, "=()"), 100),
    ("example/01-attention-forward", "test_op", (1, 1, 512, 64, False, "=torch.float8_e5m2", False, "=()"), 100),
    ("example/01-attention-forward", "test_op", (1, 1, 1024, 64, True, "=torch.float16", False, "=((1, 0),)"), 100),
    ("example/02-conv-fprop", "test_op", (FPROP, 1, 96, 1, 8, 128, 1, 2, "=(1, 2)", 0), 100),
    ("example/02-conv-fprop", "test_op", (FPROP, 2, 5, 16, 16, 96, 3, 3, 1, 1), 100),
    ("example/02-conv-dgrad", "test_op", (DGRAD, 2, 64, 8, 8, 64, 3, 3, 1, 1), 100),
    ("example/02-conv-dgrad", "test_op", (DGRAD, 1, 64, 8, 8, 64, 3, 3, 2, 1), 100),
    ("example/02-conv-wgrad", "test_op", (WGRAD, 2, 5, 16, 16, 96, 3, 3, 1, 1), 100),
    ("example/02-conv-wgrad", "test_op", (WGRAD, 4, 96, 1, 8, 128, 1, 2, "=(1, 2)", 0), 100),
    (
        "example/03-matmul-multicta", "test_matmul_matches_torch",
        (100, 200, 200, 64, 128, 64, 0, 8, "=()", 2, 2, 32, 4), 100,
    ),
    (
        "example/03-matmul-multicta", "test_matmul_matches_torch",
        (100, 200, 200, 128, 256, 64, 1, 8, "=((1, 0),)", 2, 2, 32, 4), 100,
    ),
    (
        "example/04-2cta-block-scale-matmul", "test_mma_scaled_warp_specialized",
        (128, 128, 640, "mxfp8", "mxfp8", 1, 128, 64, 5), 100,
    ),
    (
        "example/04-2cta-block-scale-matmul", "test_mma_scaled_warp_specialized",
        (256, 256, 640, "nvfp4", "nvfp4", 2, 256, 64, 5), 100,
    ),
    ("example/05-moe-bmm1-fused-gather", "test_op", (SMALL, 16), 100),
)
"""The same of the examples, which are in python/examples/gluon; the last one uses the library python/triton_kernels."""
ENDING = re.compile(r"^(        i \+= 1\n)(?=\n\n@gluon\.jit\ndef _matmul_kernel)", re.MULTILINE)
"""The end of the partition of stores of example 03, which does not wait for its last copies either."""
OF_A_GPU = 'device=f"cuda:{torch.cuda.current_device()}"'
"""The device of example 05."""
PROGRAM = """
import importlib.util, json, sys
import types
import torch, tilewright
import triton._C.libtriton
triton._C.libtriton.gluon_ir = types.ModuleType("gluon_ir")  # 09 imports it to draw a layout
gpu = {"multi_processor_count": 2, "major": 10, "minor": 0, "shared_memory_per_block_optin": 232448}
torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(**gpu)
name, function, arguments, capability = json.loads(sys.argv[1])
# What libraries pad is a part of the same allocation.
with tilewright.simulate(f"cuda:{capability}", bounds="storage" if name.startswith("example") else "array"):
    spec = importlib.util.spec_from_file_location("tutorial", f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorial"] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    found = [eval(value[1:], vars(module)) if str(value)[:1] == "=" else value for value in arguments]
    getattr(module, function)(*found)
"""


def unpack_examples(repository: Path, folder: Path) -> None:
    """Put the examples into a folder `example`, for the CPU, and the library that one of them uses beside it."""
    git = ["git", f"--git-dir={repository}"]
    command = [*git, "archive", "HEAD:python/triton_kernels", "triton_kernels"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)
    (folder / "example").mkdir()
    for path in paths(git, "python/examples/gluon/"):
        text = on_cpu(source(git, path)).replace(OF_A_GPU, 'device="cpu"')
        (folder / "example" / Path(path).name).write_text(ENDING.sub(r"\1    tma.store_wait(0)\n", text))


def paths(git: Sequence[str], folder: str) -> list[str]:
    """The Python files in a folder of the repository."""
    command = [*git, "ls-tree", "--name-only", "HEAD", folder]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [path for path in found if path.endswith(".py")]


def source(git: Sequence[str], path: str) -> str:
    """The text of a file of the repository."""
    return subprocess.run([*git, "show", f"HEAD:{path}"], capture_output=True, text=True, check=True).stdout


def on_cpu(text: str) -> str:
    """A program whose tensors are in the memory of the CPU."""
    for quote in "\"'":
        text = text.replace(f"{quote}cuda{quote})", f"{quote}cpu{quote})")
        for equals in ("=", " = "):
            text = text.replace(f"device{equals}{quote}cuda{quote}", f"device{equals}{quote}cpu{quote}")
    return MEASURES.sub("", text)


def unpack(repository: Path, folder: Path) -> None:
    """Put the tutorials into a folder, for the CPU."""
    git = ["git", f"--git-dir={repository}"]
    for path in paths(git, "python/tutorials/gluon/"):
        text = on_cpu(source(git, path))
        if Path(path).name.startswith("14"):
            text = WAITS.sub(r"\1\n    tma.store_wait(0)\n\n\n", text)
            for size, smaller in SMALLER:
                text = text.replace(size, smaller)
        if Path(path).name.startswith("11"):
            text = DRAIN.sub(DRAINED, text)
        if Path(path).name.startswith("13"):
            text = EARLIER.sub(r"\2\1", text)
        (folder / Path(path).name).write_text(text)


def run(folder: Path, case: tuple[str, str, tuple[object, ...], int]) -> str:
    """The outcome of a function: `passes`, or the last line."""
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "tilewright", "run", "program.py", json.dumps(case)]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"has not ended in {LIMIT} s"
    if not done.returncode:
        return "passes"
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return said[-1].strip() if said else f"exit status {done.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("tutorials", nargs="*", help="the numbers of some, or `example`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(arguments.repository, folder)
        unpack_examples(arguments.repository, folder)
        names = tuple(arguments.tutorials)
        cases = [case for case in (*CASES, *EXAMPLES) if not names or case[0].startswith(names)]
        passed = 0
        for case in cases:
            begin = time.perf_counter()
            said = run(folder, case)
            passed += said == "passes"
            sys.stdout.write(f"{case[0]} {case[1]}{case[2]} {time.perf_counter() - begin:.0f} s: {said}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{passed} of {len(cases)} functions pass\n")


if __name__ == "__main__":
    main()
