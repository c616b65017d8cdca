"""`triton.runtime.autotuner`."""

from tilewright import Autotuner, Config, Heuristics, JITFunction, KernelInterface, OutOfResources, autotune, heuristics
from tilewright.compat.identity import triton_key
from tilewright.runtime.cache.managers import get_cache_manager
from tilewright.runtime.errors import AutotunerError
from tilewright.support import knobs
from tilewright.support.device_errors import PTXASError

from triton.runtime.driver import driver

__all__ = [
    "Autotuner",
    "AutotunerError",
    "Config",
    "Heuristics",
    "JITFunction",
    "KernelInterface",
    "OutOfResources",
    "PTXASError",
    "autotune",
    "driver",
    "get_cache_manager",
    "heuristics",
    "knobs",
    "triton_key",
]
