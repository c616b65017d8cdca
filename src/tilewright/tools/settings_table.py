"""`tilewright settings`: the environment variables, as `docs/settings.md` has them."""

from __future__ import annotations

import argparse

from tilewright.support.settings import documented

HEAD = """# Settings

Environment variables, read once per process. Triton's keep their names.
`python -m tilewright settings` prints this page.

| variable | default | meaning |
|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(f"| `{row.variable}` | {row.default} | {row.meaning} |\n" for row in documented())


def add_arguments(command: argparse.ArgumentParser) -> None:
    """This command takes none."""


def run(options: argparse.Namespace) -> int:
    """Print the page."""
    print(page(), end="")
    return 0
