"""Mathematical equality: scorer `math`, metric `expr_gold_metric`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from evalrun.errors import Fault, visible
from evalrun.metrics.base import METRICS, SCORERS, Scorer
from evalrun.metrics.counts import check_count
from evalrun.metrics.math import symbolic
from evalrun.metrics.math.compare import equal, equal_plainly
from evalrun.metrics.math.notations import is_same_word
from evalrun.metrics.math.stated import read_answer, whole
from evalrun.metrics.text.exact import MeanOfVerdicts
from evalrun.text.extract import Extraction, extract_number
from evalrun.text.formulas import boxed_answers, quantity, squeezed, stated_gold
from evalrun.types import Doc, State, Verdict

MAX_PRECISION = 15


@SCORERS.named("math", aliases=("expr_gold",))
@dataclass(frozen=True, slots=True)
class MathScorer(Scorer):
    r"""The formula or number in the answer is the same mathematical object as a gold. Range {0, 1}.

    The answer is what the last \boxed{} holds, else the whole text where it is one formula, else
    the formula or number after "final answer is", after "answer", else the last one. Commas,
    currency signs, units and percent signs are dressing (50 = 50% = 0.5). Decimals are equal to
    `precision` places and one part in 10,000 (1/3 = 0.333333, not 0.33); other values exactly.
    Lists of roots are sets; x = 1, y = 2 is the pair (1, 2). A gold that is prose ("Friday") never
    matches, \text{odd} is odd. A text without a formula is 0 and unparsed. A comparison that takes
    longer than deadline_s is not scored (state timeout). Of a gold that is a whole solution, the
    last box counts, else what follows the last ####. Where it differs from math-verify:
    docs/metrics.md.

    Attributes:
        precision: decimals to which written decimals are compared, 1 to 15, default 5.
        deadline_s: seconds that one comparison may take, default 5.
    """

    name: ClassVar[str] = "math"
    version: ClassVar[int] = 2
    is_slow: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("math_verify", "latex2sympy2_extended")
    precision: int = 5
    deadline_s: float = 5.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "precision", _in_range("precision", int, self.precision, 1, MAX_PRECISION)
        )
        object.__setattr__(
            self, "deadline_s", _in_range("deadline_s", float, self.deadline_s, 0.01, 86400)
        )

    def warm_up(self) -> None:
        symbolic.load()

    def judge_quick(self, doc: Doc, text: str) -> Verdict | None:
        """Equal texts and plain numbers need no algebra, no worker and no library."""
        if not text.strip():
            return Verdict(0.0, state=State.UNPARSED)
        golds = [stated_gold(gold) for gold in doc.gold_texts]
        found = boxed_answers(text) or (whole(text),)
        is_boxed = found[0].rule == "boxed"
        if len(found) > 1 or not (
            is_boxed or quantity(text) or squeezed(text) in map(squeezed, golds)
        ):
            return None
        answers = [equal_plainly(gold, found[0].text, self.precision) for gold in golds]
        if any(answers):
            return _verdict(True, found)
        return None if None in answers else _verdict(False, found)

    def judge_text(self, doc: Doc, text: str) -> Verdict:
        """Without a deadline of its own: whoever calls it for foreign texts sets one."""
        quick = self.judge_quick(doc, text)
        if quick is not None:
            return quick
        symbolic.load()
        golds = [stated_gold(gold) for gold in doc.gold_texts]
        read = read_answer(text)
        if read is None:
            return _judge_words(golds, text)
        found, known = read
        answer = ", ".join(each.text for each in found)
        return _verdict(any(equal(gold, answer, self.precision, known) for gold in golds), found)


def _judge_words(golds: list[str], text: str) -> Verdict:
    r"""Of a text without a formula: right where it is the word of a gold (\text{odd} is odd)."""
    if any(is_same_word(gold, text) for gold in golds):
        return _verdict(True, (whole(text),))
    return Verdict(0.0, state=State.UNPARSED)


def _verdict(is_right: bool, found: tuple[Extraction, ...]) -> Verdict:
    texts = [_canonical(each.text) for each in found]
    return Verdict(
        float(is_right), ",".join(texts), (found[0].span[0], found[-1].span[1]), found[0].rule
    )


def _canonical(text: str) -> str:
    """One spelling per plain number (18.90 and 18.9 vote together), else the text without white
    space.
    """
    number = extract_number(text) if quantity(text) is not None else None
    return squeezed(text) if number is None else number.text


def _in_range(name: str, kind: type, value: Any, low: float, high: float) -> Any:
    """The parameter as a number; texts are read, since a scorer may be named as
    math(precision=6).
    """
    try:
        read = kind(value)
    except (TypeError, ValueError):
        read = None
    if read is None or isinstance(value, bool) or not low <= read <= high or read != float(value):
        raise Fault(
            f"Scorer 'math': {name} must lie in {low:g} to {high:g}, got {visible(repr(value))}."
        )
    return read


@METRICS.named("expr_gold_metric", aliases=("expr_gold",))
@dataclass(frozen=True, slots=True)
class ExprGold(MeanOfVerdicts):
    """Share of samples whose formula or number equals a gold's, by the rules of scorer `math`.

    Range [0, 1].

    Attributes:
        precision: decimals to which written decimals are compared.
    """

    name: ClassVar[str] = "expr_gold_metric"
    display: ClassVar[str] = "expr_gold_metric"
    aliases: ClassVar[tuple[str, ...]] = ("expr_gold",)
    source: ClassVar[str] = (
        "math-verify 0.9.0, with an exact guard; the name and the 5 decimals are LightEval's"
    )
    n: int | None = None
    precision: int = 5
    scorer: str | None = field(default="math", init=False)

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        check_count(self, "precision", self.precision)
        if self.precision != 5:
            object.__setattr__(self, "scorer", MathScorer(precision=self.precision).signature)
