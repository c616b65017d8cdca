"""`from tilewright import knobs` gives `tilewright.support.knobs` itself, so what is set here counts everywhere."""

import sys

from tilewright.support import knobs

sys.modules[__name__] = knobs
