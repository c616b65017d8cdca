"""Semantics of the tile language: types, promotion, broadcasting, and the ops of each operation."""
