"""Documents as mappings, scored without a run -> Doc and Answer.

Keys of a document:
    golds, preds                                  texts; one text stands for a list of one choices,
    gold_index, logprobs                 nats, one per choice; choices may be left out where no text
    is needed
      + unconditioned_logprobs                    the same without the context + output_tokens,
      choice_token_ids           token ids of each choice (a negative id is padding) +
      argmax_logits_eq_gold                     whether each choice is the greedy continuation
    text, logprobs                                a whole text and the log-probabilities of its
    tokens text, preds                                   a source text and its summaries gold_spans,
    pred                              the right sets of spans, one per annotator, and the answer
    (DROP) n, c                                          n samples, c of them correct id, cluster,
    subset, query                    optional; any other key becomes an extra field of the document
A number may be written as the text "NaN", "Infinity" or "-Infinity", as strict JSON needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalrun.errors import Fault, nearest, visible
from evalrun.strict_json import frozen
from evalrun.types import Answer, Choices, Doc, Kind, Roll, Samples, Verdict

_NAMED = ("id", "cluster", "subset", "query")
_READ = (
    *(
        "golds",
        "preds",
        "pred",
        "choices",
        "gold_index",
        "logprobs",
        "unconditioned_logprobs",
        "output_tokens",
    ),
    *("choice_token_ids", "argmax_logits_eq_gold", "text", "n", "c"),
)
KEYS = (*_NAMED, *_READ, "gold_spans", "len_mc1", "n_choices")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_RIGHT, _WRONG = Verdict(1.0, rule="count"), Verdict(0.0, rule="count")


@dataclass(frozen=True, slots=True)
class Given:
    """One document with its answers.

    Attributes:
        verdicts: where it gives counts in place of texts.
    """

    doc: Doc
    samples: Samples | None
    choices: Choices | None
    roll: Roll | None
    verdicts: tuple[Verdict, ...] | None

    def answer(self, kind: Kind) -> Answer | None:
        """What answers a request of this kind, or None."""
        match kind:
            case Kind.GENERATE:
                return self.samples
            case Kind.LOGLIKELIHOOD | Kind.UNCONDITIONED:  # one answer holds both
                return self.choices
            case Kind.ROLLING:
                return self.roll


def read(
    given: Mapping[str, Any], place: int, where: str, shared: Mapping[str, Any] | None = None
) -> Given:
    """The document behind a mapping.

    Args:
        shared: keys that hold for all documents (n_choices).
        place: from 0; the id where none is given.
        where: named in errors.

    Fault for a value of the wrong form.
    """
    if not isinstance(given, Mapping):
        raise Fault(
            f"{where}: a document is a mapping such as {{'golds': ..., 'preds': ...}}; got "
            f"{_shown(given)}."
        )
    at = _Values({**(shared or {}), **given}, where)
    counts = at.counts()
    if isinstance(at.given.get("pred"), list | tuple):
        raise Fault(
            f"{where}: `pred` is one answer, a text; got {_shown(at.given['pred'])}. Several "
            "answers go into `preds`; spans of one answer are written as one text."
        )
    texts = at.texts("preds") or at.texts("pred")
    samples = Samples(texts, (False,) * len(texts)) if texts else None
    if counts is not None:
        samples = Samples((None,) * counts[0], (False,) * counts[0])
    return Given(
        _doc(at, place),
        samples,
        at.choices(),
        at.roll(),
        None if counts is None else _verdicts(*counts),
    )


def missing(kind: Kind, given: Mapping[str, Any], where: str) -> Fault:
    """A Fault for a document that lacks what a metric of this kind reads."""
    needed = {
        Kind.GENERATE: "preds (or counts n and c)",
        Kind.LOGLIKELIHOOD: "logprobs, one per choice",
        Kind.ROLLING: "text and logprobs",
    }[kind]
    names = [str(key) for key in given]
    hints = [
        f"{n!r} (did you mean {h!r}?)" for n in names if n not in KEYS and (h := nearest(n, KEYS))
    ]
    return Fault(
        f"{where}: the metric reads {needed}; the document has "
        f"{', '.join(hints or map(repr, names))}."
    )


def _doc(at: _Values, place: int) -> Doc:
    extra = {str(k): v for k, v in at.given.items() if k not in (*_NAMED, *_READ)}
    if isinstance(source := at.given.get("text"), str):
        extra.setdefault("specific", source)
    gold = at.indices("gold_index") if "gold_index" in at.given else at.texts("golds")
    spans = extra.get("gold_spans")
    if isinstance(spans, Sequence) and not gold:
        # shown in messages; the metric reads gold_spans
        gold = tuple(" ".join(map(str, each)) for each in spans)
    return Doc(
        id=str(at.given.get("id", place)),
        task="score",
        row=place,
        query=str(at.given.get("query", "")),
        gold=gold,
        choices=at.texts("choices"),
        subset=at.name("subset"),
        cluster=at.name("cluster"),
        extra=tuple((k, frozen(v)) for k, v in extra.items()),
    )


def _verdicts(n: int, c: int) -> tuple[Verdict, ...]:
    return (_RIGHT,) * c + (_WRONG,) * (n - c)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of one document by key, checked."""

    given: Mapping[str, Any]
    where: str

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.given.get(key)
        if value is None:
            return ()
        values = (
            (value,)
            if isinstance(value, str)
            else self._list(key, value, "a text or a list of texts")
        )
        for each in values:
            if not isinstance(each, str):
                raise self._wrong(key, each, "texts")
        return tuple(values)

    def indices(self, key: str) -> tuple[int, ...]:
        value = self.given[key]
        values = (
            self._list(key, value, "an index or a list of them")
            if isinstance(value, Sequence)
            else (value,)
        )
        return tuple(self._whole(key, each) for each in values)

    def floats(self, key: str) -> tuple[float, ...] | None:
        value = self.given.get(key)
        if value is None:
            return None
        found = tuple(self._number(key, e) for e in self._list(key, value, "a list"))
        above = [number for number in found if number > 1e-6]
        if above:
            raise Fault(
                f"{self.where}: {key} are natural logarithms of probabilities, at most 0; got "
                f"{above[0]:g}."
            )
        return found

    def name(self, key: str) -> str | None:
        value = self.given.get(key)
        return None if value is None else str(value)

    def counts(self) -> tuple[int, int] | None:
        if {"preds", "pred"} & set(self.given) or not {"n", "c"} & set(self.given):
            return None
        if not {"n", "c"} <= set(self.given):
            raise Fault(f"{self.where}: counts need both n (samples) and c (correct ones).")
        n, c = (self._whole(key, self.given[key]) for key in ("n", "c"))
        if not (n >= 1 and 0 <= c <= n):
            raise Fault(f"{self.where}: counts need n >= 1 and 0 <= c <= n; got n={n}, c={c}.")
        return n, c

    def choices(self) -> Choices | None:
        if "text" in self.given:
            return None
        logprobs = self.floats("logprobs")
        flags = self.given.get("argmax_logits_eq_gold")
        tokens = self.given.get("output_tokens", self.given.get("choice_token_ids"))
        if logprobs is None and flags is None and tokens is None:
            return None
        return Choices(
            logprobs=logprobs or (),
            unconditioned=self.floats("unconditioned_logprobs"),
            n_tokens=None if tokens is None else self._token_counts(tokens),
            is_greedy=None
            if flags is None
            else tuple(map(bool, self._list("argmax_logits_eq_gold", flags, "flags"))),
        )

    def roll(self) -> Roll | None:
        text, logprobs = self.given.get("text"), self.floats("logprobs")
        if not isinstance(text, str) or logprobs is None:
            return None
        return Roll(
            text,
            math.fsum(logprobs) if all(map(math.isfinite, logprobs)) else sum(logprobs),
            len(logprobs),
        )

    def _token_counts(self, tokens: Any) -> tuple[int, ...]:
        rows = self._list("output_tokens", tokens, "one list of token ids per choice")
        ids = [self._list("output_tokens", row, "one list of token ids per choice") for row in rows]
        return tuple(sum(self._whole("output_tokens", i) >= 0 for i in row) for row in ids)

    def _list(self, key: str, value: Any, form: str) -> Sequence[Any]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self._wrong(key, value, form)
        return value

    def _number(self, key: str, value: Any) -> float:
        if isinstance(value, str) and str(value) in _NOT_FINITE:
            return _NOT_FINITE[str(value)]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "numbers")
        return float(value)

    def _whole(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "whole numbers")
        return int(value)

    def _wrong(self, key: str, value: Any, form: str) -> Fault:
        return Fault(f"{self.where}: {key} must hold {form}; got {_shown(value)}.")


def _shown(value: Any) -> str:
    return visible(repr(value)[:80])
