"""The API reference: every public name with its signature and docstring, looked up in the running package.

Names are asked of the modules themselves, because the package serves many of them from tables when they are asked for:
who only reads the files finds neither them nor their values. The docstrings are Markdown in Google's form.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import EnumType
from types import ModuleType
from typing import Any

import tilewright as tw
import tilewright.language as tl
from examples import EXAMPLES, INPUTS, shown
from tilewright.tools.functions_table import HIDDEN, TOPICS

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
SENTENCE = re.compile(r"^(Returns|Yields): (.+)$")
FIELDS = {"Args": "param", "Attributes": "ivar", "Returns": "returns", "Raises": "raises", "Yields": "yields"}
TOOLS = {
    "tw": (tw, "tilewright", "Kernels", "Decorators, compiled kernels, tuning, errors: `import tilewright as tw`."),
    "tw.testing": (
        tw.testing,
        "testing",
        "Testing and measuring",
        "Comparing and timing kernels: `tw.testing` needs no import of its own.",
    ),
    "tw.cuda": (
        tw.cuda,
        "cuda",
        "NVIDIA GPUs",
        "Arrays, streams and facts of GPUs, for programs without torch: `tw.cuda` needs no import of its own.",
    ),
}


def reference_pages() -> Iterator[tuple[str, str]]:
    """Pages of the site with their Markdown."""
    for prefix, (module, page, title, about) in TOOLS.items():
        if prefix != "tw":
            about += "\n\n" + (inspect.getdoc(module) or "").partition("\n\n")[2]
        yield f"reference/{page}.md", f"# {title}\n\n{about}\n\n{_sections(prefix, module)}"
    for topic, (title, names) in language_topics().items():
        about = "Functions and classes that kernels may use: `import tilewright.language as tl`. " + INPUTS
        members = ((name, "tl", getattr(tl, name)) for name in names)
        yield f"reference/language-{topic}.md", _page(title, about, members)
    methods = [name for name in vars(tl.tensor) if not name.startswith("_")]
    yield "reference/language-tensor.md", _tensor_page(methods)
    yield "reference/index.md", _index()


def _sections(prefix: str, module: ModuleType) -> str:
    """The names of a module: functions, classes, errors, and what else there is."""
    sections: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Constants": []}
    for name in module.__all__:
        found = getattr(module, name)
        if not isinstance(found, ModuleType) and name != "knobs":
            sections[_kind(found)].append(_entry(name, prefix, found))
    return "\n".join(f"## {title}\n\n" + "\n".join(entries) for title, entries in sections.items() if entries)


def _kind(found: Any) -> str:
    if inspect.isclass(found):
        return "Errors" if issubclass(found, BaseException) else "Classes"
    return "Functions" if inspect.isroutine(found) else "Constants"


def language_topics() -> dict[str, tuple[str, list[str]]]:
    """The names of the language by topic: those of `tilewright functions`, and the rest: types and constants."""
    modules = {name: getattr(getattr(tl, name), "__module__", "").rpartition(".")[2] for name in tl.__all__}
    topics = {topic: (title, [n for n, m in modules.items() if m == topic]) for topic, title in TOPICS.items()}
    shown = {name for _, names in topics.values() for name in names}
    others = [n for n in tl.__all__ if n not in shown and not isinstance(getattr(tl, n), ModuleType)]
    return topics | {"types": ("Types and constants", others)}


def _index() -> str:
    entries = [page for _, page, _, _ in TOOLS.values()]
    entries += [f"language-{topic}" for topic in language_topics()] + ["language-tensor"]
    listed = "\n".join(entries)
    return (
        "# API reference\n\nEverything public, with signatures and docstrings of the code.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )


def _page(title: str, about: str, members: Iterator[tuple[str, str, Any]]) -> str:
    return f"# {title}\n\n{about}\n\n" + "\n".join(_entry(*member) for member in members)


def _entry(name: str, prefix: str, found: Any) -> str:
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        is_ours = type(found).__module__.startswith("tilewright.") and not isinstance(found, tl.dtype)
        said = f"{inspect.getdoc(type(found))}\n\n" if is_ours else ""
        return f"````{{py:data}} {prefix}.{name}\n\n{said}`{found!r}`\n````\n"
    if inspect.isclass(found) and issubclass(found, BaseException):
        return _directive("exception", f"{prefix}.{name}", "", found)
    kind = "class" if inspect.isclass(found) else "function"
    parameters = "" if isinstance(found, EnumType) else signature(found)
    methods = _constructor(found) + "".join(_methods(found)) if inspect.isclass(found) else ""
    if prefix == "tl" and name in EXAMPLES:
        methods += _example(name)
    return _directive(kind, f"{prefix}.{name}", parameters, found, methods)


def _example(name: str) -> str:
    """The example of a function of the language, with what it gives."""
    code, result = shown(name)
    text = "".join(f">>> {line}\n" for line in code.splitlines())
    return f"\n```pycon\n{text}{result}\n```\n"


def _constructor(found: type) -> str:
    """The docstring of a class's `__init__`, where it has one of its own."""
    text = vars(found).get("__init__", None)
    documented = inspect.getdoc(text) if inspect.isfunction(text) and text.__doc__ else ""
    return f"\n{body(documented)}\n" if documented else ""


def _methods(found: type) -> Iterator[str]:
    """The public methods that a class itself defines and documents."""
    for name, member in vars(found).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield _directive("property", name, "", member, fence="`````")
        elif inspect.isfunction(member):
            yield _directive("method", name, signature(member), member, fence="`````")


def _tensor_page(methods: list[str]) -> str:
    rows = "\n".join(f"| `{name}` | {_first_sentence(getattr(tl.tensor, name))} |" for name in methods)
    return (
        "# Methods of tiles\n\nA tile `x` of a kernel is a `tl.tensor`; `x.sum(axis=0)` is `tl.sum(x, axis=0)`, "
        f"and so on.\n\n| method | meaning |\n|---|---|\n{rows}\n"
    )


def _first_sentence(found: Any) -> str:
    return " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _directive(kind: str, name: str, shown: str, found: Any, inside: str = "", fence: str = "``````") -> str:
    return f"{fence}{{py:{kind}}} {name}{shown}\n\n{body(inspect.getdoc(found) or '')}\n{inside}{fence}\n"


def signature(found: Any) -> str:
    """The parameters with their default values; annotations are in the docstring."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        return "(…)"
    shown = [_plain(p) for p in parameters if p.name not in HIDDEN]
    return str(inspect.Signature(shown))


class _Shown:
    """A default value with a text of its own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not parameter.empty and not isinstance(default, int | float | str | tuple | type(None)):
        default = _Shown(str(default).removeprefix("triton.language."))
    return parameter.replace(annotation=inspect.Parameter.empty, default=default)


def body(text: str) -> str:
    """A docstring as Markdown, its sections as fields, its example as a session."""
    text, _, example = text.partition("\nExample:\n")
    session = f"\n```pycon\n{textwrap.dedent(example).strip()}\n```\n" if example else ""
    out: list[str] = []
    section = ""
    for line in text.splitlines():
        if found := SECTION.match(line):
            section = found[1]
            out.append("")
        elif found := SENTENCE.match(line):
            out += ["", f":{FIELDS[found[1]]}: {found[2]}"]
            section = found[1]
        elif section and line and not line.startswith(" "):
            section = ""
            out += ["", line]
        elif section:
            out += _field(section, line)
        else:
            out.append(line)
    return "\n".join(out) + f"\n{session}"


def _field(section: str, line: str) -> list[str]:
    """A line of a section: an entry, or what follows of one."""
    entry = re.match(r"^    (\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)$", line)
    if section in ("Returns", "Yields"):
        return [f":{FIELDS[section]}: {line.strip()}"] if line.strip() else []
    if entry:
        return [f":{FIELDS[section]} {entry[1]}: {entry[2]}"]
    return [line.replace("        ", "    ", 1)] if line.strip() else []
