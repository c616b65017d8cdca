"""The layout that a sanitized kernel and the runtime share: the words of the table that is the last argument.

    table        HEADER words, then ARGUMENT words for each pointer argument
    reports      CHECK words for each access and each check: how often it failed, then SLOTS records of RECORD words
    sync         a clock, LOCKS words of what is known through each lock, then STATE words for each program

All words are 64 bits.
"""

from __future__ import annotations

# --- the table
BASE, REPORTS, SYNC, WASTE = range(4)
"""The least stamp of this launch; addresses; a word that accesses go to instead of to bad addresses."""
HEADER = 4

LOW, BYTES, WRITERS, READERS, WRITTEN = range(5)
"""The extent of an argument, and the addresses of its shadows: 0 where there is none."""
ARGUMENT = 5

# --- a report
PROGRAM, LANE, ADDRESS, OTHER = range(4)
RECORD = 4
SLOTS = 4
CHECK = 1 + SLOTS * RECORD

# --- stamps: base + ((program · EPOCHS + epoch) · sites + site) · 2 + (others did the same)
EPOCHS = 4

# --- sync
CLOCK, KNOWN_BY_LOCK = 0, 8
LOCKS = 64
STATES = KNOWN_BY_LOCK + LOCKS
DIRTY, EPOCH, ACQUIRED, KNOWN, RELEASED, THROUGH = 0, 1, 2, 3, 4, 4 + EPOCHS
"""Per program: did it touch anything since the last release; in which epoch it is; the time of its last acquire; what
it knows of, by lock; for each epoch when it was released first, and through which locks."""
STATE = 16
"""Words of a program's state; not less than a cache line, as programs that run at the same time write to theirs."""


def program_stamps(sites: int) -> int:
    """The number of stamps of a program: a power of two."""
    return 2 * EPOCHS * rounded_sites(sites)


def rounded_sites(sites: int) -> int:
    return 1 << max(0, sites - 1).bit_length()
