"""The package `triton` for programs that `tilewright run` runs: the names are Triton's, the objects are Tilewright's.

The version is that of the Triton whose documents describe block pointers, which later ones removed; what later ones
added is there too. What is compiled is kept where users of Triton look for it and delete it: in `~/.triton`. Neither
takes the other's entries: their keys differ.
"""

import sys

from tilewright.compat import finder
from tilewright.runtime.devices import expect_gpu

__version__ = "3.5.1"

finder.show(sys.modules[__name__])
expect_gpu()
