"""What Gluon refuses by name, with the line and what to do instead."""

from __future__ import annotations

import pytest

import tilewright
from tilewright import gluon
from tilewright.compat.gluon import TensorDescriptorIm2Col
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import tma as newer_tma
from tilewright.language.gluon.nvidia.hopper import tma
from tilewright.support.diagnostics import SemanticError

INSTEAD = "load the pixels that a block needs by pointers"


def test_descriptors_of_images() -> None:
    with pytest.raises(SemanticError, match="`TensorDescriptorIm2Col` is not supported") as caught:
        TensorDescriptorIm2Col("image", [1, 8, 8, 16], element_strides=[1, 1, 1, 1])
    assert INSTEAD in str(caught.value)


@gluon.jit
def copy_of_an_image(x):
    buffer = gl.allocate_shared_memory(gl.float16, [64, 64], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    tma.async_load_im2col(x, [0, 0, 0, 0], [0, 0], buffer)


def test_copies_of_images() -> None:
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError, match="is not supported") as caught:
        copy_of_an_image[(1,)](0)
    text = str(caught.value)
    assert all(part in text for part in ("`async_load_im2col`", "tma.async_load_im2col(x", INSTEAD))
    assert newer_tma.async_load_im2col is tma.async_load_im2col
