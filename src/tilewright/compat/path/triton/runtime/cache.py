"""`triton.runtime.cache`."""

from tilewright.compat.identity import triton_key
from tilewright.runtime.cache.managers import (
    CacheManager,
    FileCacheManager,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
)
from tilewright.runtime.cache.redis import RedisRemoteCacheBackend
from tilewright.runtime.cache.remote import RemoteCacheBackend, RemoteCacheManager
from tilewright.runtime.compile import get_cache_key

__all__ = [
    "CacheManager",
    "FileCacheManager",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "RemoteCacheManager",
    "get_cache_key",
    "get_cache_manager",
    "get_dump_manager",
    "get_override_manager",
    "triton_key",
]
