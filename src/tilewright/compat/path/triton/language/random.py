"""`triton.language.random`."""

from tilewright.language import random as _own
from tilewright.compat.names import public_names

globals().update(public_names(_own))
