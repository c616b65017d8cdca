"""`triton.language`."""

from tilewright.language.callable import must_use_result
from tilewright.language import *
from tilewright.language.aggregates import aggregate_replace
from tilewright.language import __all__ as _names

from triton.language import core, extra, math, random, semantic, standard, target_info

__all__ = [*_names, "aggregate_replace", "must_use_result", "semantic"]
