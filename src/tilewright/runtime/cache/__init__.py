"""The cache of compiled kernels: what is kept, where, by whom, and for how long; see `store.py`."""
