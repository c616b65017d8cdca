"""`triton.tools.link`, also as a script."""

import sys

from tilewright.tools.aot.link_command import HeaderParser, LinkerError
from tilewright.tools.main import main as command_line

__all__ = ["HeaderParser", "LinkerError", "main"]


def main() -> None:
    """Link what the command line asks for."""
    sys.exit(command_line(["link", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
