"""Saved log-probabilities of one cell, read back without building whole rows."""

from __future__ import annotations

from dataclasses import dataclass

from evalrun.store.arrow.arrowfile import lists
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.predictions import load_cell

_COLUMNS = ("status", "logprob", "n_tokens", "is_greedy", "extra")


@dataclass(frozen=True, slots=True)
class LikelihoodRow:
    """One saved log-probability (nats, summed over n_tokens tokens).

    Attributes:
        extra: JSON of what is to be said of it.
    """

    status: str
    logprob: float | None
    n_tokens: int | None
    is_greedy: bool | None
    extra: str | None


def read_likelihoods(files: CellFiles, kind: str) -> dict[str, dict[int, LikelihoodRow]]:
    """doc_id -> index -> row, of one kind.

    Empty where the cell has no file. Fault: a file is not sound.
    """
    loaded = load_cell(files)
    columns = [lists(loaded.batches, name) for name in _COLUMNS]
    found: dict[str, dict[int, LikelihoodRow]] = {}
    for (doc_id, row_kind, index, turn), place in loaded.chosen.items():
        if row_kind == kind and turn == 0:
            found.setdefault(doc_id, {})[index] = LikelihoodRow(
                *(column[place] for column in columns)
            )
    return found
