"""Layouts: the thread that holds each element of a tile, and the address of each element in shared memory."""
