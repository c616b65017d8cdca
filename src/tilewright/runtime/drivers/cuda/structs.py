"""Numbers and structs of cuda.h that launching needs.

Source: cuda.h of CUDA 13.0; `CUlaunchConfig` is 56 bytes, `CUlaunchAttribute` 72.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint32, c_void_p
from typing import Final

# CUdevice_attribute
WARP_SIZE, MAX_REGISTERS, CLOCK_RATE, MULTIPROCESSORS = 10, 12, 13, 16
MEMORY_CLOCK, BUS_WIDTH, MAJOR, MINOR, SHARED_LIMIT = 36, 37, 75, 76, 97

# CUfunction_attribute
FUNCTION_MAX_THREADS, STATIC_SHARED, LOCAL_BYTES, REGISTERS, DYNAMIC_SHARED, LARGE_CLUSTERS = 0, 1, 3, 4, 8, 14
PREFER_SHARED: Final = 1  # CUfunc_cache

# CUlaunchAttributeID
ATTRIBUTE_COOPERATIVE, ATTRIBUTE_CLUSTER, ATTRIBUTE_CLUSTER_POLICY, ATTRIBUTE_PDL = 2, 4, 5, 6
SPREAD: Final = 1  # CUclusterSchedulingPolicy

# CUjit_option
JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6

POINTER_DEVICE: Final = 9  # CUpointer_attribute: the number of the device
PRINTF_FIFO: Final = 1  # CUlimit

UNLIMITED_SHARED: Final = 48 << 10
"""Max bytes of dynamic shared memory of a kernel that does not ask for more."""
PORTABLE_CLUSTER: Final = 8
"""Max programs in a cluster on every GPU that has clusters."""
WARP: Final = 32


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute; `value` is a union of 64 bytes, of which three words are used here."""

    _fields_ = (("id", c_uint32), ("padding", c_uint32), ("value", c_uint32 * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared", c_uint32),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint32),
    )
