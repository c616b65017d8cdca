"""`from tilewright import knobs` gives `tilewright.support.knobs` itself, so assignments take effect everywhere."""

import sys

from tilewright.support import knobs

sys.modules[__name__] = knobs
