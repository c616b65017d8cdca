"""`triton.backends.amd`: names only."""
