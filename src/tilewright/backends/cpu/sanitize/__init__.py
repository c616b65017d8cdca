"""Kernels that check their own memory accesses; see `instrument.py`."""
