"""`tilewright explain`: listings matched by source line, in the terminal and as a page."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl
from tilewright.compiler.signature import ArgumentSpec
from tilewright.frontends import from_ast, from_bytecode, hir
from tilewright.frontends.hir_text import listing
from tilewright.runtime.display.listings import Line, Listing
from tilewright.tools.explain import explain, text
from tilewright.tools.explain_page import Explained, page
from tilewright.tools.main import main
from tilewright.tools.memory_map import Access

ROOT = Path(__file__).parents[2]
VECTOR_ADD = f"{ROOT / 'examples' / 'vector_add.py'}:add_kernel"
SIGNATURE = "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"


def kernels(name: str) -> Any:
    path = ROOT / "tests" / "kernels" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def explained() -> Explained:
    kernel = kernels("branches").merged
    return explain(kernel, [ArgumentSpec("x", "*i32", 16), ArgumentSpec("n", "i32")])


def test_the_stages_of_each_front_end(explained: Explained) -> None:
    titles = {name: [stage.title for stage in stages] for name, stages in explained.columns.items()}
    assert titles == {
        "ast": ["AST", "HIR", "TTIR", "vector loops", "machine code"],
        "bytecode": ["bytecode", "HIR", "TTIR", "vector loops", "machine code"],
        "trace": ["cannot"],
    }
    assert any("only known when the kernel runs" in line.text for line in explained.columns["trace"][0].lines)


def test_the_listings_for_a_terminal(explained: Explained) -> None:
    """Front ends with fewer stages have nothing beside the later ones of others."""
    titles = [line.replace("---", "").split("|") for line in text(explained, 100) if "---" in line]
    assert [[cell.strip() for cell in row if cell.strip()] for row in titles] == [
        ["ast: AST", "bytecode: bytecode", "trace: cannot"],
        ["ast: HIR", "bytecode: HIR"],
        ["ast: TTIR", "bytecode: TTIR"],
        ["ast: vector loops", "bytecode: vector loops"],
        ["ast: machine code", "bytecode: machine code"],
    ]


def test_lines_are_matched(explained: Explained) -> None:
    (line,) = [line.source for line in explained.source.lines if "if n > 3" in line.text]
    found = {
        "AST": "Compare",
        "HIR": "gt(",
        "TTIR": "arith.cmpi sgt",
        "vector loops": "arith.cmpi sgt",
        "machine code": "cmp",
    }
    for stage in explained.columns["ast"]:
        assert any(found[stage.title] in made.text and made.source == line for made in stage.lines), stage.title
    assert any(made.text.split()[1:2] == ["COMPARE_OP"] and made.source == line for made in _bytecode(explained))


def test_a_node_of_the_tree_is_its_kind_and_what_stands_in_it(explained: Explained) -> None:
    lines = [line.text for line in explained.columns["ast"][0].lines]
    place = lines.index("  Compare")
    assert lines[place + 1 : place + 4] == ["    Name id='n'", "    Gt", "    Constant value=3"]


def _bytecode(explained: Explained) -> list[Any]:
    return [line for line in explained.columns["bytecode"][0].lines if "COMPARE_OP" in line.text]


def test_it_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert main(["explain", VECTOR_ADD, "-s", SIGNATURE]) == 0
    lines = capsys.readouterr().out.splitlines()
    (heads,) = [line for line in lines if line.startswith("--- ast: AST")]
    assert [part.strip() for part in heads.split("|")] == ["--- ast: AST", "--- bytecode: bytecode", "--- trace: trace"]
    assert max(map(len, lines)) <= 150


def test_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", VECTOR_ADD]) == 1
    assert "BLOCK" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("-a", "n=3"), ("--grid", "4"), ("--gpu", "90")])
def test_what_is_drawn_needs_a_page(option: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", VECTOR_ADD, "-c", "BLOCK=64", "--frontend", "ast", *option]) == 1
    assert option[0] in capsys.readouterr().err


class Page(HTMLParser):
    """Counts lines by their source line, and sees to it that tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.lines: dict[str, int] = {}
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "data-line" in given:
            self.lines[str(given["data-line"])] = self.lines.get(str(given["data-line"]), 0) + 1
        self.references += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole(explained: Explained) -> None:
    parser = Page()
    parser.feed(page(explained))
    assert parser.open == []
    assert parser.references == []
    assert all(parser.lines[str(line.source)] > 1 for line in explained.source.lines if "tl." in line.text)


def test_the_page_says_what_it_shows(explained: Explained) -> None:
    written = page(explained)
    file = Path(explained.place).name
    assert f"<title>{explained.name} · {file}</title>" in written
    assert f"<h1>{explained.name}</h1><p>{explained.place}</p>" in written
    assert all(f"<code>{part}</code>" in written for part in explained.signature.split(", "))
    assert '<span class="keyword">def</span>' in written
    assert '<span class="keyword">tt.store</span>' in written


def test_lines_of_one_line_have_its_colour(explained: Explained) -> None:
    colours: dict[str, set[str]] = {}
    for line, colour in re.findall(r'<div data-line="(\d+)"(?: style="--hue:(\d+)")?>', page(explained)):
        colours.setdefault(line, set()).add(colour)
    assert colours.pop("0") == {""}
    assert all(len(found) == 1 and found != {""} for found in colours.values())
    neighbours = [colours[line] for line in sorted(colours, key=int)]
    assert all(one != other for one, other in pairwise(neighbours))


TTGIR = """#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#wrong = #ttg.blocked<{sizePerThread = [3]}>
  %2 = tt.load %1 : tensor<32x!tt.ptr<f16>, #blocked>
  %3 = tt.load %2 : tensor<64xf32, #blocked>
  %4 = arith.addf %3, %3 : tensor<32xi1, #wrong>"""


def test_the_page_of_texts_that_are_given(golden: Callable[[str, str], None]) -> None:
    """Without its style and its script; of pictures of layouts there is a number."""
    source = [Line(f"x = {number}  # <{number}>", 5 + number) for number in range(12)]
    stages = [Listing("AST", [Line("Assign", 5), Line("")]), Listing("", [Line("left out")])]
    gpu = [Listing("TTGIR", [Line(line, 15) for line in TTGIR.splitlines()]), Listing("PTX", [Line("\tret;", 16)])]
    columns = {"ast": stages, "GPU 90": gpu}
    given = Explained("k", "folder/file.py:k", "*fp32, B=<2>", Listing("source", source), columns)
    pictures = [
        Access("load", "x", 6, 4, 0, {(0, 0, 0): np.arange(3)}),
        Access("atomic", "y", 0, 2, 0, {(0, 0, 0): np.arange(2), (1, 0, 0): np.arange(2)}),
    ]
    written = page(given, pictures)
    body = written[written.index("<body>") : written.index("<script>")]
    body = re.sub(r"base64,([^\"]+)", lambda image: f"{crc32(image[1].encode()):08x}", body)
    golden(body.replace("><", ">\n<"), "tools/explained.html")
    assert "<h2>source</h2><details open" not in page(given._replace(source=Listing("", [])))


BROWSER = next(filter(None, map(shutil.which, optional_peers.BROWSERS)), None)


@pytest.mark.slow
@pytest.mark.needs_chromium
def test_a_browser_lights_the_lines_that_belong_together(explained: Explained, tmp_path: Path) -> None:
    (line,) = [line.source for line in explained.source.lines if "if n > 3" in line.text]
    script = (
        f"<script>document.querySelector('[data-line=\"{line}\"]')"
        ".dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));"
        "document.title = 'lit ' + document.querySelectorAll('.lit').length</script></body>"
    )
    file = tmp_path / "page.html"
    file.write_text(page(explained).replace("</body>", script))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    lit = shown.count('class="lit"')
    assert lit > 5
    assert f"<title>lit {lit}</title>" in shown


WIDE = (
    "<script>document.title = [...document.querySelectorAll('section, pre, pre div')]"
    ".every(e => e.scrollWidth <= e.clientWidth) ? 'whole' : 'cut off'</script></body>"
)


@pytest.mark.slow
@pytest.mark.needs_chromium
@pytest.mark.parametrize("width", [500, 1600])
def test_nothing_is_cut_off(explained: Explained, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(explained).replace("</body>", WIDE))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},800", "--dump-dom"]
    shown = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    assert "<title>whole</title>" in shown


@pytest.mark.quick
@pytest.mark.parametrize("name", ["conditions", "expressions", "loops", "tuples", "asserts", "returns", "raising"])
def test_every_step_has_a_line_of_text(name: str) -> None:
    python = getattr(kernels("forms"), name)
    for read in (from_ast.read_function, from_bytecode.read_function):
        function = read(python)
        lines = list(listing(function))
        steps = list(hir.walk(function.body))
        assert len(lines) > len(steps)
        assert all(line.source for line in lines)


def test_the_text_of_steps() -> None:
    def steps(x, y, n):
        size: tl.constexpr = 3
        first, *others = x
        both = first and size
        n(*others, k=both, **y)
        if n:
            return x
        return y

    assert [line.text.strip() for line in listing(from_ast.read_function(steps))] == [
        *("steps(x, y, n)", "store size: constexpr = 3"),
        *("r1 = load x", "r2, *r3 = unpack r1", "store first = r2", "store others = r3"),
        *("r4 = load first", "r6 = r4 and", "r5 = load size", "= r5", "store both = r6"),
        *("r7 = load n", "r8 = load others", "r9 = load both", "r10 = load y", "r11 = r7(*r8, k=r9, **r10)"),
        *("r13 = load n", "if r13:  # the last statement", "r14 = load x", "return r14"),
        *("else:", "go on with", "r12 = load y", "return r12"),
    ]


def test_the_text_of_a_comprehension() -> None:
    def items(x, n):
        return [i + j for i, j in x if i if n]

    assert [line.text.strip() for line in listing(from_ast.read_function(items))][1:] == [
        *("r0 = load x", "r2 = collect r1 in r0", "r3, r4 = unpack r1", "bind i = r3", "bind j = r4"),
        *("where", "r5 = load i", "= r5", "where", "r6 = load n", "= r6"),
        *("item", "r7 = load i", "r8 = load j", "r9 = add(r7, r8)", "= r9", "return r2"),
    ]


def test_a_lambda_has_no_source_but_bytecode() -> None:
    kernel = tw.jit(lambda x, n: tl.store(x, n))
    columns = explain(kernel, [ArgumentSpec("x", "*i32", 16), ArgumentSpec("n", "i32")], ["ast", "bytecode"]).columns
    assert [stage.title for stage in columns["ast"]] == ["cannot"]
    assert [stage.title for stage in columns["bytecode"]] == ["bytecode", "HIR", "TTIR", "vector loops", "machine code"]
