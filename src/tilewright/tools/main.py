"""The command line.

tilewright show file.py:kernel --signature "*fp32:16, *fp32:16, i32, 128"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

import tilewright
from tilewright.backends.llvm.machine import UnknownCpuError
from tilewright.support.diagnostics import TilewrightError
from tilewright.support.knob_kinds import KnobError
from tilewright.tools import (
    cache_command,
    doctor,
    explain,
    layout_command,
    opt_run,
    run_command,
    show,
)
from tilewright.tools.aot import compile_command, link_command
from tilewright.tools.kernels import UsageError


def _page(name: str, options: argparse.Namespace) -> int:
    """Print a page; the modules of some import all parts of the compiler."""
    print(import_module(f"tilewright.tools.{name}_table").page(), end="")
    return 0


COMMANDS: tuple[
    tuple[str, str, Callable[[argparse.ArgumentParser], None] | None, Callable[[argparse.Namespace], int]], ...
] = (
    ("run", "run a script or module written for Triton", run_command.add_arguments, run_command.run),
    ("show", "print what a kernel becomes at each stage", show.add_arguments, show.run),
    ("explain", "print what each front end makes of a kernel, side by side", explain.add_arguments, explain.run),
    ("opt", "run passes over the text of a kernel", opt_run.add_arguments, opt_run.run),
    ("layout", "draw who holds each element of a tile", layout_command.add_arguments, layout_command.run),
    ("compile", "write a kernel as object and C files", compile_command.add_arguments, compile_command.run),
    ("link", "join compiled C files into one function", link_command.add_arguments, link_command.run),
    ("functions", "print the functions of the language", None, partial(_page, "functions")),
    ("ops", "print the ops, and what the compiler does with each", None, partial(_page, "ops")),
    ("passes", "print the passes, with what each does and where it runs", None, partial(_page, "passes")),
    ("rules", "print the rewrite rules, with their conditions", None, partial(_page, "rules")),
    ("settings", "print the environment variables", None, partial(_page, "settings")),
    ("doctor", "say what this machine has of what is used, and what to do", None, doctor.run),
    ("cache", "look into the cache folder, or empty it", cache_command.add_arguments, cache_command.run),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(arguments)
    if options.run is None:
        parser().print_help(sys.stderr)
        return 2
    try:
        status: int = options.run(options)
    except (TilewrightError, UsageError, KnobError, UnknownCpuError) as error:
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
    commands = top.add_subparsers(metavar="COMMAND")
    for name, purpose, add_arguments, run in COMMANDS:
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.set_defaults(run=run)
        if add_arguments is not None:
            add_arguments(command)
    return top
