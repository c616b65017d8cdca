"""Launches of sanitized kernels, which check their own accesses, and the decoding of their reports.

table of extents and shadows  →  the kernel, with the table as its last argument  →  reports  →  SanitizerError
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu.options import CHECKS
from tilewright.backends.cpu.sanitize import layout
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.drivers.cpu.python_memory import array_address
from tilewright.runtime.extents import Extent, extent_of
from tilewright.runtime.findings import Access, Finding, SanitizerError
from tilewright.runtime.shadows import Stamps, stamps_for
from tilewright.runtime.unwritten import written_of
from tilewright.support.source import Span

_WASTE = 2
UNBOUNDED = 2**62
"""Size in bytes of an argument that does not say how large it is."""


class _Site(NamedTuple):
    """An access of the kernel; see `backends.cpu.sanitize.instrument.Site`."""

    kind: str
    shape: list[int]
    size: int
    places: list[list[Any]]
    arguments: list[int]

    @property
    def span(self) -> Span:
        span = Span.of(self.places)
        assert span is not None, "an access has a place"
        return span


class _Facts(NamedTuple):
    """See `backends.cpu.sanitize.instrument.Facts`."""

    checks: list[str]
    sites: list[_Site]
    sizes: list[int | None]
    stored: list[int]
    syncs: bool


@lru_cache(maxsize=256)
def _facts(text: str) -> _Facts:
    checks, sites, sizes, stored, syncs = json.loads(text).values()
    return _Facts(checks, [_Site(*site) for site in sites], sizes, stored, syncs)


class Launch(NamedTuple):
    """A launch to be checked.

    Attributes:
        facts: what the compiler said about the kernel and its checks, as JSON.
        names, values: those of the run-time arguments.
        run: runs the kernel with the table as one more argument.
    """

    facts: str
    grid: Sequence[int]
    names: Sequence[str]
    values: Sequence[int | float | ArrayView]
    run: Callable[[int], None]


def run_checked(**fields: Any) -> None:
    """Run the kernel of a `Launch` with these fields.

    Raises:
        SanitizerError: it did what it must not.
        ValueError: the grid is too large to look for races.
    """
    launch = Launch(**fields)
    facts, programs = _facts(launch.facts), prod(launch.grid)
    extents = _extents(launch)
    in_races = {number: extent for number, extent in extents.items() if "races" in facts.checks}
    reported = len(facts.sites) * len(CHECKS) * layout.CHECK
    synced = layout.STATES + programs * layout.STATE if facts.syncs else 1
    words = np.zeros(reported + synced + _WASTE, np.int64)  # reports, what the programs know, words to waste
    reports, sync, waste = (array_address(words) + 8 * start for start in (0, reported, reported + synced))
    stamps_per_program = layout.program_stamps(len(facts.sites))
    with stamps_for(in_races, facts.stored, programs * stamps_per_program) as stamps:
        table = _table(facts, extents, stamps)
        table[[layout.REPORTS, layout.SYNC, layout.WASTE]] = reports, sync, waste
        launch.run(array_address(table))
    if words[:reported].any():
        raise SanitizerError(list(_Reader(launch, facts, extents, stamps.base).findings(words[:reported])))


def _extents(launch: Launch) -> dict[int, Extent]:
    """The extents of those arguments that have one."""
    found: dict[int, Extent] = {}
    for number, (name, value) in enumerate(zip(launch.names, launch.values, strict=True)):
        extent = extent_of(name, value) if isinstance(value, ArrayView) else None
        if extent is not None:
            found[number] = extent
    return found


def _table(facts: _Facts, extents: dict[int, Extent], stamps: Stamps) -> np.ndarray[Any, Any]:
    rows: list[list[int]] = []
    for number, size in enumerate(facts.sizes):
        if size is None:
            continue
        extent = extents.get(number)
        if extent is None:
            rows.append([0, UNBOUNDED, 0, 0, 0])
            continue
        planes = stamps.addresses.get(number, (0, 0))
        rows.append([extent.low, extent.high - extent.low, *planes, written_of(extent)])
    header = [0] * layout.HEADER
    header[layout.BASE] = stamps.base
    return np.array([*header, *(word for row in rows for word in row)], np.int64)


class _Reader:
    """Turns the words of reports into findings."""

    def __init__(self, launch: Launch, facts: _Facts, extents: dict[int, Extent], base: int) -> None:
        self.launch, self.facts, self.extents, self.base = launch, facts, extents, base

    def findings(self, reports: np.ndarray[Any, Any]) -> Iterator[Finding]:
        words = reports.reshape(len(self.facts.sites), len(CHECKS), layout.CHECK)
        for (number, site), (position, check) in product(enumerate(self.facts.sites), enumerate(CHECKS)):
            count, *records = words[number, position].tolist()
            if count:
                starts = range(0, min(count, layout.SLOTS) * layout.RECORD, layout.RECORD)
                first = min(records[start : start + layout.RECORD] for start in starts)
                yield self._finding(site, check, first, count)

    def _finding(self, site: _Site, check: str, record: list[int], count: int) -> Finding:
        address = record[layout.ADDRESS]
        extent = self._argument(site, address)
        access = Access(site.kind, site.span, self._program(record[layout.PROGRAM]))
        return Finding(
            check=check,
            access=access,
            lane=tuple(map(int, np.unravel_index(record[layout.LANE], site.shape))) if site.shape else (),
            argument=extent.name if extent else "",
            element=extent.element_at(address) if extent else (),
            shape=extent.shape if extent else (),
            times=count,
            other=self._other(record) if check == "races" else None,
        )

    def _argument(self, site: _Site, address: int) -> Extent | None:
        """The argument that the address lies in, or is nearest to."""
        possible = [self.extents[number] for number in site.arguments if number in self.extents]
        return min(possible, key=lambda e: max(e.low - address, address - e.high + 1, 0), default=None)

    def _other(self, record: list[int]) -> Access:
        sites = layout.rounded_sites(len(self.facts.sites))
        program, rest = divmod(record[layout.OTHER] - self.base, layout.program_stamps(len(self.facts.sites)))
        number = rest // 2 % sites
        if not 0 <= program < prod(self.launch.grid) or number >= len(self.facts.sites):
            return Access("store", None, None)
        site = self.facts.sites[number]
        own = program == record[layout.PROGRAM]
        return Access(site.kind, site.span, None if own else self._program(program))

    def _program(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.launch.grid
        return number % x, number // x % y, number // (x * y)
