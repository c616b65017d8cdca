"""Code written for Triton, unmodified: `path/` holds the package `triton`, whose names stand in a table.

    PYTHONPATH=…/tilewright/compat/path python script.py      # what `tilewright run script.py` does

The modules beside `path/` are what Triton offers and Tilewright itself has no use for.
"""
