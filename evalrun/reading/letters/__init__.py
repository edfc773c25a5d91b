"""The option that a text states as its answer to a multiple-choice question: read_letter."""

from evalrun.reading.letters.letter_choice import EVIDENCE, RULES, WEAK_RULES
from evalrun.reading.letters.letter_reader import (
    find_statements,
    read_letter,
)

__all__ = ["EVIDENCE", "RULES", "WEAK_RULES", "find_statements", "read_letter"]
