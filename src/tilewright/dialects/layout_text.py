"""Layouts made of other layouts, as text."""

from __future__ import annotations


def slice_text(axis: int, parent: str) -> str:
    """The layout of a tile that lost `axis` of a tile with layout `parent`."""
    return f"#ttg.slice<{{dim = {axis}, parent = {parent}}}>"
