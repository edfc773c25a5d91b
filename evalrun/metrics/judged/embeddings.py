"""The arithmetic behind scores that a model reads: from embeddings and entailment tables to
numbers. No model here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def bert_score(
    pred_embeddings: ArrayLike,
    gold_embeddings: ArrayLike,
    pred_weights: ArrayLike,
    gold_weights: ArrayLike,
) -> tuple[float, float, float]:
    """Precision, recall and F1 of two token sequences by greedy cosine matching.

    Range [-1, 1], without baseline.

    Embeddings [tokens, dimensions]; weights [tokens], 0 for the start and the end token. Each token
    of the answer takes its best cosine with the gold's tokens of weight above 0 (precision), and
    the other way round (recall); the means are weighted, F = 2PR / (P + R). A side without any
    weight: 0. Zhang et al. 2020 (arXiv 1904.09675), section 3.
    """
    pred, gold = _unit(pred_embeddings), _unit(gold_embeddings)
    of_pred, of_gold = (np.asarray(w, dtype=np.float64) for w in (pred_weights, gold_weights))
    if not (of_pred > 0).any() or not (of_gold > 0).any():
        return 0.0, 0.0, 0.0
    cosines = pred @ gold.T
    precision = _weighted(cosines.max(axis=1), of_pred)
    recall = _weighted(cosines.max(axis=0), of_gold)
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0


def rescaled(value: float, baseline: float) -> float:
    """(value - b) / (1 - b): a BERTScore on a scale where random text is near 0.

    Zhang et al. 2020, section 4.
    """
    return (value - baseline) / (1 - baseline)


def summac_zs(entailment: ArrayLike, contradiction: ArrayLike) -> float:
    """Mean over summary sentences of (largest entailment - largest contradiction) over source
    sentences. Range [-1, 1].

    Tables [source sentences, summary sentences] of probabilities; a side without sentences: 0.
    Laban et al. 2022 (SummaC, arXiv 2111.09525), SummaC-ZS with max and mean.
    """
    for_it, against = (np.asarray(table, dtype=np.float64) for table in (entailment, contradiction))
    if for_it.size == 0:
        return 0.0
    return float(np.mean(for_it.max(axis=0) - against.max(axis=0)))


def _unit(embeddings: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(embeddings, dtype=np.float64)
    units: NDArray[np.float64] = rows / np.maximum(
        np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12
    )
    return units


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float(np.dot(values, weights) / weights.sum())
