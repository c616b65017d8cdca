"""`make docs`: the site in `build/docs/html`, from the pages of the project; any warning fails.

    python docs/site/build.py                    # build/docs/html
    python docs/site/build.py --out FOLDER       # elsewhere

Tutorials are run as notebooks. What they print is kept in `build/docs/runs` under the digest of the package, so that
only a change of a tutorial or of the package runs one again.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from assemble import assemble
from links import ROOT
from sphinx.cmd.build import main as sphinx

SITE = Path(__file__).parent
PACKAGE = ROOT / "src" / "tilewright"


def main() -> int:
    """Build the site; the exit status of Sphinx."""
    parser = argparse.ArgumentParser(description="build the documentation site")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="the folder; the pages are in html/")
    out = parser.parse_args().out.resolve()
    assemble(out / "pages")
    runs = out / "runs" / package_digest()
    settings = ["-D", f"nb_execution_cache_path={runs}"]
    folders = ["-c", SITE, "-d", out / "doctrees", out / "pages", out / "html"]
    return sphinx(["-W", "--keep-going", "-q", "-j", "2", *settings, *map(str, folders)])


def package_digest() -> str:
    """The digest of the package: what tutorials print may depend on all of it."""
    files = sorted(PACKAGE.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
