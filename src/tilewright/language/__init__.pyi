"""What type checkers and editors see of the package."""

from tilewright.language.names import *  # noqa: F403 - the names are in its __all__
from tilewright.language.names import __all__ as __all__
