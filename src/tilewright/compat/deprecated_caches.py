"""Folders of the cache by the names that `triton.runtime.cache` had for them until 3.2; now they are knobs."""

from __future__ import annotations

from tilewright.support import knobs
from tilewright.support.deprecation import warn_deprecated


def default_cache_dir() -> str:
    """The folder in which kernels are kept."""
    warn_deprecated("triton.runtime.cache.default_cache_dir()", "triton.knobs.cache.dir")
    return knobs.cache.dir


def default_dump_dir() -> str:
    """The folder to which texts of stages are dumped."""
    warn_deprecated("triton.runtime.cache.default_dump_dir()", "triton.knobs.cache.dump_dir")
    return knobs.cache.dump_dir


def default_override_dir() -> str:
    """The folder of texts that override stages."""
    warn_deprecated("triton.runtime.cache.default_override_dir()", "triton.knobs.cache.override_dir")
    return knobs.cache.override_dir
