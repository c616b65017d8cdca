"""Pipeline the scheduled loops of a module: loads, products and stores of several steps run at once.

scf.for … {                              copies of the first two tiles
  %x = tt.load %p     {stage 0}    ->    scf.for … {
  %d = tt.dot …       {stage 2}            ttg.async_wait …; %x = ttg.local_load …; %d = tt.dot …
}                                          the copy of the tile after next
                                         }
"""

from __future__ import annotations

from tilewright.dialects.scf import For
from tilewright.dialects.traits import Loop
from tilewright.ir.core import Op
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions, stages_of
from tilewright.transforms.gpu.pipelining.expand_loops import expand_loops
from tilewright.transforms.gpu.pipelining.lower_loops import lower_loops
from tilewright.transforms.gpu.pipelining.predicates import simplify_arithmetic
from tilewright.transforms.gpu.pipelining.schedule import loops_of
from tilewright.transforms.gpu.pipelining.tma_stores import pipeline_stores
from tilewright.transforms.gpu.pipelining.waits import update_waits
from tilewright.transforms.gpu.pipelining.wgmma_waits import launch_wgmmas

DEFAULT = StageOptions()


def pipeline_loops(module: Op, options: StageOptions = DEFAULT) -> None:
    """Pipeline the loops of `module` as their schedules say."""
    lower_loops(module)  # loads become copies that run on
    expand_loops(module)  # stages of several steps run in one
    for loop in loops_of(module, For):
        if stages_of(loop, options.num_stages) >= 1:
            launch_wgmmas(loop)  # products run on, too
    update_waits(module)  # copies of later steps need not have arrived
    simplify_arithmetic(module)
    for any_loop in loops_of(module, Loop):
        if stages_of(any_loop, options.num_stages) > 1:
            pipeline_stores(any_loop)  # and stores by descriptor
