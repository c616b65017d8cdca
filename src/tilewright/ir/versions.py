"""What the texts of Triton's versions spell differently. All are read; one is printed.

3.5    !tt.tensordesc<tensor<8x16xf32>>    tt.load %p cacheModifier = ca : !tt.ptr<f32>
3.7    !tt.tensordesc<8x16xf32>            as 3.5
3.9    as 3.7                              tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = ca, …>} : …
"""

from __future__ import annotations

from tilewright.support.named_tuple import NamedTuple


class Version(NamedTuple):
    """How one version of Triton spells things.

    Attributes:
        tensor_in_descriptor: the block of a tensor descriptor is a tensor type.
        cache_policy: cache options are one attribute.
    """

    tensor_in_descriptor: bool
    cache_policy: bool


VERSIONS = {
    "3.5": Version(tensor_in_descriptor=True, cache_policy=False),
    "3.7": Version(tensor_in_descriptor=False, cache_policy=False),
    "3.9": Version(tensor_in_descriptor=False, cache_policy=True),
}
OURS = VERSIONS["3.5"]
