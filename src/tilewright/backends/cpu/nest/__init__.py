"""Lowering of a cpu.nest to vector loops: each value is computed where a sink uses it."""
