"""Loops whose work is divided among groups of warps: loads, products, and all the rest."""
