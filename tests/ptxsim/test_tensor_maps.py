"""Maps of tensors: what is written is read, boxes at the border, gathered rows, and maps that are refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tilewright.backends.ptxsim.tensor_maps import (
    FIELDS,
    SIZE,
    MapError,
    TensorMap,
    box_at,
    decode,
    fill_bytes,
    shared_addresses,
)

MAP = TensorMap(4096, "f16", (100, 60), (256,), (32, 16), 64, (1, 1))


def test_what_is_written_is_read() -> None:
    assert len(MAP.encode()) == SIZE
    assert decode(MAP.encode()) == MAP
    cube = TensorMap(0, "u8", (64, 2, 3, 4, 5), (64, 128, 384, 1536), (16, 1, 1, 1, 1), 0, (1,) * 5, True)
    assert decode(cube.encode()) == cube


def test_every_field_has_its_place() -> None:
    raw = bytearray(MAP.encode())
    start, width, _ = FIELDS["box_dim"]
    raw[start + width : start + 2 * width] = (8).to_bytes(width, "little")
    start, width, _ = FIELDS["global_stride"]
    raw[start : start + width] = (512).to_bytes(width, "little")
    assert decode(bytes(raw)) == replace(MAP, box=(32, 8), strides=(512,))
    spans = sorted((start, start + width * count) for start, width, count in FIELDS.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert spans[-1][1] <= SIZE


def test_a_box_over_the_border() -> None:
    box = box_at(MAP, (90, -1))
    inside = box.inside.reshape(16, 32)
    assert not inside[0].any()
    assert inside[1:, :10].all()
    assert not inside[:, 10:].any()
    assert box.global_.reshape(16, 32)[2, 3] == 4096 + 1 * 256 + 93 * 2
    assert (np.sort(shared_addresses(box, 1024, 64).ravel()) == 1024 + np.arange(1024)).all()


def test_gathered_rows() -> None:
    box = box_at(replace(MAP, box=(32, 1)), (8, 0), rows=(5, 99, 0, 7))
    assert box.global_.reshape(4, 32)[:, 0].tolist() == [4096 + row * 256 + 16 for row in (5, 99, 0, 7)]
    assert box.inside.reshape(4, 32).all(axis=1).tolist() == [True, False, True, True]


def test_padded_four_bits() -> None:
    padded = TensorMap(0, "b4x16_p64", (256, 8), (128,), (128, 8), 128, (1, 1))
    box = box_at(padded, (0, 0))
    assert (box.size, box.shared_size, len(box.inside)) == (8, 16, 64)
    assert box.global_.reshape(8, 8)[1, 2] == 128 + 16


def test_fill() -> None:
    assert fill_bytes(MAP, 2).tolist() == [0, 0]
    assert np.isnan(fill_bytes(replace(MAP, fill_nan=True), 2).view(np.float16)).all()


@pytest.mark.quick
@pytest.mark.parametrize(
    "change",
    [
        {"address": 8},
        {"strides": (200,)},
        {"box": (257, 1)},
        {"box": (64, 16)},
        {"box": (4, 16), "swizzle": 0},
        {"shape": (0, 60)},
        {"element_strides": (1, 9)},
    ],
)
def test_refused(change: dict[str, object]) -> None:
    with pytest.raises(MapError):
        decode(replace(MAP, **change).encode())
