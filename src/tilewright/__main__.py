"""`python -m tilewright`: the command line."""

import sys

from tilewright.tools.main import main

sys.exit(main(sys.argv[1:]))
