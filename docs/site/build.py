"""`make docs`: the site in `build/docs/html`, from the pages of the project; any warning fails.

    python docs/site/build.py                    # build/docs/html
    python docs/site/build.py --out FOLDER       # elsewhere
    python docs/site/build.py --release FOLDER   # as FOLDER/0.1.0, beside other versions, which pages can switch to

Tutorials are run as notebooks. What they print is kept in `build/docs/runs` under the digest of the package, so that
only a change of a tutorial or of the package runs one again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

from assemble import assemble
from links import ROOT
from sphinx.cmd.build import main as sphinx

import tilewright

SITE = Path(__file__).parent
PACKAGE = ROOT / "src" / "tilewright"


def main() -> int:
    """Build the site; the exit status of Sphinx."""
    parser = argparse.ArgumentParser(description="build the documentation site")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="the folder; the pages are in html/")
    parser.add_argument("--release", type=Path, metavar="FOLDER", help="put the site beside those of other versions")
    parser.add_argument("--version", default=tilewright.__version__, help="the name of this version")
    parser.add_argument("--address", default="/", help="where FOLDER is on the server: / or /docs/")
    options = parser.parse_args()
    out = options.out.resolve()
    assemble(out / "pages")
    configure_kernels(out / "ipython")
    print("tutorials that have changed, or all where the package has, are run first: that takes a minute or two")
    if options.release is None:
        status = run_sphinx(out, "html")
        print(f"{'wrote' if status == 0 else 'not well:'} {out / 'html' / 'index.html'}")
        return status
    listed = versions({options.version, *released(options.release)}, options.address)
    (out / "versions.json").write_text(listed)  # the theme looks there for it, as pages will later
    names = ["-t", "released", "-D", f"release={options.version}", "-D", f"version={options.version}"]
    status = run_sphinx(out, "released", *names)
    if status == 0:
        put(out / "released", options.release, options.version, listed)
    return status


def configure_kernels(folder: Path) -> None:
    """Give the notebooks' kernels settings of their own, whatever the user's are; they report errors only."""
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.json").write_text('{"IPKernelApp": {"log_level": 40}}\n')
    os.environ["IPYTHONDIR"] = str(folder)


def run_sphinx(out: Path, made: str, *options: str) -> int:
    """Read `out/pages`, write `out/made`; the exit status."""
    runs = out / "runs" / package_digest()
    settings = ["-D", f"nb_execution_cache_path={runs}"]
    folders = ["-c", SITE, "-d", out / "doctrees", out / "pages", out / made]
    return sphinx(["-W", "--keep-going", "-q", "-j", "2", *settings, *options, *map(str, folders)])


def released(folder: Path) -> set[str]:
    """The versions whose sites are in a folder."""
    return {path.parent.name for path in folder.glob("*/index.html")}


def versions(names: set[str], address: str) -> str:
    """The file that the theme reads: the versions, newest first, with their addresses."""
    ordered = sorted(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    entries = [{"version": n, "url": f"{address}{n}/", "preferred": n == ordered[0]} for n in ordered]
    return json.dumps(entries, indent=1)


def put(site: Path, folder: Path, version: str, listed: str) -> None:
    """Put a site into the folder of all versions, whose first page leads to the newest."""
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    (folder / "versions.json").write_text(listed)
    newest = json.loads(listed)[0]["version"]
    leads = f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
    head = f'<meta charset="utf-8"><title>Tilewright</title>{leads}'
    (folder / "index.html").write_text(f'<!doctype html>\n<html lang="en"><head>{head}</head></html>\n')


def package_digest() -> str:
    """The digest of the package: what tutorials print may depend on all of it."""
    files = sorted(PACKAGE.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
