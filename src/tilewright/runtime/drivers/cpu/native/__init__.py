"""The native side of launching; see `text.py`."""
