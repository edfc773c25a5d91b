"""Samples -> verdicts. Equal (text, gold, scorer) triples are judged once."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from evalrun import workers
from evalrun.metrics.base import Scorer
from evalrun.types import Doc, Samples, State, Verdict

FAILED = Verdict(0.0, state=State.FAILED)
NO_ANSWER = Verdict(0.0, state=State.UNPARSED, rule="no_answer")


@dataclass(frozen=True)
class Judged:
    """The verdicts of one scorer: per document, in index order.

    Attributes:
        notes: scorer faults, for the log.
    """

    rows: list[tuple[Verdict, ...]]
    notes: tuple[str, ...]

    @property
    def n_unparsed(self) -> int:
        """Samples that were answered but hold no readable answer."""
        return sum(v.state is State.UNPARSED for row in self.rows for v in row)

    @property
    def n_unscored(self) -> int:
        """Samples that the scorer could not judge."""
        return sum(v.value is None for row in self.rows for v in row)

    def by_key(self, docs: Sequence[Doc]) -> dict[tuple[str, int], Verdict]:
        """(doc_id, index) -> verdict, as they are stored."""
        return {
            (d.id, i): v for d, row in zip(docs, self.rows, strict=True) for i, v in enumerate(row)
        }


def judge(scorer: Scorer, docs: Sequence[Doc], samples: Sequence[Samples]) -> Judged:
    """The verdicts of all samples.

    A failed request is wrong (state failed); a sample without an answer is wrong (state unparsed).
    A scorer that raises leaves that sample unscored (state error) and the others go on.
    """
    distinct: dict[Hashable, tuple[Doc, str]] = {}
    for doc, answer in zip(docs, samples, strict=True):
        for text, failed in zip(answer.texts, answer.failed, strict=True):
            if text is not None and not failed:
                distinct.setdefault(_identity(doc, text), (doc, text))
    found = dict(zip(distinct, _judge_all(scorer, list(distinct.values())), strict=True))
    rows = [
        tuple(
            FAILED if failed else NO_ANSWER if text is None else found[_identity(doc, text)]
            for text, failed in zip(answer.texts, answer.failed, strict=True)
        )
        for doc, answer in zip(docs, samples, strict=True)
    ]
    notes = tuple(
        f"document {doc.id}: {found[key].note}"
        for key, (doc, _) in distinct.items()
        if found[key].value is None
    )
    return Judged(rows, notes)


def _identity(doc: Doc, text: str) -> Hashable:
    return (text, doc.gold, doc.choices)


def _judge_all(scorer: Scorer, items: list[tuple[Doc, str]]) -> list[Verdict]:
    if scorer.is_slow:
        return _judge_slow(scorer, items)
    try:
        return scorer.judge_batch(items)
    except Exception:  # noqa: BLE001
        # One text makes it fail; find out which.
        return [_judge_one(scorer, doc, text) for doc, text in items]


def _judge_one(scorer: Scorer, doc: Doc, text: str) -> Verdict:
    try:
        return scorer.judge_text(doc, text)
    except Exception as error:  # noqa: BLE001
        return Verdict(
            None,
            state=State.ERROR,
            note=f"{scorer.name} raised {type(error).__name__}: {error}"[:500],
        )


def _judge_slow(scorer: Scorer, items: list[tuple[Doc, str]]) -> list[Verdict]:
    """What is not found at once is judged in worker processes, each text under the scorer's
    deadline.
    """
    verdicts = {
        place: verdict
        for place, item in enumerate(items)
        if (verdict := _judge_quick(scorer, *item))
    }
    left = [place for place in range(len(items)) if place not in verdicts]
    try:
        found = workers.run(
            scorer.judge_text, [items[at] for at in left], scorer.deadline_s, scorer.warm_up
        )
    except (
        pickle.PicklingError,
        AttributeError,
        TypeError,
    ) as error:  # it cannot be sent to a worker
        found = [
            workers.Outcome(workers.Ending.RAISED, note=f"{type(error).__name__}: {error}")
        ] * len(left)
    for place, outcome in zip(left, found, strict=True):
        verdicts[place] = _from_outcome(scorer, outcome)
    return [verdicts[place] for place in range(len(items))]


def _judge_quick(scorer: Scorer, doc: Doc, text: str) -> Verdict | None:
    try:
        return scorer.judge_quick(doc, text)
    except Exception:  # noqa: BLE001
        # The full judgement decides what is wrong with it.
        return None


def _from_outcome(scorer: Scorer, outcome: workers.Outcome) -> Verdict:
    match outcome.ending:
        case workers.Ending.DONE if isinstance(outcome.value, Verdict):
            return outcome.value
        case workers.Ending.TIMEOUT:
            return Verdict(None, state=State.TIMEOUT, note=f"{scorer.name}: {outcome.note}")
        case workers.Ending.RAISED:
            return Verdict(
                None, state=State.ERROR, note=f"{scorer.name} raised {outcome.note}"[:500]
            )
        case _:
            return Verdict(
                None,
                state=State.ERROR,
                note=f"{scorer.name}: {outcome.note or 'gave no verdict'}"[:500],
            )
