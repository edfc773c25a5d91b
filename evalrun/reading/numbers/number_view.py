"""The part of a text in which an answer is looked for: without thought, program code and invented
questions."""

from __future__ import annotations

import re
from typing import NamedTuple

from evalrun.reading.numbers.number_cut import looks_cut
from evalrun.reading.run_on import run_on
from evalrun.text.numbers import plain

_THOUGHT = re.compile(
    r"<(?P<shut>/?)(?:think|thinking|thought|reasoning|seed:think|mm:think)>"
    r"|\[(?P<closed>/?)THINK\]",
    re.IGNORECASE,
)
_FENCE = re.compile(
    r"(?m:^)[ \t]{0,12}(?:```+|~~~+)[ \t]{0,4}(?P<tag>[\w+#.-]{0,24})[^`\n]{0,40}+(?m:$)"
)
_PROGRAMS = frozenset({
    "python", "py", "python3", "c", "cpp", "c++", "java", "js", "javascript", "ts", "sql",
    "bash", "sh", "r", "julia", "matlab", "go", "rust", "ruby", "sympy",
})  # fmt: skip
_PROGRAM = re.compile(
    r"(?m:^)[ \t]{0,12}(?:def |import |from \w{1,40} import |return |print\(|\w{1,60} = )"
)
_CALCULATOR = re.compile(r"<<[^<>\n]{0,300}>>")
_DRIFT = re.compile(
    r"\n[ \t>*_]{0,6}(?:"
    r"#{1,6}[ \t]{1,3}(?i:guidance|examples?|vocabulary|(?:guided |explore )?practice|exercises?"
    r"|explore more|references|tags|comments"
    r"|related|see also|problem|questions?|next|review|lesson|chapter|homework|additional"
    r"|similar)\b"
    r"|(?i:concept|keywords?|tags|categor(?:y|ies)|related (?:questions|posts|articles)"
    r"|similar questions|posted by|share this|copyright"
    r"|kudos|references|comments|about the author|further reading|guided practice"
    r"|practice problems?|topic|subject|difficulty)[*_]{0,2}[ \t]{0,2}(?::|\n|for\b|\|)"
    r"|\[Reveal\]|_{8,}|-{20,}|(?i:example|exercise|problem|question|task|test case"
    r"|sample)[ \t]{1,2}#?(?:\d{1,3}|[A-Z])\b[*_]{0,2}[ \t]{0,2}[:.)\n]"
    r"|\\(?:section|begin\{(?:problem|question|exercise)|end\{document)|(?i:<(?:div|p|br|h\d|span"
    r"|table|img|a)\b)|https?://|©"
    r")"
)
"""Where a page of the web or a textbook goes on after the solution."""
_DIGIT = re.compile(r"\d")
_FINISHED = re.compile(
    r"(?:<eo[as]>|</s>|<end_of_turn>|<\|(?:im_end|eot_id|eom_id|endoftext|end|end_of_text)\|>)\s*$"
)
_TOKEN = re.compile(r"<(?:eo[acse]|/s|pad|eos|bos|end_of_turn)>|<\|[a-z_]{1,30}\|>|\[/?INST\]|\x00")


class View(NamedTuple):
    """What a reader searches.

    text: the original with foreign digits and signs in ASCII; thought, programs and marks of a
    template are blank.
        Every character keeps its place.
    start, end: where the answer to the first question stands.
    is_cut: the text ends before it is finished.
    has_open_thought: a thought begins and never ends.
    outputs: characters [start, end) of the blocks that hold what a program printed.
    """

    text: str
    start: int
    end: int
    is_cut: bool
    has_open_thought: bool = False
    outputs: tuple[tuple[int, int], ...] = ()


def view(text: str, truncated: bool | None = None) -> View:
    """Prepare `text`; truncated: whether it was cut off, None: judged from the text. Linear
    time."""
    start, is_open = after_thought(text)
    if is_open:
        return View(text, len(text), len(text), True, has_open_thought=True)
    begins = run_on(text[start:])
    if begins is None:
        begins = _drifts(text, start)
    end = len(text) if begins is None else start + begins
    mapped, outputs, is_open_fence = _without_programs(plain(text[:end]), start)
    if "<" in mapped or "[" in mapped or "\0" in mapped:
        mapped = _TOKEN.sub(_line_end, mapped)
        if "<<" in mapped:
            mapped = _CALCULATOR.sub(_blank, mapped)
    if begins is not None or (truncated is None and _FINISHED.search(text[-60:])):
        is_cut = False
    elif truncated is None:
        is_cut = is_open_fence or looks_cut(mapped[start:])
    else:
        is_cut = truncated
    return View(mapped, start, end, is_cut, outputs=outputs)


def _drifts(text: str, start: int) -> int | None:
    """Where the text turns into something else after a solution with a number in it; None where it
    does not."""
    drift = _DRIFT.search(text, start)
    if drift is None:
        return None
    digit = _DIGIT.search(text, start)
    if digit is not None and drift.start() < digit.end():
        drift = _DRIFT.search(text, digit.end())
    return drift.start() - start if digit and drift else None


def after_thought(text: str) -> tuple[int, bool]:
    """(where the answer begins, True where a thought never ends)."""
    last = None
    if "<" not in text and "[" not in text:
        return 0, False
    for match in _THOUGHT.finditer(text):
        if (
            match["shut"]
            or match["closed"]
            or not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        ):
            last = match  # an opening mark within a line is quoted
    if last is None:
        return 0, False
    if last["shut"] or last["closed"]:
        return last.end(), False
    return len(text), True


def _without_programs(text: str, start: int) -> tuple[str, tuple[tuple[int, int], ...], bool]:
    """The text with its program blocks blank, the blocks of printed output, and whether the last
    block is open."""
    if "```" not in text and "~~~" not in text:
        return text, (), False
    fences = list(_FENCE.finditer(text, start))
    pieces: list[str] = []
    outputs: list[tuple[int, int]] = []
    place = 0
    for opening, closing in zip(fences[::2], [*fences[1::2], None], strict=False):
        stop = closing.start() if closing else len(text)
        tag = opening["tag"].lower()
        body = text[opening.end() : stop]
        is_program = tag in _PROGRAMS or (tag not in ("output", "text", "") and closing is None)
        is_program = tag != "output" and (is_program or len(_PROGRAM.findall(body)) > 1)
        if tag == "output":
            outputs.append((opening.end(), stop))
        if is_program:
            pieces += [text[place : opening.end()], _blank_text(body)]
            place = stop
    return "".join(pieces) + text[place:], tuple(outputs), len(fences) % 2 == 1


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _line_end(match: re.Match[str]) -> str:
    """A mark of a chat template ends a line."""
    return "\n" + " " * (len(match[0]) - 1)


def _blank_text(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
