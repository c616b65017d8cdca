"""`triton.language.standard`."""

from tilewright.language import standard as _own
from tilewright.compat.names import public_names

globals().update(public_names(_own))
