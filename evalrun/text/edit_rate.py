"""Fewest edits and shifts of words between a translation and a reference, as sacrebleu's TER
finds them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalrun.text.character_grams import as_characters

MAX_SHIFTED = 10  # words moved at once
MAX_DISTANCE = 50  # places between the two ends of a move
MAX_TRIED = 1000  # moves looked at for one translation
BEAM = 25  # how far from the diagonal the edit distance is searched
_FAR = 1 << 20  # more edits than any two texts need


def edits(hyp: Sequence[str], ref: Sequence[str]) -> int:
    """Edits (insert, delete, substitute a word, each 1) plus shifts of word groups (each 1) from
    hyp to ref.

    Greedy: the shift that lowers the edit distance most, while any does. Source: Snover et al.
    2006; order and limits of the search as Tercom and sacrebleu 2.6.0 have them.
    """
    if not ref:
        return len(hyp)
    from sacrebleu.metrics.lib_ter import BeamEditDistance

    text, gold = as_characters(hyp, ref)
    beam: Any = BeamEditDistance(list(gold))
    n_shifts = n_tried = 0
    while True:
        before, trace = beam(text)
        moves, n_tried = _moves(text, gold, trace, n_tried)
        if n_tried >= MAX_TRIED or not moves:
            return n_shifts + int(before)
        shifted = [_moved(text, *move) for move in moves]
        distances = distances_near_diagonal(shifted, gold).tolist()
        ranks = [
            (-d, length, -start, -aim)
            for d, (start, length, aim) in zip(distances, moves, strict=True)
        ]
        best = max(range(len(moves)), key=ranks.__getitem__)
        if distances[best] >= before:
            return n_shifts + int(before)
        n_shifts += 1
        text = shifted[best]


def distances_near_diagonal(texts: Sequence[str], gold: str) -> NDArray[np.int32]:
    """Edit distances of texts of one length to `gold`, by paths near the diagonal alone; all texts
    at once, by rows.

    Row i holds the places j of the gold with |j - i * ratio| below the width of the search.
    """
    n_text, n_gold = len(texts[0]), len(gold)
    ratio = n_gold / n_text
    width = math.ceil(ratio / 2 + BEAM) if ratio / 2 > BEAM else BEAM
    signs = np.array([np.frombuffer(text.encode("utf-32-le"), np.uint32) for text in texts])
    wanted = np.frombuffer(gold.encode("utf-32-le"), np.uint32)
    places = np.arange(n_gold + 1, dtype=np.int32)
    last = np.tile(places, (len(texts), 1))
    for i in range(1, n_text + 1):
        middle = math.floor(i * ratio)
        low = max(0, middle - width)
        high = n_gold + 1 if i == n_text else min(n_gold + 1, middle + width)
        row = np.full_like(last, _FAR)
        band = last[:, low:high] + 1
        first = max(low, 1)
        kept = last[:, first - 1 : high - 1] + (signs[:, i - 1 : i] != wanted[first - 1 : high - 1])
        np.minimum(band[:, first - low :], kept, out=band[:, first - low :])
        band -= places[low:high]
        np.minimum.accumulate(band, axis=1, out=band)
        row[:, low:high] = band + places[low:high]
        last = row
    return np.asarray(last[:, -1], dtype=np.int32)


def _moves(
    text: str, gold: str, trace: str, n_tried: int
) -> tuple[list[tuple[int, int, int]], int]:
    """All (start, length, aim) that may be tried, and how many have been so far.

    Args:
        trace: from the text to the gold.
    """
    places, gold_wrong, text_wrong = _alignment(trace)
    moves: list[tuple[int, int, int]] = []
    for start, start_gold, length in _pairs(text, gold):
        if (
            text_wrong[start + length] == text_wrong[start]
            or gold_wrong[start_gold + length] == gold_wrong[start_gold]
        ):
            continue  # one side is right as it stands
        if start <= places[start_gold] < start + length:
            continue  # it would move within itself
        last = None
        for at in range(start_gold - 1, start_gold + length):
            aim = 0 if at < 0 else places[at] + 1
            if aim != last:
                moves.append((start, length, aim))
            last = aim
        if n_tried + len(moves) >= MAX_TRIED:
            break
    return moves, n_tried + len(moves)


def _alignment(trace: str) -> tuple[list[int], list[int], list[int]]:
    """(the last place of the text so far, for each place of the gold; wrong places before each of
    gold, of text).

    Args:
        trace: the operations that make the text into the gold.
    """
    places, gold_wrong, text_wrong, place = [], [], [], -1
    for step in trace:
        is_wrong = int(step != " ")
        if step != "i":  # all but an insertion use a word of the text
            place += 1
            text_wrong.append(is_wrong)
        if step != "d":  # all but a deletion use a word of the gold
            places.append(place)
            gold_wrong.append(is_wrong)
    return places, list(accumulate(gold_wrong, initial=0)), list(accumulate(text_wrong, initial=0))


def _pairs(text: str, gold: str) -> Iterator[tuple[int, int, int]]:
    """(place in the text, place in the gold, length) of every run of equal words, by place and
    then by length.
    """
    where: dict[str, list[int]] = {}
    for place, sign in enumerate(gold):
        where.setdefault(sign, []).append(place)
    for start, sign in enumerate(text):
        for start_gold in where.get(sign, ()):
            if abs(start_gold - start) > MAX_DISTANCE:
                continue
            most = min(MAX_SHIFTED, len(text) - start, len(gold) - start_gold)
            for length in range(1, most + 1):
                if text[start + length - 1] != gold[start_gold + length - 1]:
                    break
                yield start, start_gold, length


def _moved(text: str, start: int, length: int, aim: int) -> str:
    """The text with `length` words from `start` on moved before the place `aim` of the text."""
    group, rest = text[start : start + length], text[:start] + text[start + length :]
    if aim > start + length:
        aim -= length
    return rest[:aim] + group + rest[aim:]
