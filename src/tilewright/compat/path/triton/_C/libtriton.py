"""`triton._C.libtriton`."""
