"""`triton.language`."""

from tilewright.language.callable import must_use_result
from tilewright.language import *
from tilewright.language.aggregates import aggregate_replace
from tilewright.language import __all__ as _names
from tilewright.language import __getattr__

import triton.language.core as core
import triton.language.extra as extra
import triton.language.math as math
import triton.language.random as random
import triton.language.semantic as semantic
import triton.language.standard as standard
import triton.language.target_info as target_info

__all__ = [*_names, "aggregate_replace", "must_use_result", "semantic"]
