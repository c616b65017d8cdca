"""A compiled kernel in a notebook: the source on the left, beside it a tab for each stage and one for the metadata.

Pointing at a line highlights all lines from the same source line; a click scrolls to them. Tabs and highlighting need
no script, so that they work in untrusted notebooks and in pages that are made from notebooks.
"""

from __future__ import annotations

from html import escape
from itertools import count

from tilewright.runtime.display.listings import CODE, COLOURS, PYTHON, WORDS, Listing, matched_stages, rows
from tilewright.runtime.kernel import CompiledKernel

TITLES = {"ttir": "TTIR", "ttgir": "TTGIR", "loops": "loops", "asm": "assembly", "ptx": "PTX"}
_numbers = count(1)
"""The numbers of what was shown by this process: two cells may show one kernel."""


def kernel_html(kernel: CompiledKernel) -> str:
    """The tabs of a kernel, as one element with its own style."""
    name = f"tw-{kernel.hash[:8]}-{next(_numbers)}"
    listings = matched_stages(kernel)
    source = next((listing for listing in listings if listing.title == "source"), None)
    first = source.lines[0].source if source else 0
    panels = [(TITLES[stage.title], _pre(stage, first)) for stage in listings if stage is not source]
    panels.append(("metadata", _metadata(kernel)))
    left = f'<div class="tw-source"><pre>{rows(source, first, PYTHON)}</pre></div>' if source else ""
    lines = [line.source for line in source.lines] if source else []
    return (
        f'<div class="tw-kernel" id="{name}"><style>{_style(name, lines, len(panels))}</style>'
        f'<div class="tw-head"><b>{escape(kernel.name)}</b> <span>{escape(signature(kernel))}</span></div>'
        f'<div class="tw-body">{left}<div class="tw-stages">{_tabs(name, panels)}</div></div>'
        f"<script>{_SCRIPT.replace('NAME', name)}</script></div>"
    )


def signature(kernel: CompiledKernel) -> str:
    """The signature that the kernel was compiled for: `x_ptr: *fp32, n: i32, BLOCK = 128`."""
    return ", ".join(
        f"{spec.name} = {spec.constant!r}" if spec.is_constant else f"{spec.name}: {spec.type}"
        for spec in kernel.signature
    )


def _pre(stage: Listing, first: int) -> str:
    return f"<pre>{rows(stage, first, CODE)}</pre>"


def _metadata(kernel: CompiledKernel) -> str:
    facts = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(repr(value))}</td></tr>"
        for name, value in kernel.metadata._asdict().items()
    )
    return f"<table>{facts}</table>"


def _tabs(name: str, panels: list[tuple[str, str]]) -> str:
    """Buttons, then panels: a button is a radio button, and its panel shows while it is checked."""
    buttons = "".join(
        f'<input type="radio" name="{name}" id="{name}-{i}"{" checked" if i == 0 else ""}>'
        f'<label for="{name}-{i}">{escape(title)}</label>'
        for i, (title, _) in enumerate(panels)
    )
    return buttons + "".join(f'<div class="tw-panel tw-panel-{i}">{panel}</div>' for i, (_, panel) in enumerate(panels))


def _style(name: str, lines: list[int], panels: int) -> str:
    """The rules for this kernel alone: which panel shows, and which lines light up together."""
    shown = ",".join(f"#{name}-{i}:checked ~ .tw-panel-{i}" for i in range(panels))
    same = "".join(
        f'#{name}:has([data-line="{line}"]:hover) [data-line="{line}"] {{ background: var(--lit) }}' for line in lines
    )
    return f"{_STYLE}{shown} {{ display: block }} {same}"


_STYLE = (
    f".tw-kernel {{ {COLOURS}; color-scheme: light dark"
    """; background: var(--paper); color: var(--ink); border: 1px solid var(--edge);
  border-radius: 8px; overflow: hidden; font: 13px system-ui, sans-serif; margin: .5em 0 }
html[data-theme="light"] .tw-kernel, body[data-jp-theme-light="true"] .tw-kernel { color-scheme: light }
html[data-theme="dark"] .tw-kernel, body[data-jp-theme-light="false"] .tw-kernel { color-scheme: dark }
.tw-kernel .tw-head { padding: .5em .8em; background: var(--panel); border-bottom: 1px solid var(--edge) }
.tw-kernel .tw-head span { color: var(--faint); font-family: monospace; font-size: 12px }
.tw-kernel .tw-body { display: flex; flex-wrap: wrap }
.tw-kernel .tw-source { flex: 1 1 24em; min-width: 0; border-right: 1px solid var(--edge) }
.tw-kernel .tw-stages { flex: 2 1 28em; min-width: 0 }
.tw-kernel .tw-source, .tw-kernel .tw-panel { max-height: 26em; overflow: auto }
.tw-kernel pre { margin: 0; padding: .4em 0; border: none; background: none; color: inherit;
  font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; overflow: visible }
.tw-kernel pre div { white-space: pre; width: max-content; min-width: 100%; box-sizing: border-box; padding: 0 .8em 0 0;
  border-left: 3px solid transparent; tab-size: 4 }
.tw-kernel pre div[style] { border-left-color: hsl(var(--hue) 60% 55%) }
.tw-kernel pre i { display: inline-block; width: 3em; padding-right: .8em; text-align: right; color: var(--faint);
  font-style: normal; user-select: none; box-sizing: border-box }
.tw-kernel input { position: absolute; opacity: 0; width: 0 }
.tw-kernel label { display: inline-block; padding: .45em .8em; cursor: pointer; color: var(--faint); margin: 0 }
.tw-kernel input:checked + label { color: var(--accent); box-shadow: inset 0 -2px var(--accent) }
.tw-kernel input:focus-visible + label { outline: 2px solid var(--accent) }
.tw-kernel .tw-panel { display: none; border-top: 1px solid var(--edge) }
.tw-kernel table { display: table; margin: .4em .8em; border: none; font: 12px monospace; color: inherit }
.tw-kernel td { text-align: left; vertical-align: top; padding: .1em 1em .1em 0; border: none; word-break: break-word }
"""
    + "".join(f".tw-kernel {rule.strip()} }} " for rule in WORDS.split("}") if rule.strip())
)
"""The rules for all kernels."""

_SCRIPT = """
(root => root && root.addEventListener("click", event => {
  const at = event.target.closest("[data-line]");
  if (!at || at.dataset.line === "0") return;
  for (const box of root.querySelectorAll(".tw-source, .tw-panel")) {
    const same = box.querySelector(`[data-line="${at.dataset.line}"]`);
    if (same && !box.contains(at))
      box.scrollTop += same.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  }
}))(document.getElementById("NAME"));
"""
