"""The page of `tilewright explain`: the source, the stages of every front end, and pictures, in one file.

Lines from one source line have its colour everywhere; pointing at one, or at the picture of its accesses, highlights
all of them, and a click scrolls every listing there. The page follows the system's light or dark mode.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from math import prod
from pathlib import PurePath
from typing import NamedTuple

from tilewright.layouts.encodings import Encoding, LayoutError, encoding
from tilewright.runtime.display.listings import CODE, COLOURS, HUES, PYTHON, WORDS, Listing, rows
from tilewright.tools.layout_svg import drawing as layout_drawing
from tilewright.tools.memory_map import Access
from tilewright.tools.memory_map import drawing as memory_drawing


class Explained(NamedTuple):
    """A kernel, and for each front end what it reads and makes.

    Attributes:
        columns: the stages by front end.
    """

    name: str
    place: str
    signature: str
    source: Listing
    columns: dict[str, list[Listing]]


LAYOUT_LIMITS = (32, 32)
"""Max rows and columns of cells of a layout's picture."""
_LAYOUT = re.compile(r"^(#\w+) = (#ttg\.\w+<.*>)$", re.MULTILINE)
_TILE = re.compile(r"(?:tensor|memdesc)<((?:\d+x)+)(!tt\.ptr<)?([a-z]+)(\d+)[^#\n]*?, (#\w+)")


def page(explained: Explained, pictures: Sequence[Access] = ()) -> str:
    """One page without references to others."""
    first = explained.source.lines[0].source if explained.source.lines else 0
    source = f"<section><h2>source</h2>{_block(explained.source, first, PYTHON)}</section>"
    columns = "".join(
        f"<section><h2>{escape(name)}</h2>{''.join(_block(stage, first, CODE) for stage in stages)}</section>"
        for name, stages in explained.columns.items()
    )
    gpu = [stage for stages in explained.columns.values() for stage in stages if stage.title == "TTGIR"]
    more = _memory(pictures, first) + "".join(_layouts(stage) for stage in gpu)
    file = PurePath(explained.place)
    title = f"{escape(explained.name)} · {escape(file.name)}"
    chips = "".join(f"<code>{escape(part)}</code>" for part in explained.signature.split(", ") if part)
    head = f"<h1>{escape(explained.name)}</h1><p>{escape(explained.place)}</p><p>{chips}</p>"
    parts = {"title": title, "style": _STYLE, "head": head, "body": source + columns, "more": more, "script": _SCRIPT}
    return re.sub(r"\{(title|style|head|body|more|script)\}", lambda found: parts[found[1]], _PAGE)


def _block(stage: Listing, first: int, words: re.Pattern[str]) -> str:
    if not stage.title:
        return ""
    folded = "" if stage.title in ("machine code", "PTX") else " open"
    count = f" <small>{len(stage.lines)} lines</small>"
    return (
        f"<details{folded}><summary>{escape(stage.title)}{count}</summary>"
        f"<pre>{rows(stage, first, words)}</pre></details>"
    )


def _memory(pictures: Sequence[Access], first: int) -> str:
    """The pictures of what each access touches."""
    if not pictures:
        return ""
    programs = list(dict.fromkeys(program for access in pictures for program in access.touched))
    shown = "".join(_picture(access, first) for access in pictures)
    about = f"What each access touches, a colour for each of {len(programs)} programs; grey is what several touch."
    return _folder("memory", f'<p>{about} Loaded values count as 0.</p><div class="pictures">{shown}</div>')


def _folder(title: str, content: str) -> str:
    return f"<article><details open><summary>{title}</summary><div>{content}</div></details></article>"


def _picture(access: Access, first: int) -> str:
    hue = HUES[(access.line - first) % len(HUES)]
    said = f"{access.kind} of <code>{escape(access.argument)}</code>, {access.size} bytes each"
    line = f"line {access.line}: " if access.line else ""
    return (
        f'<figure data-line="{access.line}" style="--hue:{hue}"><figcaption>{line}{said}</figcaption>'
        f"{memory_drawing(access)}</figure>"
    )


def _layouts(stage: Listing) -> str:
    """The pictures of the layouts that tiles of TTGIR have, each with the largest tile that has it."""
    text = "\n".join(line.text for line in stage.lines)
    shown = "".join(_layout(name, layout, tile) for name, layout, tile in _used(text))
    return _folder("layouts", f"<p>Who holds each element of a tile.</p>{shown}") if shown else ""


def _used(text: str) -> Iterator[tuple[str, str, tuple[tuple[int, ...], str, int]]]:
    """Every layout of a module with the shape, the element type and the bits of the largest tile that has it."""
    tiles: dict[str, tuple[tuple[int, ...], str, int]] = {}
    for shape, pointer, kind, bits, name in _TILE.findall(text):
        extents = tuple(int(extent) for extent in shape.rstrip("x").split("x"))
        if name not in tiles or prod(extents) > prod(tiles[name][0]):
            tiles[name] = extents, f"{kind}{bits}", 64 if pointer else max(8, int(bits))
    yield from ((name, layout, tiles[name]) for name, layout in _LAYOUT.findall(text) if name in tiles)


def _layout(name: str, layout: str, tile: tuple[tuple[int, ...], str, int]) -> str:
    shape, kind, bits = tile
    try:
        found: Encoding = encoding(layout)
        picture = layout_drawing([found], shape, bits, LAYOUT_LIMITS)
    except LayoutError:
        return ""
    caption = f"<code>{escape(name)}</code> of a tile {'×'.join(map(str, shape))} of {kind}"
    image = b64encode(picture.encode()).decode()
    return (
        f'<figure><figcaption>{caption}</figcaption><div class="wide"><img alt="{escape(name)}" '
        f'src="data:image/svg+xml;base64,{image}"></div></figure>'
    )


_STYLE = (
    f":root {{ color-scheme: light dark; {COLOURS} }}\n"
    """
body { margin: 0; font: 14px system-ui, sans-serif; background: var(--paper); color: var(--ink) }
header { position: sticky; left: 0; width: 100%; max-width: 100vw; padding: 1.2em 1.2em .8em; box-sizing: border-box;
  background: var(--panel); border-bottom: 3px solid var(--accent) }
h1 { margin: 0; font-size: 1.8em } h2 { margin: .6em 0 .3em; font-size: 1.15em; color: var(--accent) }
p { margin: .4em 0; color: var(--faint); overflow-wrap: anywhere }
code { font: 12px ui-monospace, Menlo, Consolas, monospace }
header code { display: inline-block; margin: 0 .4em .3em 0; padding: .15em .6em; border-radius: 1em; color: var(--ink);
  background: var(--paper); border: 1px solid var(--edge) }
main { display: flex; align-items: flex-start; width: max-content; min-width: 100% }
section { flex: none; padding: 0 .8em 1em; max-width: 46em; background: var(--paper); box-sizing: border-box }
section:first-of-type { position: sticky; left: 0; top: 0; max-width: 45vw; max-height: 100vh; overflow-y: auto;
  z-index: 1; border-right: 1px solid var(--edge) }
details { border: 1px solid var(--edge); border-radius: 8px; margin: 0 0 .8em; overflow: hidden }
summary { font-weight: 600; padding: .45em .8em; background: var(--panel); cursor: pointer }
summary small { font-weight: normal; color: var(--faint) }
pre { font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; margin: 0; padding: .3em 0 }
pre div { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 1em 0 7em; text-indent: -7em; tab-size: 4;
  border-left: 3px solid transparent }
pre div[style] { background: hsl(var(--hue) var(--tint)); border-left-color: hsl(var(--hue) 60% 55%) }
pre i { display: inline-block; width: 4em; padding-left: .5em; text-indent: 0; color: var(--faint); font-style: normal;
  user-select: none }
pre div.lit { background: var(--lit) } figure.lit { outline: 3px solid var(--lit) }
:root { --tint: 80% 95% } @media (prefers-color-scheme: dark) { :root { --tint: 40% 15% } }
@media (max-width: 700px) { main { display: block; width: auto; min-width: 0 } section { max-width: none }
  section:first-of-type { position: static; max-width: none; max-height: none; border: none } }
article { position: sticky; left: 0; width: 100%; max-width: calc(100vw - 16px);
  padding: .8em .8em 0; box-sizing: border-box }
article details > div { padding: .3em .8em .8em }
.pictures { display: flex; flex-wrap: wrap; gap: 1em; align-items: flex-start }
figure { margin: .6em 0; padding: .7em .9em; border: 1px solid var(--edge); border-radius: 8px; max-width: 100%;
  box-sizing: border-box; overflow: hidden }
figure[data-line] { border-left: 4px solid hsl(var(--hue) 60% 55%); margin: 0 }
figcaption { font-weight: 600 } .scale { font-size: 12px }
svg, .wide { max-width: 100%; height: auto; display: block; overflow: auto } img { display: block; background: #fff }
rect.one { fill: hsl(var(--hue) 65% 55%) } rect.several { fill: var(--faint) }
rect:hover { stroke: var(--ink); stroke-width: 2 }
"""
    + WORDS
)

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head>
<body><header>{head}</header>{more}<main>{body}</main>
<script>{script}</script></body></html>
"""

_SCRIPT = """
function same(event) {
  const at = event.target.closest("[data-line]");
  if (!at || at.dataset.line === "0") return [null, []];
  return [at, document.querySelectorAll(`[data-line="${at.dataset.line}"]`)];
}
document.addEventListener("mouseover", event => {
  for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  for (const line of same(event)[1]) line.classList.add("lit");
});
document.addEventListener("click", event => {
  const [at, lines] = same(event), seen = new Set(at ? [at.closest("section")] : []);
  for (const line of lines) {
    const section = line.closest("section"), details = line.closest("details");
    if (!section || seen.has(section) || !details.open) continue;
    seen.add(section);
    if (section.scrollHeight > section.clientHeight) section.scrollTop = line.offsetTop - section.clientHeight / 3;
  }
});
"""
