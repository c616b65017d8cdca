"""Special registers: what `%tid.x` and its like read as, one value per lane."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.backends.ptxsim.machine import WARP, Extents, Machine
from tilewright.backends.ptxsim.value_types import Array

AXES = "xyz"


def thread_index(machine: Machine, axis: int) -> Array:
    number = machine.everyone % machine.padded
    x, y, _ = machine.block
    return (number % x, number // x % y, number // (x * y))[axis]


def cta_index(machine: Machine, axis: int) -> Array:
    return np.asarray(machine.ctas[machine.cta, axis])


def cluster_index(machine: Machine, axis: int) -> Array:
    return cta_index(machine, axis) // machine.cluster[axis]


def cta_in_cluster(machine: Machine, axis: int) -> Array:
    return cta_index(machine, axis) % machine.cluster[axis]


def cta_rank(machine: Machine) -> Array:
    return machine.cta % machine.cluster_size


def extent(extents: Callable[[Machine], Extents], axis: int, machine: Machine) -> Array:
    return np.full(machine.lanes, extents(machine)[axis])


def clusters(machine: Machine) -> Extents:
    x, y, z = (-(-n // c) for n, c in zip(machine.grid, machine.cluster, strict=True))
    return x, y, z


def lane(machine: Machine) -> Array:
    return machine.everyone % machine.padded % WARP


def steps_done(machine: Machine) -> Array:
    """The value of clocks, which count the instructions that the machine has executed."""
    return np.full(machine.lanes, machine.executed)


def lane_mask(which: Callable[[Array], Array], machine: Machine) -> Array:
    return which(lane(machine).astype(np.uint64))


def _one(number: Array) -> Array:
    return np.uint64(1) << number


SPECIAL: dict[str, Callable[[Machine], Array]] = {
    "%laneid": lane,
    "%warpid": lambda machine: machine.everyone % machine.padded // WARP,
    "%nwarpid": lambda machine: np.full(machine.lanes, machine.warps_per_cta),
    "%smid": lambda machine: machine.cta,
    "%nsmid": lambda machine: np.full(machine.lanes, len(machine.ctas)),
    "%gridid": lambda machine: np.zeros(machine.lanes, np.int64),
    "%cluster_ctarank": cta_rank,
    "%cluster_nctarank": lambda machine: np.full(machine.lanes, machine.cluster_size),
    "%is_explicit_cluster": lambda machine: np.full(machine.lanes, machine.cluster_size > 1),
    "%clock": steps_done,
    "%clock_hi": lambda machine: np.zeros(machine.lanes, np.int64),
    "%clock64": steps_done,
    "%globaltimer": steps_done,
    "%globaltimer_lo": steps_done,
    "%globaltimer_hi": lambda machine: np.zeros(machine.lanes, np.int64),
    "%lanemask_eq": partial(lane_mask, _one),
    "%lanemask_lt": partial(lane_mask, lambda n: _one(n) - np.uint64(1)),
    "%lanemask_le": partial(lane_mask, lambda n: _one(n + np.uint64(1)) - np.uint64(1)),
    "%lanemask_gt": partial(lane_mask, lambda n: np.uint64(0xFFFFFFFF) & ~(_one(n + np.uint64(1)) - np.uint64(1))),
    "%lanemask_ge": partial(lane_mask, lambda n: np.uint64(0xFFFFFFFF) & ~(_one(n) - np.uint64(1))),
    "%dynamic_smem_size": lambda machine: np.full(machine.lanes, machine.shared.size - machine.code.shared),
    "%total_smem_size": lambda machine: np.full(machine.lanes, machine.shared.size),
    "WARP_SZ": lambda machine: np.full(machine.lanes, WARP),
}
for _axis, _letter in enumerate(AXES):
    SPECIAL |= {
        f"%tid.{_letter}": partial(thread_index, axis=_axis),
        f"%ctaid.{_letter}": partial(cta_index, axis=_axis),
        f"%clusterid.{_letter}": partial(cluster_index, axis=_axis),
        f"%cluster_ctaid.{_letter}": partial(cta_in_cluster, axis=_axis),
        f"%ntid.{_letter}": partial(extent, lambda machine: machine.block, _axis),
        f"%nctaid.{_letter}": partial(extent, lambda machine: machine.grid, _axis),
        f"%nclusterid.{_letter}": partial(extent, clusters, _axis),
        f"%cluster_nctaid.{_letter}": partial(extent, lambda machine: machine.cluster, _axis),
    }
