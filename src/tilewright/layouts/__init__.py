"""Layouts: which thread holds which element of a tile, and where elements lie in shared memory."""
