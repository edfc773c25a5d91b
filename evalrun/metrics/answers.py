"""The texts of a document, as metrics read them that compare texts without a scorer."""

from __future__ import annotations

from evalrun.types import Answer, Doc, Samples


def without_gold(doc: Doc) -> str | None:
    """Why a document that has no gold cannot be compared, or None."""
    return None if doc.gold else f"document {doc.id!r} has no gold answer"


def texts_of(doc: Doc, answer: Answer, n: int | None = None) -> list[str]:
    """The first n texts of a document (all where n is open); no answer counts as an empty text.

    ValueError where there are fewer than n or none, or where the document has no gold.
    """
    if not isinstance(answer, Samples):
        raise TypeError(f"document {doc.id!r}: texts are compared, got {type(answer).__name__}")
    texts = answer.texts[:n]
    if not texts or (n is not None and len(texts) < n):
        raise ValueError(
            f"document {doc.id!r} has {len(texts)} answers, the metric needs {n or 'one'}"
        )
    return [text or "" for text in texts]
