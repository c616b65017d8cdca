"""Semantics of the tile language: types, promotion, broadcasting, and which ops an operation of the user becomes."""
