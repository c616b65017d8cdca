"""`triton.tools.compile`, also as a script."""

import sys

from tilewright.tools.aot.compile_command import CompileArgs, compile_kernel
from tilewright.tools.main import main as command_line

__all__ = ["CompileArgs", "compile_kernel", "main"]


def main() -> None:
    """Compile what the command line asks for."""
    sys.exit(command_line(["compile", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
