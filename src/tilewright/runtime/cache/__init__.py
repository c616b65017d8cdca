"""The cache of compiled kernels: contents, folders, locks and eviction; see `store.py`."""
