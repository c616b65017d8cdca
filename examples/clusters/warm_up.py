"""Many kernels compiled before they are needed, by whatever workers there are:

python warm_up.py                                        processes of this machine
python warm_up.py dask [ADDRESS OF A SCHEDULER]          a cluster of Dask
python warm_up.py ray                                    a cluster of Ray
mpiexec -n 3 python -m mpi4py.futures warm_up.py mpi     ranks of MPI
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


@contextmanager
def workers(kind: str, *arguments: str) -> Iterator[Executor | None]:
    """An executor; None stands for processes of this machine."""
    if kind == "dask":
        from distributed import Client

        here = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with Client(*arguments) if arguments else Client(**here) as client:
            yield client.get_executor()
    elif kind == "ray":
        import ray

        ray.init(log_to_driver=False)
        with tw.RayExecutor(num_cpus=1) as pool:
            yield pool
    elif kind == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as pool:
            yield pool
    else:
        yield None


def main() -> None:
    cached: list[bool] = []
    with workers(*sys.argv[1:] or ["here"]) as executor, tw.AsyncCompileMode(executor):
        for kind in (np.float16, np.float32, np.float64):
            for block in (64, 128, 256, 512):
                scale.warmup(kind, kind, 1000, 2.0, BLOCK=block, grid=(1,))
        tw.knobs.compilation.listener = lambda *, cache_hit, **_: cached.append(cache_hit)
    print(f"{sum(cached)} of {len(cached)} kernels came from other processes")
    x = np.arange(1000, dtype=np.float32)
    out = np.empty_like(x)
    scale[(4,)](x, out, 1000, 2.0, BLOCK=256)
    print(out[:4], out[-1])


if __name__ == "__main__":
    main()
