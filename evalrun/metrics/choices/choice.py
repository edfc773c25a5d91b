"""Metrics over the log-probabilities of choices that are means over documents: accuracy, recall,
reciprocal rank.

Ties, scores that are no number and lengths of 0: see evalrun.metrics.choices.choice_scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.metrics.base import Column, Matrix, Output, Statistic
from evalrun.metrics.choices.choice_scores import (
    ChoiceMetric,
    ChoiceTable,
    check_word,
    choice_notes,
    gold_indices,
)
from evalrun.metrics.counts import check_count
from evalrun.metrics.register import metric
from evalrun.types import Answer, Choices, Doc, Verdict


class MeanOverChoices(ChoiceMetric):
    """One value in [0, 1] per document from its table of scores; the number is the mean over
    documents.

    Statistics besides the value: is_tied (the next choice scores the same), n_broken (scores that
    are no number), n_choices.
    """

    normalization: ClassVar[str | None] = None

    @property
    def columns(self) -> tuple[Column, ...]:
        counts = ("is_tied", "n_broken", "n_choices")
        return (Column("value", "float"), *(Column(name, "int") for name in counts))

    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.display, ("value",), _value, self.told_apart),)

    @property
    def told_apart(self) -> tuple[tuple[str, Any], ...]:
        """Parameters that the output has decided."""
        return ()

    @property
    def divisor(self) -> str | None:
        """The normalisation of the scores: a class fact, or a parameter where a metric has one."""
        return self.normalization

    @property
    def cut(self) -> int:
        """After how many of the best choices a tie matters."""
        return 1

    @abstractmethod
    def measure(self, table: ChoiceTable) -> NDArray[np.float64]:
        """[documents]: the value of each document that has an answer; the others are wrong (0)."""

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        """Documents with ties, with scores that are no number, with too few choices to be wrong."""
        return choice_notes(matrix, self.cut)

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        return self.score_batch([doc], [answer], [verdicts])[0]

    def score_batch(
        self, docs: Sequence[Doc], answers: Sequence[Answer], verdicts: Sequence[Sequence[Verdict]]
    ) -> list[tuple[Statistic, ...]]:
        if not docs:
            return []
        table = self.table(docs, answers, self.divisor)
        values = np.where(table.has_answer, self.measure(table), 0.0).tolist()
        ties = table.is_tied(self.cut).astype(int).tolist()
        return list(
            zip(values, ties, table.n_broken.tolist(), table.n_choices.tolist(), strict=True)
        )


def _value(matrix: Matrix) -> NDArray[np.float64]:
    return np.asarray(matrix["value"], dtype=np.float64)


class BestChoice(MeanOverChoices):
    """1 where the best choice is a gold."""

    def measure(self, table: ChoiceTable) -> NDArray[np.float64]:
        return table.is_gold[np.arange(len(table.best)), table.best].astype(np.float64)


class GoldInBest(MeanOverChoices):
    """1 where a gold is among the `cut` best choices."""

    def measure(self, table: ChoiceTable) -> NDArray[np.float64]:
        found = np.take_along_axis(table.is_gold, table.order()[:, : self.cut], axis=1).any(axis=1)
        return np.asarray(found, dtype=np.float64)


_FIRST = "LightEval 0.13 `loglikelihood_acc`; Brown et al. 2020 (arXiv 2005.14165), section 2.4"
_HARNESS = "lm-evaluation-harness, `acc_norm`: log-probability over the choice's characters"
_SINGLE = "; one forward pass, as LightEval 0.3 to 0.6 for choices of one token"


@metric("loglikelihood_acc", source=_FIRST)
class LoglikelihoodAcc(BestChoice):
    """Share of documents whose most likely choice is a gold. argmax_i L_i, the lower index of
    equals. Range [0, 1].
    """


@metric("loglikelihood_acc_single_token", source=_FIRST + _SINGLE)
class LoglikelihoodAccSingleToken(LoglikelihoodAcc):
    """loglikelihood_acc where every choice is one token; one forward pass scores them all.

    Range [0, 1].
    """

    is_single_token: ClassVar[bool] = True


@metric("loglikelihood_acc_norm", aliases=("acc_norm",), source=_HARNESS)
class LoglikelihoodAccNorm(BestChoice):
    """As loglikelihood_acc with L_i / characters. Range [0, 1].

    Characters are code points of the choice as it is sent, a leading space counted; a Chinese
    character is one.
    """

    normalization: ClassVar[str | None] = "char"


@metric("loglikelihood_acc_norm_single_token", source=_HARNESS + _SINGLE)
class LoglikelihoodAccNormSingleToken(LoglikelihoodAccNorm):
    """loglikelihood_acc_norm where every choice is one token; still divided by characters.

    Range [0, 1].
    """

    is_single_token: ClassVar[bool] = True


@metric(
    "loglikelihood_acc_norm_nospace",
    aliases=("acc_norm_nospace",),
    source=_HARNESS + ", without one leading space (LightEval)",
)
class LoglikelihoodAccNormNospace(BestChoice):
    """As loglikelihood_acc_norm, one leading space of a choice not counted. Range [0, 1]."""

    normalization: ClassVar[str | None] = "char_nospace"


@metric(
    "acc_norm_token",
    source="LightEval, token normalisation; Brown et al. 2020 (arXiv 2005.14165), section 2.4",
)
class AccNormToken(BestChoice):
    """As loglikelihood_acc with L_i / tokens of the choice (padding is no token). Range [0, 1]."""

    normalization: ClassVar[str | None] = "token"


@metric(
    "acc_norm_pmi",
    source="Holtzman et al. 2021 (surface form competition, arXiv 2104.08315), PMI_DC",
)
class AccNormPmi(BestChoice):
    """As loglikelihood_acc with L_i - U_i, U_i the choice's log-probability without the context.

    Range [0, 1].

    A document without the scores U_i is refused.
    """

    normalization: ClassVar[str | None] = "pmi"
    needs_unconditioned: ClassVar[bool] = True


_RECALL = "LightEval 0.13 `recall@k`, ranks by a stable descending sort"


@metric("recall_at_1", aliases=("recall@1",), source=_RECALL)
class RecallAt1(GoldInBest):
    """Share of documents with a gold as the best choice: loglikelihood_acc by another name.

    Range [0, 1].
    """


@metric("recall_at_1_single_token", aliases=("recall@1_single_token",), source=_RECALL + _SINGLE)
class RecallAt1SingleToken(RecallAt1):
    """recall_at_1 where every choice is one token. Range [0, 1]."""

    is_single_token: ClassVar[bool] = True


@metric("recall_at_2", aliases=("recall@2",), source=_RECALL)
class RecallAt2(GoldInBest):
    """Share of documents with a gold among the two best choices. Range [0, 1]."""

    @property
    def cut(self) -> int:
        return 2


@metric("recall_at_2_single_token", aliases=("recall@2_single_token",), source=_RECALL + _SINGLE)
class RecallAt2SingleToken(RecallAt2):
    """recall_at_2 where every choice is one token. Range [0, 1]."""

    is_single_token: ClassVar[bool] = True


@metric("recall_at_k", aliases=("recall@k", "recall"), source=_RECALL)
class RecallAtK(GoldInBest):
    """Share of documents with a gold among the k best choices.

    Never falls with k; 1 from k = choices on. Range [0, 1].

    Attributes:
        k: how many of the ranked choices are looked at; it draws no samples.
    """

    needs_k: ClassVar[bool] = True
    k: int | None = None

    def __post_init__(self) -> None:
        check_count(self, "k", self.k)

    @property
    def cut(self) -> int:
        if self.k is None:
            raise ValueError(f"{self.name}: k is open")
        return self.k

    @property
    def told_apart(self) -> tuple[tuple[str, Any], ...]:
        return () if self.k is None else (("k", self.k),)


_MRR = "Voorhees 1999 (TREC-8 question answering), reciprocal rank of the first right answer"


@metric("mrr", source=_MRR)
class Mrr(MeanOverChoices):
    """1 / (1 + choices strictly better than the best gold), the mean over documents. Range [0, 1].

    Equal scores share the better rank.

    Attributes:
        length_normalization: None, or char (L / characters).
    """

    length_normalization: str | None = None

    def __post_init__(self) -> None:
        check_word(self, "length_normalization", self.length_normalization, (None, "char"))

    @property
    def divisor(self) -> str | None:
        return self.length_normalization

    def measure(self, table: ChoiceTable) -> NDArray[np.float64]:
        best_gold = np.where(table.is_gold, table.scores, -np.inf).max(axis=1)
        values: NDArray[np.float64] = 1.0 / (1 + (table.scores > best_gold[:, None]).sum(axis=1))
        return values


@metric("mrr_single_token", source=_MRR + _SINGLE)
class MrrSingleToken(Mrr):
    """mrr where every choice is one token. Range [0, 1]."""

    is_single_token: ClassVar[bool] = True


@metric(
    "acc_golds_likelihood",
    source="LightEval 0.3 to 0.6, greedy flag of the golds (lm-evaluation-harness, LAMBADA `acc`)",
)
class AccGoldsLikelihood(ChoiceMetric):
    """Share of documents of which a gold is the model's own greedy continuation. Range [0, 1].

    Flags of choices that are no gold do not count. A document without choices and golds: the flags
    are its golds'.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("value", "float"),)

    def outputs(self) -> tuple[Output, ...]:
        return (Output(self.display, ("value",), _value),)

    def check_doc(self, doc: Doc) -> str | None:
        # super() of a class with slots would name the class before it got them
        return ChoiceMetric.check_doc(self, doc) if doc.gold or doc.choices else None

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if not isinstance(answer, Choices) or answer.is_greedy is None:
            raise ValueError(
                f"document {doc.id!r}: whether each choice is the greedy continuation is missing"
            )
        flags = answer.is_greedy
        if doc.choices and len(doc.choices) != len(flags):
            raise ValueError(
                f"document {doc.id!r} has {len(doc.choices)} choices, but {len(flags)} greedy flags"
            )
        if not doc.choices and not doc.gold:
            return (float(any(flags)),)
        return (float(any(flags[place] for place in gold_indices(doc, len(flags)))),)
