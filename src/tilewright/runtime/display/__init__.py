"""Display of a kernel in notebooks and pages: texts of its stages, matched by source line."""
