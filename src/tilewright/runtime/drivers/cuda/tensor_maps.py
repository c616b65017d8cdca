"""Tensor maps, the 128 bytes that a GPU's copy engine wants of a tensor: made by the driver.

encode(gpu, map_fields("desc", host_map, facts))        # what a kernel gets by value
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint32, c_uint64

from tilewright.runtime.drivers.cuda.gpu import Gpu
from tilewright.runtime.tensor_maps import MapFields

MAP_BYTES, MAP_ALIGNMENT = 128, 64
ELEMENTS = {**{number: number for number in range(16)}, 8: 10, 9: 8, 10: 9}
"""PTX's number of an element type → CUtensorMapDataType."""
NO_INTERLEAVING, PROMOTE_128_BYTES = 0, 2


def encode(gpu: Gpu, fields: MapFields) -> bytes:
    """The tensor map.

    Raises:
        CudaError: the driver refuses it.
    """
    rank = len(fields.shape)
    memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    place = -(-ctypes.addressof(memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    gpu.driver.call(
        "cuTensorMapEncodeTiled",
        place,
        ELEMENTS[fields.element],
        rank,
        fields.address,
        (c_uint64 * rank)(*fields.shape),
        (c_uint64 * rank)(*fields.strides),
        (c_uint32 * rank)(*fields.box),
        (c_uint32 * rank)(*[1] * rank),
        NO_INTERLEAVING,
        fields.swizzle,
        PROMOTE_128_BYTES,
        int(fields.pads_with_nan),
    )
    return ctypes.string_at(place, MAP_BYTES)
