"""What is kept of compiled kernels, where, by whom, and for how long; see `store.py`."""
