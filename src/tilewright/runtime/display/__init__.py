"""A kernel as notebooks and pages show it: texts of its stages, matched by the line of the source they come from."""
