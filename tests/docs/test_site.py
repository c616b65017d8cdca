"""The site of `make docs`: it builds without a warning, its links lead somewhere, and browsers show it well."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from browser import Browser, served

pytestmark = [pytest.mark.needs_docs, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "docs"
PHONE, DESKTOP = 375, 1280
SHOWN = [
    *("index", "overview", "architecture", "settings", "ops", "users/index", "search"),
    *("tutorials/first_kernel", "tutorials/product", "tutorials/pytorch"),
    *("reference/index", "reference/tilewright", "reference/language-memory"),
    "source/src/tilewright/runtime/jit.py",
]
"""Pages that are opened in a browser: one of each kind, and those with the widest tables."""


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the pages, built as `make docs` does it."""
    build()
    return OUT / "html"


def build(*options: str) -> None:
    """Run the command, one process after the other."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), *options]
        built = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert built.returncode == 0, built.stdout + built.stderr


class Html(HTMLParser):
    """The links, the anchors and the outside references of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("rel") not in ("canonical",):
            self.loaded.add(given["href"])


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path.read_text()) for path in site.rglob("*.html") if "_static" not in path.parts}


def test_there_are_all_pages(pages: dict[Path, Html], site: Path) -> None:
    names = {str(path.relative_to(site)) for path in pages}
    expected = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} - {"index.html"}
    expected |= {f"tutorials/{path.stem}.html" for path in (ROOT / "docs" / "tutorials").glob("*.py")}
    assert expected | {"overview.html", "architecture.html", "reference/index.html"} <= names


def test_no_link_is_broken(pages: dict[Path, Html]) -> None:
    """Pages, files, and the anchors in them."""
    broken = [f"{page}: {link}" for page, html in pages.items() for link in html.links if not leads(page, link, pages)]
    assert broken == []


def leads(page: Path, link: str, pages: dict[Path, Html]) -> bool:
    """Whether a link of a page leads somewhere; what is elsewhere in the world is believed."""
    parts = urlparse(link)
    if parts.scheme in ("http", "https", "mailto"):
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    anchor = unquote(parts.fragment)
    if target.suffix != ".html" or not anchor or anchor == "#":
        return target.exists()
    return target in pages and anchor in pages[target].anchors


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Html]) -> None:
    outside = {f"{page}: {file}" for page, html in pages.items() for file in html.loaded if "//" in file}
    assert outside == set()
    missing = {
        f"{page}: {file}"
        for page, html in pages.items()
        for file in html.loaded
        if not file.startswith("data:") and not (page.parent / urlparse(file).path).exists()
    }
    assert missing == set()


def test_tutorials_show_what_they_printed(site: Path) -> None:
    first = (site / "tutorials" / "first_kernel.html").read_text()
    assert "(4,) [0. 3. 6. 9.] 2997.0" in first
    assert "data:image/png" in (site / "tutorials" / "product.html").read_text() or list(site.rglob("*.png"))


def test_the_reference_has_every_name(site: Path) -> None:
    import tilewright as tw
    import tilewright.language as tl

    text = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    for prefix, module in (("tw", tw), ("tl", tl), ("tw.testing", tw.testing), ("tw.cuda", tw.cuda)):
        names = [name for name in module.__all__ if not hasattr(getattr(module, name), "__path__")]
        missing = [name for name in names if f'id="{prefix}.{name}"' not in text]
        assert set(missing) <= {"knobs", "core", "math", "random", "standard", "target_info"}, missing


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with served(site) as found:
        yield found


@pytest.mark.needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(PHONE, True), (PHONE, False), (DESKTOP, True), (DESKTOP, False)])
def test_pages_fit_and_no_script_fails(browser: Browser, address: str, width: int, dark: bool) -> None:
    """Nothing sticks out at the side, text has the colours of the system, nothing is asked of other machines."""
    for name in SHOWN:
        page = browser.open(f"{address}/{name}.html", width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        red = page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        assert (red < 100) == dark, name
        assert page.problems == [], name
        page.close()


@pytest.mark.needs_chromium
def test_versions_stand_beside_each_other(browser: Browser, tmp_path: Path) -> None:
    """A page lists the other versions, and the page of the folder leads to the newest."""
    older = tmp_path / "0.0.9"
    older.mkdir()
    (older / "index.html").write_text("<title>old</title>")
    build("--release", str(tmp_path))
    with served(tmp_path) as found:
        page = browser.open(f"{found}/0.1.0/users/index.html")
        listed = page.evaluate(
            "new Promise(done => { const look = () => { const links = [...document.querySelectorAll("
            "'.version-switcher__menu a')].map(a => [a.textContent, new URL(a.href).pathname]);"
            "links.length ? done(links) : setTimeout(look, 50) }; look() })"
        )
        expected = {("0.0.9", "/0.0.9/users/index.html"), ("0.1.0", "/0.1.0/users/index.html")}
        assert set(map(tuple, listed)) == expected
        assert page.problems == []
        assert 'content="0; url=0.1.0/index.html"' in (tmp_path / "index.html").read_text()


@pytest.mark.needs_chromium
def test_search_finds_a_function(browser: Browser, address: str) -> None:
    page = browser.open(f"{address}/search.html?q=atomic_add")
    found = page.evaluate(
        "new Promise(done => { const look = () => { const links = [...document.querySelectorAll('#search-results a')]"
        ".map(a => a.href); links.length ? done(links) : setTimeout(look, 50) }; look() })"
    )
    assert any("reference/language-memory.html" in link for link in found)
    assert page.problems == []
