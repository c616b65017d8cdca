# %% [markdown]
# # Ahead of time
#
# A kernel can be compiled without launching it: for another CPU, for a program in C, or to have it ready in the cache.

# %%
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import tilewright as tw
import tilewright.language as tl

SOURCE = '''
import tilewright as tw
import tilewright.language as tl


@tw.jit
def scale(x_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, factor * tl.load(x_ptr + i, mask=i < n), mask=i < n)
'''

folder = Path(tempfile.mkdtemp())
(folder / "scaling.py").write_text(SOURCE)
with contextlib.chdir(folder):
    sys.path.insert(0, str(folder))
    from scaling import scale

# %% [markdown]
# ## For a signature
#
# Types are written as Triton writes them: `*fp32` is an array of floats, `i32` an integer. `tw.compile` gives what a launch
# would give.

# %%
signature = {"x_ptr": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"}
kernel = tw.compile(tw.ASTSource(scale, signature, {"BLOCK": 64}))
x = np.ones(100, np.float32)
kernel[(2,)](x, 100, 3.0, 64)
print(x.sum(), list(kernel.asm))

# %% [markdown]
# ## For another machine
#
# `target` names another CPU, or a GPU. The code is not run here, but it can be read.

# %%
arm = tw.compile(tw.ASTSource(scale, signature, {"BLOCK": 64}), target=tw.GPUTarget("cpu", "neoverse-v1", 0))
print("\n".join(line for line in arm.asm["asm"].splitlines() if "fmul" in line)[:200])
gpu = tw.compile(tw.ASTSource(scale, signature, {"BLOCK": 64}), target=tw.GPUTarget("cuda", 90, 32))
print("\n".join(line for line in gpu.asm["ptx"].splitlines() if "mul" in line)[:300])

# %% [markdown]
# ## Before the first launch
#
# `warmup` compiles for the types that a launch would have, with `tw.MockTensor` in the place of arrays, and launches nothing.

# %%
print(scale.warmup(tw.MockTensor(tl.float32), 100, 2.0, BLOCK=128, grid=(1,)).metadata.arguments)

# %% [markdown]
# ## For a program in C
#
# `tilewright compile` writes an object file with a header and a C source around it. `tilewright link` makes one C function
# of several of them.

# %%
command = [sys.executable, "-m", "tilewright", "compile", "scaling.py", "-n", "scale"]
command += ["-s", "*fp32:16, i32, fp32, BLOCK=64", "-g", "(n + BLOCK - 1) / BLOCK"]
subprocess.run(command, check=True, cwd=folder, capture_output=True)
for file in sorted(folder.glob("scale*")):
    print(file.suffix, file.stat().st_size, "bytes")
header = next(folder.glob("scale*.h")).read_text()
print("\n".join(line for line in header.splitlines() if line.startswith("TT_ResultTy scale")))

# %% [markdown]
# [Compiling without launching](../compiling.md) has the rest: texts of stages, debug information, and how C programs are
# linked.
#
# Next: [a pass of your own](writing_a_pass.py).
