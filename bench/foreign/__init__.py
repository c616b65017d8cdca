"""Kernels as others write them for GPUs, in our own words, beside torch, NumPy and JAX: what `measure_foreign.py` runs.

Tiles and grids are those of GPUs, strides come at run time, offsets are taken apart by // and %, tiles are larger than
what they hold. Each module has kernels, functions that make problems of a shape, and its table ROWS.
"""

from itertools import chain

from foreign import attention, movement, ordering, pointwise, products, quantised, reductions, training

MODULES = (pointwise, movement, reductions, ordering, products, quantised, attention, training)
ROWS = tuple(chain.from_iterable(module.ROWS for module in MODULES))
