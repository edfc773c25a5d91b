"""A number that stands in a text, and the one spelling of its value."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Hit(NamedTuple):
    """A number in a text: its characters [start, end), and its value whole + numerator /
    denominator * 10^exponent.

    The parts are decimal texts ("12.50"); denominator and whole may be empty.

    Attributes:
        is_ordinal: 3rd, 5th.
    """

    start: int
    end: int
    is_negative: bool
    is_ordinal: bool
    numerator: str
    denominator: str = ""
    whole: str = ""
    exponent: int = 0

    @property
    def canonical(self) -> str:
        """The one spelling of the value: "1234", "-0.5", or "1/3" where no finite decimal exists.

        Equal numbers have equal texts and unequal ones do not, at any length, in linear time.
        """
        if self.denominator:
            value = Fraction(self.numerator) / Fraction(self.denominator) + Fraction(
                self.whole or 0
            )
            return _canonical_ratio(-value if self.is_negative else value)
        return _canonical_decimal(self.numerator, self.exponent, self.is_negative)


def _canonical_decimal(number: str, exponent: int, is_negative: bool) -> str:
    integer, _, decimals = number.partition(".")
    if exponent > 0:
        decimals = decimals.ljust(exponent, "0")
        integer, decimals = integer + decimals[:exponent], decimals[exponent:]
    elif exponent < 0:
        integer = integer.rjust(-exponent, "0")
        integer, decimals = integer[:exponent], integer[exponent:] + decimals
    integer, decimals = integer.lstrip("0") or "0", decimals.rstrip("0")
    unsigned = f"{integer}.{decimals}" if decimals else integer
    return f"-{unsigned}" if is_negative and unsigned != "0" else unsigned


def _canonical_ratio(value: Fraction) -> str:
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    scaled = abs(value.numerator) * 10**places // value.denominator
    return _canonical_decimal(str(scaled), -places, value < 0)
