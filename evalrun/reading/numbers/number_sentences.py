"""Where the sentences of a text end, looked for only as far as somebody asks."""

from __future__ import annotations

import re
from bisect import bisect_left

_BLOCK = 512
"""Characters that are searched at once."""
_MAX_ASKED = 32
"""After so many questions all ends are found at once, so that the time stays linear."""
_END = re.compile(r"[\n.!?;。！？；](?:(?<![.!?;])|(?=\s|$|[\"'”*]))")
_ABBREVIATIONS = frozenset({
    "i.e", "e.g", "approx", "vs", "mr", "mrs", "ms", "dr", "no", "st", "etc", "eq", "fig", "cf",
    "resp",
})  # fmt: skip
_ITEM = re.compile(r"\n[ \t*]{0,4}\d{1,3}$")


class Sentences:
    """The ends of the sentences of text[start:end]: line ends, full stops and their like.

    A cue asks for the end of its own sentence and the closing rules for the last few, so most of
    a long text is never searched.
    """

    __slots__ = ("_asked", "_blocks", "_end", "_start", "_text")

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._start = start
        self._end = end
        self._blocks: list[list[int] | None] = [None] * ((end - start) // _BLOCK + 1)
        self._asked = 0

    def after(self, at: int) -> int | None:
        """The first end at or behind `at`; None where there is none."""
        for block in range(self._block_of(at), len(self._blocks)):
            ends = self._ends(block)
            place = bisect_left(ends, at)
            if place < len(ends):
                return ends[place]
        return None

    def before(self, at: int) -> int | None:
        """The last end before `at`; None where there is none."""
        for block in range(self._block_of(at), -1, -1):
            ends = self._ends(block)
            place = bisect_left(ends, at)
            if place:
                return ends[place - 1]
        return None

    def _block_of(self, at: int) -> int:
        self._asked += 1
        if self._asked == _MAX_ASKED:
            self._blocks = [self._search(self._start, self._end)]
        if len(self._blocks) == 1:
            return 0
        return min(max(0, at - self._start) // _BLOCK, len(self._blocks) - 1)

    def _ends(self, block: int) -> list[int]:
        ends = self._blocks[block]
        if ends is None:
            left = self._start + block * _BLOCK
            ends = self._blocks[block] = self._search(left, min(left + _BLOCK, self._end))
        return ends

    def _search(self, left: int, right: int) -> list[int]:
        """The ends in text[left:right]; the character behind `right` counts as what follows."""
        text = self._text
        found = []
        for match in _END.finditer(text, left, min(right + 1, self._end)):
            at = match.start()
            if text[at] == "." and _is_inside(text, max(self._start, at - 8), at):
                continue
            found.append(at)
        if found and found[-1] >= right:
            found.pop()
        return found


def _is_inside(text: str, start: int, at: int) -> bool:
    """True where the full stop belongs to an abbreviation, an initial or the number of a list."""
    before = text[start:at]
    last = before[-1:]
    if not last.isalpha():
        return last.isdigit() and "\n" in before and _ITEM.search(before) is not None
    if "\n" in before:
        before = before.rpartition("\n")[2]
    word = before.rpartition(" ")[2].lstrip("(")
    return (len(word) == 1 and last.isupper()) or word.lower() in _ABBREVIATIONS
