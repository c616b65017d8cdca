"""A helper with `**options`."""

SIGNATURE = {"n": "i32"}


def kernel(n, **options):
    pass
