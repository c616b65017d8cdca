"""`python -m tilewright.compat.stubs [FOLDER]`: stubs of the package `triton`, for editors and type checkers.

These do not run the import finder, so the text of each module is written to FOLDER/triton. The default is `typings`,
where pyright looks; for mypy set `mypy_path = typings`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.compat.finder import LOADER, ROOT
from tilewright.compat.triton_modules import MODULES, PACKAGES, SCRIPTS

FILES = Path(__file__).with_name("path")


def stub_texts() -> dict[Path, str]:
    """The text of every stub by its path."""
    texts = {name: LOADER.get_source(name) for name in MODULES}
    texts[ROOT] += "__version__: str\n"
    texts |= {name: _path(name, FILES, ".py").read_text() for name in SCRIPTS}
    return {_path(name, Path(), ".pyi"): text for name, text in texts.items()}


def _path(name: str, folder: Path, suffix: str) -> Path:
    place = folder.joinpath(*name.split("."))
    return place / f"__init__{suffix}" if name in PACKAGES else place.with_name(place.name + suffix)


def main(arguments: Sequence[str]) -> None:
    """Write the stubs to the folder that the command line names."""
    folder = Path(*arguments[:1] or ["typings"])
    for path, text in stub_texts().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
