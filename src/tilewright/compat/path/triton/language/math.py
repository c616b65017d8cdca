"""`triton.language.math`."""

from tilewright.language import math as _own
from tilewright.language.math import __getattr__
from tilewright.compat.names import public_names

globals().update(public_names(_own))
