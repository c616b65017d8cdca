"""The package as type checkers and editors see it."""

from tilewright.language.names import *  # noqa: F403 - the names are in its __all__
from tilewright.language.names import __all__ as __all__
