"""Kernels ahead of time: objects and C files that need no Python when they run."""
