"""Kernels as others write them for GPUs, in our own words, beside torch, NumPy and JAX: what `measure_foreign.py` runs.

Tiles and grids are those of GPUs, strides come at run time, offsets are taken apart by // and %, tiles are larger than
what they hold. Each module has kernels, functions that make problems of a shape, and its table ROWS.
"""
