"""Triton's tests of warp specialization (unit/language/test_warp_specialization.py) on a simulated sm_100.

    python tests/conformance/warp_specialization.py ~/triton.git

The argument is a repository of Triton, of whose HEAD the file is; nothing of it is in this one. It needs torch and
pytest. The functions run at reduced sizes as those of `gluon_tutorials.py` do; products are compared with torch's.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gluon_tutorials import run

FILE = "python/test/unit/language/test_warp_specialization.py"
FOLDER = '=__import__("pathlib").Path(".")'
CUBLAS = """
class cublas:
    def matmul(a, b, out):
        out.copy_(a.to(torch.float32) @ b.to(torch.float32).T)
"""
"""A stand-in for NVIDIA's library in the file."""
Case = tuple[str, str, tuple[object, ...], int]


def cases() -> Iterator[Case]:
    """Function, arguments and compute capability."""
    flags = (False, True)
    by_tma = [(True, True), (True, False), (False, True)]
    for function in ("test_warp_specialize_basic_ir", "test_warp_specialize_tmem_ir", "test_warpgroup_reduction"):
        yield "test_warp_specialization", function, (FOLDER,), 100
    tests = {
        "test_warp_specialize_tma_matmul": [
            (*size, 128, 128, 64, stages, warps, fp8, *tma)
            for size, stages, warps, fp8, tma in itertools.product(
                [(32, 32, 32), (256, 128, 320)], (0, 3), (4, 8), flags, by_tma
            )
        ],
        "test_warp_specialize_tma_matmul_persistent": [
            (*size, 128, 128, 64, 3, 4, fp8, flatten, *tma)
            for size, fp8, flatten, tma in itertools.product([(32, 32, 32), (512, 256, 192)], flags, flags, by_tma)
        ],
        "test_warp_specialize_attention_forward": [
            (256, 256, *rest) for rest in itertools.product((64, 128), (64,), (2, 3), (False,), (4, 8), flags)
        ],
        "test_warp_specialize_attention_persistent_forward": [
            (512, 256, *rest) for rest in itertools.product((64, 128), (64,), (2, 3), (False,), (4, 8), flags)
        ],
        "test_grouped_gemm": [(128, 256, 128, 4)],
    }
    for function, arguments in tests.items():
        yield from (("test_warp_specialization", function, chosen, 100) for chosen in arguments)


def unpack(repository: Path, folder: Path) -> None:
    """Put the file into a folder, for the CPU."""
    command = ["git", f"--git-dir={repository}", "show", f"HEAD:{FILE}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for quote in "\"'":
        text = text.replace(f"{quote}cuda{quote}", f"{quote}cpu{quote}")
    text = re.sub(r"torch\.cuda\.get_device_properties\(.*?\)\.multi_processor_count", "2", text)
    text = text.replace("    cublas = None\n", "    cublas = None\n" + CUBLAS)
    (folder / "test_warp_specialization.py").write_text(text)


def main() -> None:
    passed = total = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(Path(sys.argv[1]), folder)
        chosen = [case for case in cases() if all(word in f"{case[1]}{case[2]}" for word in sys.argv[2:])]
        for case in chosen:
            said = run(folder, case)
            total += 1
            passed += said == "passes"
            sys.stdout.write(f"{case[1]}{case[2]}: {said}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{passed} of {total} cases pass\n")


if __name__ == "__main__":
    main()
