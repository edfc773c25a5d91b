"""Summaries: the four ROUGE scores in one pass, ROUGE as BIG-bench has it, and how much of a
text is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evalrun.errors import Fault, visible
from evalrun.metrics.answers import texts_of, without_gold
from evalrun.metrics.base import Column, Matrix, Metric, Output, Statistic
from evalrun.metrics.counts import check_count
from evalrun.metrics.generation.rouge import KINDS, LIN, check_options, cutter, has_tokens, rouge
from evalrun.metrics.register import metric
from evalrun.text.normalizers import bigbench, remove_braces, remove_braces_and_strip
from evalrun.text.overlap import copied_fragments
from evalrun.text.tokenize import spacy_tokens
from evalrun.types import Answer, Doc, Verdict


def column(name: str, matrix: Matrix) -> NDArray[np.float64]:
    """One column as the value of each document."""
    return np.asarray(matrix[name], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RougeGroup(Metric):
    """rouge1, rouge2, rougeL and rougeLsum of a document in one pass: best gold for each, mean over
    samples.

    Statistics besides the four: n_no_token, the samples without a token on one side.
    """

    has_scorer: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("rapidfuzz", "nltk")
    scale: ClassVar[float] = 1.0
    unit: ClassVar[str] = "fraction"
    n: int | None = None
    stemmer: str | None = None
    tokenizer: str = "rouge"

    def __post_init__(self) -> None:
        check_count(self, "n", self.n)
        check_options(self)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*(Column(kind, "float") for kind in KINDS), Column("n_no_token", "int"))

    def outputs(self) -> tuple[Output, ...]:
        is_bounded = self.scale == 1
        return tuple(
            Output(
                kind,
                (kind,),
                partial(column, kind),
                (("output", kind),),
                unit=self.unit,
                is_bounded=is_bounded,
            )
            for kind in KINDS
        )

    def check_doc(self, doc: Doc) -> str | None:
        return without_gold(doc)

    def notes(self, matrix: Matrix) -> tuple[str, ...]:
        n_hit = int(np.count_nonzero(matrix["n_no_token"]))
        if not n_hit:
            return ()
        return (
            f"{n_hit} of {len(matrix['n_no_token'])} documents score 0 because one side has no "
            f"token for tokenizer={self.tokenizer}; for other scripts than a-z take tokenizer=char",
        )

    def prepared(self, text: str) -> str:
        """The text that is compared."""
        return text

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        kinds = tuple(KINDS)
        cut = cutter(self.stemmer, self.tokenizer, kinds)
        golds = [cut(self.prepared(gold)) for gold in doc.gold_texts]
        preds = [cut(self.prepared(text)) for text in texts_of(doc, answer, self.n)]
        values = [rouge(kinds, golds, pred) for pred in preds]
        means = [self.scale * sum(each) / len(each) for each in zip(*values, strict=True)]
        return (*means, sum(not has_tokens(golds, pred) for pred in preds))


@metric("rouge", source=LIN)
class Rouge(RougeGroup):
    """rouge1, rouge2, rougeL and rougeLsum in one pass: F-measures against the best gold, mean over
    samples.

    Range [0, 1].

    Attributes:
        stemmer: porter or none.
        tokenizer: rouge (runs of a-z and 0-9) or char (every character).
    """


@metric(
    "rouge_t5",
    source="BIG-bench and T5 (Raffel et al. 2020, arXiv 1910.10683), with rouge-score 0.1.2",
)
class RougeT5(RougeGroup):
    """The four scores of `rouge` times 100, of texts in which a full stop between blanks ends its
    line.

    Range [0, 100], in percent. Every gold is read; the best counts.
    """

    scale: ClassVar[float] = 100.0
    unit: ClassVar[str] = "percent"

    def prepared(self, text: str) -> str:
        return bigbench(text)


EXTRACTIVENESS = ("summarization_coverage", "summarization_density", "summarization_compression")


def extractiveness(text: Sequence[str], summary: Sequence[str]) -> tuple[float, float, float]:
    """(coverage, density, compression) of the tokens of a summary, in lower case.

    With copied fragments f: sum |f| / |summary| in [0, 1], sum |f|^2 / |summary| and |text| /
    |summary|, both from 0. All are 0 for an empty summary. Source: Grusky et al. 2018 (Newsroom,
    arXiv 1804.11283), section 4.
    """
    if not summary:
        return (0.0, 0.0, 0.0)
    lengths = copied_fragments(
        [token.lower() for token in text], [token.lower() for token in summary]
    )
    squares = sum(length * length for length in lengths)
    return (sum(lengths) / len(summary), squares / len(summary), len(text) / len(summary))


@metric(
    "extractiveness",
    aliases=EXTRACTIVENESS,
    source="Grusky et al. 2018 (Newsroom, arXiv 1804.11283), section 4",
    packages=("spacy",),
)
class Extractiveness(Metric):
    """How much of the first answer is copied from the document's text: coverage, density,
    compression.

    Range of summarization_coverage [0, 1]; of summarization_density and summarization_compression
    from 0 up. The text is the document's extra field `specific`, without one pair of braces; tokens
    are spaCy's of `language`.
    """

    has_scorer: ClassVar[bool] = False
    language: str = "en"

    def __post_init__(self) -> None:
        if not isinstance(self.language, str) or not self.language.isalpha():
            raise Fault(
                "extractiveness: language must be a code such as en or fr, got "
                f"{visible(repr(self.language))}."
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "float") for name in EXTRACTIVENESS)

    def outputs(self) -> tuple[Output, ...]:
        units = ("fraction", "count", "count")
        return tuple(
            Output(
                name,
                (name,),
                partial(column, name),
                (("output", name),),
                unit,
                is_bounded=unit == "fraction",
            )
            for name, unit in zip(EXTRACTIVENESS, units, strict=True)
        )

    def check_doc(self, doc: Doc) -> str | None:
        if isinstance(dict(doc.extra).get("specific"), str):
            return None
        return (
            f"document {doc.id!r} has no text in its field `specific`, from which a summary could "
            "be copied"
        )

    def score(self, doc: Doc, answer: Answer, verdicts: Sequence[Verdict]) -> tuple[Statistic, ...]:
        if reason := self.check_doc(doc):
            raise ValueError(reason)
        text = spacy_tokens(remove_braces(dict(doc.extra)["specific"]), self.language)
        summary = spacy_tokens(remove_braces_and_strip(texts_of(doc, answer)[0]), self.language)
        return extractiveness(text, summary)
