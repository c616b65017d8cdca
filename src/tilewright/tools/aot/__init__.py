"""Ahead-of-time compilation: objects and C files that need no Python when they run."""
