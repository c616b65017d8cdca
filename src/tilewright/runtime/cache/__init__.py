"""What is kept of compiled kernels."""
