"""The number that a text states: read_number."""

from evalrun.reading.numbers.number_reader import read_number

__all__ = ["read_number"]
