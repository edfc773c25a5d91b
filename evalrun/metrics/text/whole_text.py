"""Scorers that compare whole texts in some form: raw, stripped, normalised; in full, as prefix
or as suffix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from evalrun.errors import Fault, visible
from evalrun.metrics.base import Scorer
from evalrun.metrics.register import scorer
from evalrun.text import normalizers
from evalrun.text.letters import MAX_LETTERS, extract_letter
from evalrun.types import Doc, State, Verdict

_KEPT = 1 << 16  # forms that a batch remembers


class Form(NamedTuple):
    """What of a text is compared.

    Attributes:
        is_read: an answer was found.
        raw: where either form is empty, the words of both raw texts are compared instead; empty:
            they are not.
    """

    text: str
    raw: str = ""
    is_read: bool = True


FormOf = Callable[[str], Form]


class FormScorer(Scorer):
    """1.0 where the form of the text fits that of any gold, else 0.0. An empty text is never right.

    An empty form fits nothing, so that a gold "A" whose article is taken away is no prefix of
    everything.
    """

    rule: ClassVar[str] = "whole"

    @property
    def side(self) -> str:
        """full, prefix or suffix: the gold is the whole form, its beginning or its end."""
        return "full"

    def form(self, text: str) -> Form:
        """The form of a text, gold or answer alike."""
        raise NotImplementedError

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """1.0 or 0.0; extracted is the form that was compared."""
        return self._judge(doc, text, self.form)

    def judge_batch(self, items: Sequence[tuple[Doc, str]]) -> list[Verdict]:
        """As `judge_text`; every distinct text is brought into its form once."""
        form = lru_cache(maxsize=_KEPT)(self.form)
        return [self._judge(doc, text, form) for doc, text in items]

    def _judge(self, doc: Doc, text: str, form: FormOf) -> Verdict:
        golds = doc.gold_texts
        if not golds:
            raise ValueError(self.check_doc(doc))
        mine = form(text)
        if not mine.is_read:
            return Verdict(0.0, state=State.UNPARSED)
        value = bool(text) and any(self._fits(mine, form(gold)) for gold in golds)
        return Verdict(
            float(value), mine.text or normalizers.bare(mine.raw), (0, len(text)), self.rule
        )

    def _fits(self, mine: Form, gold: Form) -> bool:
        if not gold.is_read:
            return False
        answer, right = mine.text, gold.text
        if not (answer and right):
            answer, right = normalizers.bare(mine.raw), normalizers.bare(gold.raw)
            if not (answer and right):
                return False
        if self.side == "full":
            return answer == right
        return answer.startswith(right) if self.side == "prefix" else answer.endswith(right)


class StrippedScorer(FormScorer):
    """Compares texts without white space at their ends."""

    rule: ClassVar[str] = "stripped"

    def form(self, text: str) -> Form:
        return Form(text.strip())


class HelmScorer(FormScorer):
    """Compares what the normaliser `helm` leaves; where that is nothing, the words with their
    articles.
    """

    rule: ClassVar[str] = "helm"

    def form(self, text: str) -> Form:
        return Form(normalizers.helm(text), text)


@scorer("perfect_exact_match")
class PerfectExactMatchScorer(FormScorer):
    """The text equals a gold, character by character. Range {0, 1}."""

    def form(self, text: str) -> Form:
        return Form(text)


@scorer("quasi_exact_match")
class QuasiExactMatchScorer(HelmScorer):
    """Equal after the normaliser `helm`: no case, punctuation or articles, numbers by value.

    Range {0, 1}.
    """


@scorer("prefix_exact_match")
class PrefixExactMatchScorer(StrippedScorer):
    """The stripped text begins with a stripped gold, by characters: Yesterday begins with Yes.

    Range {0, 1}.
    """

    @property
    def side(self) -> str:
        return "prefix"


@scorer("prefix_quasi_exact_match")
class PrefixQuasiExactMatchScorer(HelmScorer):
    """After the normaliser `helm` the text begins with a gold, by characters. Range {0, 1}."""

    @property
    def side(self) -> str:
        return "prefix"


@scorer("suffix_exact_match")
class SuffixExactMatchScorer(StrippedScorer):
    """The stripped text ends with a stripped gold, by characters. Range {0, 1}."""

    @property
    def side(self) -> str:
        return "suffix"


@scorer("quasi_exact_match_triviaqa")
class QuasiExactMatchTriviaqaScorer(FormScorer):
    """Equal after stripping and the normaliser `triviaqa`, on both sides. Range {0, 1}."""

    rule: ClassVar[str] = "triviaqa"

    def form(self, text: str) -> Form:
        return Form(normalizers.triviaqa(text.strip()))


@scorer("quasi_exact_match_math")
class QuasiExactMatchMathScorer(FormScorer):
    """Equal after stripping and the normaliser `math`, on both sides. Range {0, 1}."""

    rule: ClassVar[str] = "math"

    def form(self, text: str) -> Form:
        return Form(normalizers.math(text.strip()))


@scorer("quasi_exact_match_gsm8k")
class QuasiExactMatchGsm8kScorer(FormScorer):
    """The number after `#### ` equals a gold's, as text.

    Range {0, 1}; a text without one is 0 and unparsed.
    """

    rule: ClassVar[str] = "gsm8k"

    def form(self, text: str) -> Form:
        found = normalizers.gsm8k(text.strip())
        return Form(found, is_read=found != normalizers.INVALID)


@scorer("exact_match_indicator")
class ExactMatchIndicatorScorer(FormScorer):
    """What follows the last `indicator`, stripped, equals that of a gold; the whole where it is
    absent. Range {0, 1}.
    """

    rule: ClassVar[str] = "indicator"
    indicator: str = " "

    def __post_init__(self) -> None:
        if not isinstance(self.indicator, str) or not self.indicator:
            raise Fault(
                "exact_match_indicator: indicator must be a text, got "
                f"{visible(repr(self.indicator))}."
            )

    def form(self, text: str) -> Form:
        return Form(text.rpartition(self.indicator)[2].strip())


@scorer("text_match")
class TextMatchScorer(FormScorer):
    """A gold in full, as prefix or as suffix, after `strip` (white space at the ends) and a
    normaliser. Range {0, 1}.

    Attributes:
        how: full, prefix or suffix.
        normalize: a normaliser's name. An answer that the normaliser cannot read is unparsed.
    """

    strip: bool = True
    normalize: str | None = None
    how: str = "full"

    @property
    def side(self) -> str:
        return self.how

    def __post_init__(self) -> None:
        if not isinstance(self.strip, bool):
            raise Fault(
                f"text_match: strip must be true or false, got {visible(repr(self.strip))}."
            )
        if self.how not in ("full", "prefix", "suffix"):
            raise Fault(
                f"text_match: how must be full, prefix or suffix, got {visible(repr(self.how))}."
            )
        if self.normalize is not None:
            normalizers.NORMALIZERS.get(self.normalize, "scorer text_match")

    def form(self, text: str) -> Form:
        body = text.strip() if self.strip else text
        if self.normalize is None:
            return Form(body)
        found = normalizers.normalize(self.normalize, body)
        return Form(
            found,
            text if self.normalize == "helm" else "",
            self.normalize != "gsm8k" or found != normalizers.INVALID,
        )


def set_text_match(metric: Any) -> None:
    """A metric whose own `strip` or `normalize` is set is judged by text_match with them.

    Fault for bad values, and where `scorer` names another one: it brings its own reading of a text.
    """
    strip, normalize = getattr(metric, "strip", None), getattr(metric, "normalize", None)
    if strip is None and normalize is None:
        return
    if normalize is not None and not isinstance(normalize, str):
        raise Fault(
            f"Metric {metric.name!r}: normalize must be a name, got {visible(repr(normalize))}."
        )
    spec = TextMatchScorer(strip=True if strip is None else strip, normalize=normalize).spec
    if metric.scorer not in (None, spec):
        raise Fault(
            f"Metric {metric.name!r}: strip and normalize make the scorer {spec}; they cannot be "
            f"given with scorer={visible(str(metric.scorer))}. Leave one of the two out."
        )
    object.__setattr__(metric, "scorer", spec)


@scorer("letter")
class LetterScorer(Scorer):
    """The option letter that the text states is that of a gold.

    Range {0, 1}; no letter: 0 and unparsed.

    A gold is an index into the choices, a letter, or the text of a choice. There are as many
    letters as choices; without choices all 26. Rules: evalrun.text.letters.extract_letter.
    """

    def check_doc(self, doc: Doc) -> str | None:
        reason = Scorer.check_doc(self, doc)
        if reason or all(_gold_letter(doc, gold) for gold in doc.gold):
            return reason
        return (
            f"letter.v1: a gold of document {doc.id!r} is neither an option letter nor one of its "
            "choices"
        )

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """1.0 or 0.0. ValueError where no gold is a letter, naming the document."""
        golds = {_gold_letter(doc, gold) for gold in doc.gold} - {None}
        if not golds:
            raise ValueError(self.check_doc(doc))
        found = extract_letter(text, _n_letters(doc))
        if found is None:
            return Verdict(0.0, state=State.UNPARSED)
        return Verdict(float(found.text in golds), found.text, found.span, found.rule)


def _n_letters(doc: Doc) -> int:
    return min(len(doc.choices), MAX_LETTERS) or MAX_LETTERS


def _gold_letter(doc: Doc, gold: str | int) -> str | None:
    if isinstance(gold, str):
        if gold in doc.choices:
            gold = doc.choices.index(gold)
        else:
            body = gold.strip().strip("().").upper()
            gold = ord(body) - ord("A") if len(body) == 1 else -1
    return chr(ord("A") + gold) if 0 <= gold < _n_letters(doc) else None
