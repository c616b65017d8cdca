"""Support for unmodified Triton code: `path/` holds the package `triton`, whose names are in a table.

    PYTHONPATH=…/tilewright/compat/path python script.py      # what `tilewright run script.py` does

The other modules implement parts of Triton that Tilewright itself does not use.
"""
