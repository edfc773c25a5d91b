"""Fewest edits and shifts of words between a translation and a reference, as sacrebleu's TER finds them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

MAX_SHIFTED = 10  # words moved at once
MAX_DISTANCE = 50  # places between the two ends of a move
MAX_TRIED = 1000  # moves looked at for one translation
BEAM = 25  # how far from the diagonal the edit distance is searched
_SURROGATES = 0xD800


def edits(hyp: Sequence[str], ref: Sequence[str]) -> int:
    """Edits (insert, delete, substitute a word, each 1) plus shifts of word groups (each 1) from hyp to ref.

    Greedy: the shift that lowers the edit distance most, while any does. Source: Snover et al. 2006; order and limits
    of the search as Tercom and sacrebleu 2.6.0 have them. The edit distance there is that of paths near the diagonal,
    so it is never below the true one: a shift that could not win with the true one is passed over, and where one
    shortest path stays near the diagonal the two are equal.
    """
    if not ref:
        return len(hyp)
    from sacrebleu.metrics.lib_ter import BeamEditDistance

    text, gold = _as_characters(hyp, ref)
    beam: Any = BeamEditDistance(list(gold))
    near = _near_diagonal(len(text), len(gold))
    n_shifts = n_tried = 0
    while True:
        gain, shifted, n_tried = _best_shift(text, gold, beam, near, n_tried)
        if n_tried >= MAX_TRIED or gain <= 0:
            return n_shifts + int(beam(text)[0])
        n_shifts += 1
        text = shifted


def _as_characters(hyp: Sequence[str], ref: Sequence[str]) -> tuple[str, str]:
    """Both sides with one character per distinct word."""
    numbers: dict[str, int] = {}
    for word in (*hyp, *ref):
        numbers.setdefault(word, len(numbers))
    sign = {word: chr(n if n < _SURROGATES else n + 0x800) for word, n in numbers.items()}
    return "".join(sign[word] for word in hyp), "".join(sign[word] for word in ref)


def _near_diagonal(n_text: int, n_gold: int) -> tuple[int, int]:
    """The smallest and largest (place in gold - place in text) that the search around the diagonal reaches everywhere."""
    drift = [math.floor(i * (n_gold / n_text)) - i for i in range(1, n_text + 1)]
    return max(drift, default=0) - BEAM, min(drift, default=0) + BEAM - 1


def _has_near_path(text: str, gold: str, near: tuple[int, int]) -> bool:
    """True where some shortest path of edits stays within `near`."""
    from rapidfuzz.distance import Levenshtein

    low, high = near
    offset = 0
    for step, _, _ in Levenshtein.editops(text, gold).as_list():
        offset += (step == "insert") - (step == "delete")
        if not low <= offset <= high:
            return False
    return low <= 0 <= high


def _best_shift(text: str, gold: str, beam: Any, near: tuple[int, int], n_tried: int) -> tuple[int, str, int]:
    """(gain, text after the best shift, shifts looked at so far); gain 0 where none is possible."""
    from rapidfuzz.distance import Levenshtein

    before, trace = beam(text)
    places, gold_wrong, text_wrong = _alignment(trace)
    best: tuple[int, int, int, int] | None = None
    shifted = text
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
            if aim == last:
                continue
            last = aim
            moved = _moved(text, start, length, aim)
            n_tried += 1
            rank = (length, -start, -aim)
            distance = Levenshtein.distance(moved, gold)
            if best is None or (before - distance, *rank) > best:
                if not _has_near_path(moved, gold, near):
                    distance = int(beam(moved)[0])
                found = (before - distance, *rank)
                if best is None or found > best:
                    best, shifted = found, moved
        if n_tried >= MAX_TRIED:
            break
    return (0, text, n_tried) if best is None else (best[0], shifted, n_tried)


def _alignment(trace: str) -> tuple[list[int], list[int], list[int]]:
    """(the last place of the text so far, for each place of the gold; wrong places before each of gold, of text).

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
    """(place in the text, place in the gold, length) of every run of equal words, by place and then by length."""
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
