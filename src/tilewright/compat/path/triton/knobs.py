"""`triton.knobs` is the module `tilewright.support.knobs` itself, so that what is set here counts there."""

import sys

from tilewright.support import knobs

sys.modules[__name__] = knobs
