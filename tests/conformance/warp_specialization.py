"""Triton's tests of warp specialization (unit/language/test_warp_specialization.py) on a simulated GPU.

    python tests/conformance/warp_specialization.py ~/triton.git           # sm_100
    python tests/conformance/warp_specialization.py ~/triton.git 90

The first argument is a repository of Triton, of whose HEAD the file is; nothing of it is in this one. It needs torch
and pytest. The functions run at reduced sizes as those of `gluon_tutorials.py` do; products are compared with torch's.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
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
LAUNCH = "    out = grouped_matmul_tma_kernel[grid]("
REACHABLE = f"""    import tilewright
    with tilewright.simulate("cuda:100", reachable=[*group_A, *group_B, *group_C]):
    {LAUNCH}"""
"""The launch of a kernel that finds its arrays by a table of pointers."""
FOR_BLACKWELL = ("test_warp_specialize_tmem_ir", "test_grouped_gemm")
"""The functions that pytest does not run on another GPU; functions that say so themselves are not named."""
CAPABILITY = "100"
"""The compute capability, unless there is a wish for another one."""

SIZES: dict[str, tuple[tuple[object, ...], ...]] = {
    "test_warp_specialize_basic_ir": ((FOLDER,),),
    "test_warp_specialize_tmem_ir": ((FOLDER,),),
    "test_warpgroup_reduction": ((FOLDER,),),
    "test_warp_specialize_tma_matmul": (
        (32, 32, 32, 128, 128, 64, 3, 4, False, True, True),
        (256, 128, 320, 128, 128, 64, 3, 4, False, True, True),
        (256, 128, 320, 128, 128, 64, 2, 8, True, True, True),
        (256, 128, 320, 128, 128, 64, 0, 4, False, True, False),
        (256, 128, 320, 128, 128, 64, 3, 4, False, False, True),
    ),
    "test_warp_specialize_tma_matmul_persistent": (
        (32, 32, 32, 128, 128, 64, 3, 4, False, False, True, True),
        (512, 256, 192, 128, 128, 64, 3, 4, False, False, True, True),
        (512, 256, 192, 128, 128, 64, 3, 4, False, True, True, True),
        (512, 256, 192, 128, 128, 64, 2, 8, True, True, True, True),
        (512, 256, 192, 128, 128, 64, 3, 4, False, False, True, False),
    ),
    "test_warp_specialize_attention_forward": (
        (256, 256, 64, 64, 2, False, 4, False),
        (256, 256, 128, 64, 3, False, 4, False),
        (256, 256, 128, 64, 3, False, 8, True),
    ),
    "test_warp_specialize_attention_persistent_forward": (
        (512, 256, 64, 64, 2, False, 4, False),
        (512, 256, 128, 64, 3, False, 4, True),
    ),
    "test_grouped_gemm": ((128, 256, 128, 4),),
}
"""Arguments of each function; behind `=` stands what the file evaluates."""


def unpack(repository: Path, folder: Path) -> None:
    """Put the file into a folder, for the CPU."""
    command = ["git", f"--git-dir={repository}", "show", f"HEAD:{FILE}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for quote in "\"'":
        text = text.replace(f"{quote}cuda{quote}", f"{quote}cpu{quote}")
    text = re.sub(r"torch\.cuda\.get_device_properties\(.*?\)\.multi_processor_count", "2", text)
    text = text.replace("    cublas = None\n", "    cublas = None\n" + CUBLAS).replace(LAUNCH, REACHABLE)
    (folder / "test_warp_specialization.py").write_text(text)


def main() -> None:
    outcomes: Counter[str] = Counter()
    capability = int((*sys.argv[2:], CAPABILITY)[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(Path(sys.argv[1]), folder)
        for function, arguments in ((function, chosen) for function, all in SIZES.items() for chosen in all):
            if function in FOR_BLACKWELL and capability < 100:
                said = "Skipped: requires Blackwell"
            else:
                said = run(folder, ("test_warp_specialization", function, arguments, capability))
            outcomes[said if said == "passes" else said.partition(":")[0]] += 1
            sys.stdout.write(f"{function}{arguments}: {said}\n")
            sys.stdout.flush()
    skipped = outcomes.pop("Skipped", 0)
    sys.stdout.write(f"{outcomes['passes']} of {outcomes.total()} cases pass, {skipped} are skipped\n")


if __name__ == "__main__":
    main()
