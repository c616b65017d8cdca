"""`tilewright settings`: the knobs and their environment variables, as in `docs/settings.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.support import knobs

HEAD = """# Settings

A setting is an environment variable and a knob in Python: `TRITON_CACHE_DIR` is `tilewright.knobs.cache.dir`. A knob
that was set in Python wins; otherwise the environment is read when the knob is. Names are Triton's; those of the last
group are our own. A relative folder is resolved once: against the working directory when Tilewright is imported, or, if
a program sets it, at that time. A later change of the working directory has no effect. Flags are on with `1`, `true`,
`yes`, `on` or `y`. `python -m tilewright settings` prints this page.
"""

COLUMNS = "| variable | knob | default | description |\n|---|---|---|---|\n"


def page() -> str:
    groups = [(name, group) for name, group in vars(knobs).items() if isinstance(group, knobs.base_knobs)]
    return HEAD + "".join(_section(name, group) for name, group in groups)


def _section(name: str, group: knobs.base_knobs) -> str:
    about = inspect.cleandoc(type(group).__doc__ or "").splitlines()[0]
    return f"\n## {name}\n\n{about}\n\n{COLUMNS}{''.join(_rows(name, group))}"


def _rows(name: str, group: knobs.base_knobs) -> Iterator[str]:
    for attribute, knob in group.knob_descriptors.items():
        yield f"| `{knob.key}` | `{name}.{attribute}` | {_default(knob)} | {knob.description} |\n"


def _default(knob: knobs.env_base[Any, Any]) -> str:
    """The default as it would be written in the environment."""
    if isinstance(knob, knobs.env_nvidia_tool):
        return f"`{knob.binary}` in the PATH"
    text = knobs.toenv(knob.default_in(knobs.cache.copy().reset()))
    return f"`{text[0].replace(str(Path.home()), '~')}`" if text and text[0] else ""
