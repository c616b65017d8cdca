"""`triton.language.core`."""

from tilewright.language.callable import must_use_result
from tilewright.compat.core_shims import CONSTEXPR_0, get_int_dtype
from tilewright.compat.marks import builtin, is_builtin
from tilewright.language.aggregates import aggregate as _aggregate
from tilewright.language.aggregates import aggregate_replace
from tilewright.language.core_names import *
from tilewright.language.core_names import __all__ as _names
from tilewright.semantics.constexpr import unwrap as _unwrap_if_constexpr

__all__ = [*_names, "CONSTEXPR_0", "aggregate_replace", "builtin", "get_int_dtype", "is_builtin", "must_use_result"]
