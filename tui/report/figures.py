"""One unit a table: GiB, or MiB where everything is small."""

from __future__ import annotations

from dataclasses import dataclass

from tui import units

GIB, MIB = units.GIB, units.MIB


@dataclass(frozen=True, slots=True)
class Unit:
    """How a table prints bytes."""

    name: str
    bytes: int
    digits: int

    def cell(self, size: int | None, width: int = 9) -> str:
        """A bare figure; one that would print as nothing carries a unit of its own.

        >>> GIBIBYTES.cell(10 * 2**30), GIBIBYTES.cell(131072), GIBIBYTES.cell(0), GIBIBYTES.cell(None)
        ('10.000', '128 KiB', '0', 'n/a')
        """
        if size is None or size == 0:
            return units.gib(size)
        if self.bytes == 1:
            return units.exact(size)
        # units prints GiB: a figure in MiB is that of 1,024 times the bytes
        text = units.gib(size * (GIB // self.bytes), self.digits)
        if "<" in text:
            return units.size(size).replace(".0 ", " ")
        if len(text) > width:
            return units.gib(size * (GIB // self.bytes), 0)
        return text

    def signed(self, size: int | None) -> str:
        """A difference with its sign; 0 for none.

        >>> GIBIBYTES.signed(-2**30), GIBIBYTES.signed(2**18), GIBIBYTES.signed(0)
        ('-1.000', '+256 KiB', '0')
        """
        if size is None or size == 0:
            return units.gib(size)
        return ("-" if size < 0 else "+") + self.cell(abs(size))

    def text(self, size: int | None) -> str:
        """A figure with its unit, for a sentence.

        >>> GIBIBYTES.text(2**30), GIBIBYTES.text(0), GIBIBYTES.text(592)
        ('1.000 GiB', '0 GiB', '592 B')
        """
        shown = self.cell(size)
        return shown if size is None or shown.endswith("B") else f"{shown} {self.name}"


def span(limits: tuple[int, int], unit: Unit) -> str:
    """A range in ``unit``, rounded outwards.

    >>> span((2**29, 2**30), GIBIBYTES), span((2**20, 2**21 + 1), MEBIBYTES)
    ('0.50-1.00', '1-3')
    """
    if unit.bytes == 1:
        return f"{limits[0]:,}-{limits[1]:,}"
    if unit.bytes == GIB:
        return units.span(*limits)
    return f"{limits[0] // unit.bytes:,}-{-(-limits[1] // unit.bytes):,}"


GIBIBYTES = Unit("GiB", GIB, 3)
MEBIBYTES = Unit("MiB", MIB, 2)
BYTES = Unit("B", 1, 0)
"""Every byte, for those who compare."""


def unit_for(requested: int | None) -> Unit:
    """The unit of a table whose requested peak is ``requested`` bytes: MiB below 1 GiB.

    >>> unit_for(2**30).name, unit_for(2**20).name, unit_for(None).name
    ('GiB', 'MiB', 'GiB')
    """
    return MEBIBYTES if requested is not None and requested < GIB else GIBIBYTES
