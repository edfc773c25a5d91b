"""What two lists of tokens share: n-grams, common subsequences, copied fragments, edits.

Counts, no scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def ngrams(tokens: Sequence[str], n: int) -> list[Hashable]:
    """All n-grams, in order. Those of one token are the tokens themselves."""
    return list(tokens) if n == 1 else list(zip(*(tokens[i:] for i in range(n)), strict=False))


def shared(gold: Sequence[Hashable], pred: Sequence[Hashable]) -> int:
    """Size of the intersection of two multisets."""
    return shared_counts(Counter(gold), Counter(pred))


def shared_counts(gold: Counter[Hashable], pred: Counter[Hashable]) -> int:
    """Size of the intersection of two counted multisets."""
    common = gold.keys() & pred.keys()
    return sum(map(min, map(gold.__getitem__, common), map(pred.__getitem__, common)))


def lcs_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence."""
    from rapidfuzz.distance import LCSseq

    return int(LCSseq.similarity(first, second))


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Levenshtein distance: fewest insertions, deletions and substitutions, each of cost 1."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(first, second))


def edit_similarity(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """1 - edit distance / length of the longer; 0 where a side is empty. Range [0, 1]."""
    if not first or not second:
        return 0.0
    return 1 - edit_distance(first, second) / max(len(first), len(second))


def prefix_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """How many elements at the beginning are equal."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def copied_fragments(text: Sequence[str], summary: Sequence[str]) -> list[int]:
    """Lengths of the fragments of `summary` that stand in `text`, greedily from the left, the
    longest at each place.

    As in the source, the search goes on behind a match, so a longer one that begins inside it is
    not seen. Source: Grusky et al. 2018 (Newsroom, arXiv 1804.11283), figure 3.
    """
    places: dict[str, list[int]] = {}
    for place, token in enumerate(text):
        places.setdefault(token, []).append(place)
    lengths, start = [], 0
    while start < len(summary):
        best, behind = 0, 0
        for place in places.get(summary[start], ()):
            if place < behind:
                continue
            length = 1
            while (
                start + length < len(summary)
                and place + length < len(text)
                and summary[start + length] == text[place + length]
            ):
                length += 1
            best, behind = max(best, length), place + length
        if best:
            lengths.append(best)
        start += best or 1
    return lengths


def union_lcs_hits(gold: Sequence[Sequence[str]], pred: Sequence[Sequence[str]]) -> int:
    """Tokens of the gold sentences that lie on a longest common subsequence with some sentence of
    `pred`.

    Per gold sentence the union, over the sentences of `pred`, of the places on the one subsequence
    that rouge-score's walk finds; a token counts no more often than it stands in `pred`. Source:
    Lin 2004, section 3.2; which of several longest subsequences is walked: rouge-score 0.1.2.
    """
    if len(gold) == 1 and len(pred) == 1:
        return lcs_length(gold[0], pred[0])
    bits, starts = _places(gold)
    blocks = 0
    for begin, sentence in zip(starts, gold, strict=True):
        blocks |= ((1 << len(sentence)) - 1) << begin
    found = [0] * len(gold)
    for sentence in pred:
        columns = _rises(sentence, bits, blocks)
        for s, begin in enumerate(starts):
            found[s] |= _walk(gold[s], sentence, begin, bits, columns)
    left = Counter(token for sentence in pred for token in sentence)
    hits = 0
    for sentence, places in zip(gold, found, strict=True):
        while places:
            token = sentence[places.bit_length() - 1]
            places ^= 1 << (places.bit_length() - 1)
            if left[token]:
                left[token] -= 1
                hits += 1
    return hits


def _places(sentences: Sequence[Sequence[str]]) -> tuple[dict[str, int], list[int]]:
    """Token -> the bits at which it stands in all sentences, and the first bit of each.

    One bit lies free between.
    """
    bits: dict[str, int] = {}
    starts, begin = [], 0
    for sentence in sentences:
        starts.append(begin)
        for place, token in enumerate(sentence, begin):
            bits[token] = bits.get(token, 0) | 1 << place
        begin += len(sentence) + 1
    return bits, starts


def _rises(sentence: Sequence[str], bits: dict[str, int], blocks: int) -> list[int]:
    """[j]: the bits i at which the LCS length of the first j tokens with the gold up to i is one
    more than up to i - 1.

    All gold sentences at once, one big integer each: a carry ends in the free bit behind its
    sentence. Source: Hyyrö 2004, bit-parallel LCS length.
    """
    flat = blocks
    columns = [0]
    for token in sentence:
        here = flat & bits.get(token, 0)
        if here:
            flat = ((flat + here) | (flat - here)) & blocks
        columns.append(flat ^ blocks)
    return columns


def _walk(
    gold: Sequence[str],
    pred: Sequence[str],
    begin: int,
    bits: dict[str, int],
    columns: Sequence[int],
) -> int:
    """Places in `gold`, as bits, on the subsequence that is found by going back from both ends.

    Equal tokens are taken; else a token of `gold` is dropped where that costs nothing, else one of
    `pred`.
    """
    found, i, j = 0, len(gold), len(pred)
    while i and j:
        mask = (1 << i) - 1
        rise = ((columns[j] >> begin) & mask).bit_length()
        if not rise:  # the length is 0 here: no token is shared any more
            break
        equal = ((bits.get(pred[j - 1], 0) >> begin) & mask).bit_length()
        if equal >= rise:
            i, j = equal - 1, j - 1
        else:
            i = rise - 1
            token = gold[i]
            j -= 1
            while pred[j - 1] != token:
                j -= 1
            j -= 1
        found |= 1 << i
    return found
