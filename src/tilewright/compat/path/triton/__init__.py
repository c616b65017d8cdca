"""The package `triton` for programs under `tilewright run`: Triton's names for Tilewright's objects.

The version is that of the last Triton whose documentation describes block pointers, which later versions removed;
additions of later versions are there too. The disk cache is in `~/.triton`, where users of Triton expect it and delete
it. Its entries and Triton's never mix, as their keys differ.
"""

import sys

from tilewright.compat import finder
from tilewright.runtime.devices import expect_gpu

__version__ = "3.5.1"

finder.show(sys.modules[__name__])
expect_gpu()
