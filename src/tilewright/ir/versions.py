"""The texts that Triton's versions spell differently. All are read; one is printed.

3.5    !tt.tensordesc<tensor<8x16xf32>>    tt.load %p cacheModifier = ca : !tt.ptr<f32>
3.7    !tt.tensordesc<8x16xf32>            as 3.5
3.9    as 3.7                              tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = ca, …>} : …

Layouts for several blocks say `CTAsPerCGA`, `CTASplitNum` and `CTAOrder` in 3.5, `CGALayout` since.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.support.named_tuple import NamedTuple


class Version(NamedTuple):
    """The spelling of one version of Triton.

    Attributes:
        tensor_in_descriptor: the block of a tensor descriptor is a tensor type.
        cache_policy: cache options are one attribute.
        cga_layout: layouts say how blocks share a tile in the key `CGALayout`.
    """

    tensor_in_descriptor: bool
    cache_policy: bool
    cga_layout: bool


VERSIONS = {
    "3.5": Version(tensor_in_descriptor=True, cache_policy=False, cga_layout=False),
    "3.7": Version(tensor_in_descriptor=False, cache_policy=False, cga_layout=True),
    "3.9": Version(tensor_in_descriptor=False, cache_policy=True, cga_layout=True),
}
OURS = VERSIONS["3.5"]
OLDER_LAYOUTS: list[Callable[[str], str]] = []
"""Functions from the text of a layout to its text without `cga_layout`. Dialects fill it."""
