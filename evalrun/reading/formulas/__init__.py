"""The number or short formula that a text states: read_expression."""

from evalrun.reading.formulas.expressions import read_expression

__all__ = ["read_expression"]
