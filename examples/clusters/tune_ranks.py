"""Ranks of torch.distributed share the tuning of kernels: `torchrun --nproc-per-node 2 tune_ranks.py`."""

from __future__ import annotations

import os
from datetime import timedelta

import numpy as np
from torch.distributed import TCPStore

import tilewright as tw
import tilewright.language as tl


@tw.autotune([tw.Config({"BLOCK": block}) for block in (64, 256, 1024)], key=["n"])
@tw.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def grid(meta: dict[str, int]) -> tuple[int]:
    return (tw.cdiv(meta["n"], meta["BLOCK"]),)


def main() -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    measured: list[int] = []
    tw.knobs.autotuning.listener = lambda *, key, **_: measured.append(key[0])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1
    store = TCPStore(address, port, world_size, is_master=rank == 0)
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    launches = [tw.Launch(scale, grid, np.ones(n, np.float32), np.empty(n, np.float32), n) for n in sizes]
    tw.tune(launches, store=store, rank=rank, world_size=world_size)
    print(f"rank {rank} measured {measured} and knows the best of {len(scale.cache)}", flush=True)
    store.set(f"done {rank}", b"")
    store.wait([f"done {other}" for other in range(world_size)], timedelta(minutes=5))  # rank 0 is the store


if __name__ == "__main__":
    main()
