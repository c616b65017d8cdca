"""Settings of Sphinx for the site; `build.py` runs it over the folder that `assemble.py` fills."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mlir_lexer import MlirLexer
from sphinx.application import Sphinx

import tilewright

project = "Tilewright"
author = "the authors of Tilewright"
release = version = tilewright.__version__
copyright = author

extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure", "mystnb.unknown_mime_type"]
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "Tilewright"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/logo.svg"
html_logo = "static/logo.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "Tilewright"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
    "secondary_sidebar_items": ["page-toc"],
}
toc_object_entries_show_parents = "hide"
if tags.has("released"):  # noqa: F821 - Sphinx puts it here
    html_theme_options["switcher"] = {"json_url": "../versions.json", "version_match": release}
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]
html_sidebars = {"source/**": []}
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Sphinx) -> None:
    """Colour the texts of the compiler."""
    app.add_lexer("mlir", MlirLexer)
