"""Warp specialization: loops whose loads, products and other ops are divided among warp groups."""
