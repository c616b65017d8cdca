"""`triton.runtime.cache`."""

from tilewright.compat.deprecated_caches import default_cache_dir, default_dump_dir, default_override_dir
from tilewright.compat.identity import make_so_cache_key, triton_key
from tilewright.runtime.cache.managers import (
    CacheManager,
    FileCacheManager,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
)
from tilewright.runtime.cache.redis import RedisRemoteCacheBackend
from tilewright.runtime.cache.remote import RemoteCacheBackend, RemoteCacheManager
from tilewright.runtime.cache.managers import base32 as _base32
from tilewright.runtime.compile import get_cache_key
from tilewright.support import knobs

__all__ = [
    "CacheManager",
    "FileCacheManager",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "RemoteCacheManager",
    "default_cache_dir",
    "default_dump_dir",
    "default_override_dir",
    "get_cache_key",
    "get_cache_manager",
    "get_dump_manager",
    "get_override_manager",
    "knobs",
    "make_so_cache_key",
    "triton_key",
]
