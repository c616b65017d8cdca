"""What notebooks and pages show of a kernel: texts of its stages, matched by the line of the source they come from."""
