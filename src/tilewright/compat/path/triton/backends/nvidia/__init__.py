"""`triton.backends.nvidia`: names only."""
