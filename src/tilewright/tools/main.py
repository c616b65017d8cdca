"""The command line.

tilewright show file.py:kernel --signature "*fp32:16, *fp32:16, i32, 128"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import tilewright
from tilewright.support.diagnostics import TilewrightError
from tilewright.support.knob_kinds import KnobError
from tilewright.tools.kernels import UsageError

COMMANDS = (
    ("run", "run a script or module written for Triton", "run_command"),
    ("show", "print what a kernel becomes at each stage", "show"),
    ("explain", "print what each front end makes of a kernel, side by side", "explain"),
    ("opt", "run passes over the text of a kernel", "opt_run"),
    ("layout", "draw who holds each element of a tile", "layout_command"),
    ("compile", "write a kernel as object and C files", "aot.compile_command"),
    ("link", "join compiled C files into one function", "aot.link_command"),
    ("functions", "print the functions of the language", "functions_table"),
    ("ops", "print the ops, and what the compiler does with each", "ops_table"),
    ("passes", "print the passes, with what each does and where it runs", "passes_table"),
    ("rules", "print the rewrite rules, with their conditions", "rules_table"),
    ("settings", "print the environment variables", "settings_table"),
    ("doctor", "say what this machine has of what is used, and what to do", "doctor"),
    ("cache", "look into the cache folder, or empty it", "cache_command"),
)
"""Names, purposes and modules. A module is imported when its command is used: some import all parts of the compiler."""


class _Command(argparse.ArgumentParser):
    """The parser of a command, which gets the arguments from the command's module when there are some to parse."""

    module = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        module = import_module(f"tilewright.tools.{self.module}")
        if hasattr(module, "add_arguments"):
            module.add_arguments(self)
        self.set_defaults(run=module.run if hasattr(module, "run") else partial(_print_page, module))
        return super().parse_known_args(args, namespace)


def _print_page(module: ModuleType, options: argparse.Namespace) -> int:
    print(module.page(), end="")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(arguments)
    if options.run is None:
        parser().print_help(sys.stderr)
        return 2
    try:
        status: int = options.run(options)
    except (TilewrightError, UsageError, KnobError) as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (`head`) has seen enough
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(prog="tilewright", description="The Triton language for CPUs and NVIDIA GPUs.")
    top.add_argument("--version", action="version", version=f"tilewright {tilewright.__version__}")
    top.set_defaults(run=None)
    commands = top.add_subparsers(metavar="COMMAND", parser_class=_Command)
    for name, purpose, module in COMMANDS:
        commands.add_parser(name, help=purpose, description=purpose).module = module
    return top
