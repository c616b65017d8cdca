"""README, ARCHITECTURE and docs: programs run and print what the page says, links lead somewhere, paths exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Program, links, programs, programs_in, quotations

from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.tools import functions_table, ops_table, passes_table, rules_table, settings_table

PATH = re.compile(r"`((?:[a-z0-9_]+/)*[a-z0-9_]+\.(?:py|md|ttir)|(?:[a-z0-9_]+/)+)`")
FOLDERS = ("src", "tests", "docs", "examples", "bench", "packaging")


@pytest.mark.parametrize("program", programs(), ids=[program.name for program in programs()])
def test_program_prints_what_the_page_says(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "program.py"  # kernels are read from files
    path.write_text(program.code)

    exec(compile(program.code, str(path), "exec"), {"__name__": "__main__"})

    if program.output is not None:
        assert capsys.readouterr().out.replace(f"{tmp_path}/", "") == program.output


def test_readme_has_programs_with_output() -> None:
    assert sum(p.name.startswith("README") and p.output is not None for p in programs()) >= 2


def test_links_lead_somewhere() -> None:
    lost = [f"{page.name}: {to}" for page, to in links() if not (page.parent / to.partition("#")[0]).exists()]
    assert lost == []


@pytest.mark.parametrize(("page", "file", "text"), quotations())
def test_quotation_stands_in_its_file(page: str, file: str, text: str) -> None:
    assert text in (ROOT / file).read_text()


def test_code_is_quoted() -> None:
    assert len(quotations()) >= 5


@pytest.fixture(scope="module")
def paths() -> str:
    """All files and folders of the project, each between line breaks."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return "".join(f"/{path.relative_to(ROOT)}{'/' * path.is_dir()}\n" for path in found)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_paths_in_backquotes_exist(page: Path, paths: str) -> None:
    """A path may be given by its end: `cse.py`, `compiler/compile.py`, `tests/ir/`."""
    assert {name for name in PATH.findall(page.read_text()) if f"/{name}\n" not in f"/{paths}"} == set()


def test_no_merge_was_left_half_done() -> None:
    lines = [(page.name, line) for page in (*PAGES, ROOT / "CHANGELOG.md") for line in page.read_text().splitlines()]
    assert [(page, line) for page, line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))] == []


OTHERS = re.compile(r"coming-from-|conformance|torch|compiling|arrays|triton-names")
"""Pages that name functions of other libraries, or of programs that commands write."""


@pytest.fixture(scope="module")
def words() -> set[str]:
    """All words of the project's programs, and the names of their files."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = set(re.findall(r"\w+", "\n".join(path.read_text() for path in (*files, ROOT / "Makefile"))))
    return found | {path.stem for path in files}


@pytest.mark.parametrize("page", [page for page in PAGES if not OTHERS.match(page.name)], ids=lambda page: page.name)
def test_names_in_backquotes_exist(page: Path, words: set[str]) -> None:
    """A name with an underline inside stands in a program of the project, or in one of the page."""
    text = page.read_text()
    quoted = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)))
    code = set(re.findall(r"\w+", " ".join(re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL))))
    assert {name for name in re.findall(r"\b[a-z]+_[a-z_]*[a-z]\b", quoted) if name not in words | code} == set()


PRINTED = {
    "functions": functions_table,
    "ops": ops_table,
    "pass-list": passes_table,
    "rules": rules_table,
    "settings": settings_table,
}
"""The modules that print pages, by the names of the pages."""


@pytest.mark.quick
@pytest.mark.parametrize("name", PRINTED)
def test_printed_pages_are_current(name: str) -> None:
    command = PRINTED[name].__name__.rpartition(".")[2].removesuffix("_table")
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert page == PRINTED[name].page(), f"python -m tilewright {command} > docs/{name}.md"


def anchor_of(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section_of(target: str) -> str:
    """The text of a section, up to the next heading, by its page and anchor."""
    page, _, anchor = target.partition("#")
    titles_and_texts = re.split(r"^#+ (.*)\n", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE)[1:]
    titles = map(anchor_of, titles_and_texts[::2])
    return dict(zip(titles, titles_and_texts[1::2], strict=True))[anchor]


@pytest.mark.parametrize("name", [step.name for step in (*cpu_passes(host_target()), *loop_passes(host_target()))])
def test_each_pass_of_the_cpu_is_shown_at_work(name: str) -> None:
    """Its section has a program that calls it on a text and says what this prints."""
    shown = [p for p in programs_in(section_of(passes_table.SECTIONS[name])) if p.output]
    assert any(re.search(rf"\b{name}\b", program.code) and "parse_module" in program.code for program in shown)


def test_the_site_has_a_folder_for_each_section_of_the_index() -> None:
    """Only tests with the libraries that build it would notice."""
    headings = re.findall(r"^## \d+\. ([^:\n]*)", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    folders = re.findall(r'^    "([^"]+)": "\w+",$', (ROOT / "docs" / "site" / "assemble.py").read_text(), re.MULTILINE)
    assert headings == folders


def test_index_names_every_page_once() -> None:
    index = ROOT / "docs" / "index.md"
    listed = [target for page, target in links() if page == index and not target.startswith("../")]
    entries = re.findall(r"^\d+\. \[(\S+)\]\((\S+)\): ", index.read_text(), re.MULTILINE)
    assert all(name == Path(target).name for name, target in entries)
    pages = [page for page in PAGES if page.parent == index.parent and page != index]
    tutorials = (ROOT / "docs" / "tutorials").glob("*.py")
    assert sorted(set(listed)) == sorted(str(page.relative_to(index.parent)) for page in (*pages, *tutorials))
    assert len({target for _, target in entries}) == len(entries)


def test_glossary_says_each_term_once() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    sections = [re.findall(r"^- \*\*(.+?)\*\*: ", part, re.MULTILINE) for part in page.split("\n## ")[1:]]
    terms = [term.lower() for section in sections for term in section]
    assert len(set(terms)) == len(terms) >= 100
    assert all(section == sorted(section, key=str.lower) for section in sections)


def architecture_sections() -> dict[str, str]:
    """The text of each section of ARCHITECTURE.md, by its folder."""
    page = (ROOT / "ARCHITECTURE.md").read_text().partition("\n# Tests\n")[0]
    found = re.finditer(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return {section[1]: section[2] for section in found}


def test_every_folder_has_its_section() -> None:
    package = ROOT / "src" / "tilewright"
    folders = {path.name for path in package.iterdir() if (path / "__init__.py").exists()} - {"backends"}
    assert folders | {"backends/base", "backends/llvm", "backends/cpu"} <= architecture_sections().keys()


def test_a_section_has_decisions_and_ends_with_invariants() -> None:
    """A decision begins with what was decided, in bold; no heading follows the invariants."""
    sections = architecture_sections()
    ends = {
        name: re.split(r"^Invariants[^\n]*:\n", text, maxsplit=1, flags=re.MULTILINE) for name, text in sections.items()
    }
    assert {name for name, parts in ends.items() if len(parts) == 1} == {"Layers"}
    assert [name for name, parts in ends.items() if "\n### " in parts[-1] or "\nDecisions" in parts[-1]] == []
    page = "\n\n".join(sections.values())
    lists = [found.partition("\n\n")[0] for found in re.split(r"^Decisions[^\n]*:\n", page, flags=re.MULTILINE)[1:]]
    assert len(lists) >= 10
    assert [line for found in lists for line in found.splitlines() if re.match(r"- (?!\*\*)", line)] == []


def test_passes_of_the_cpu_stand_in_their_order() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    section = page.partition("\n## backends/cpu\n")[2].partition("\nThe parts that several passes share:\n")[0]
    target = host_target()
    names = [step.name for step in (*cpu_passes(target), *loop_passes(target))]
    assert re.findall(r"^- `(\w+)`: ", section, re.MULTILINE) == names
