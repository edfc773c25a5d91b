"""ROUGE and extractiveness: rows with known values, the tie rule of rougeLsum, parameters and
refusals.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.overlap_rows import check, document, numbers, of, statistics

from evalrun.errors import Fault
from evalrun.metrics import SCORERS, make_metric, make_scorer, scorer_named
from evalrun.metrics.generation.summaries import EXTRACTIVENESS, extractiveness
from evalrun.text import overlap, tokenize
from evalrun.types import Doc, Samples, State

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@pytest.mark.parametrize("row", of("rouge", *KINDS, "rouge_t5"))
def test_rouge_rows(row: dict[str, Any]) -> None:
    check(row)


@pytest.mark.parametrize("row", of("extractiveness"))
def test_extractiveness_rows(row: dict[str, Any]) -> None:
    pytest.importorskip("spacy")
    check(row)


@pytest.mark.parametrize("row", of("extractiveness_tokens"))
def test_extractiveness_of_tokens(row: dict[str, Any]) -> None:
    found = extractiveness(row["inputs"]["text_tokens"], row["inputs"]["summary_tokens"])
    assert dict(zip(EXTRACTIVENESS, found, strict=True)) == pytest.approx(row["expected"], abs=1e-9)


def table_walk(gold: list[str], pred: list[str]) -> set[int]:
    """Places of `gold` that rouge-score's walk takes, from the whole table of lengths."""
    lengths = [[0] * (len(pred) + 1) for _ in range(len(gold) + 1)]
    for i, left in enumerate(gold):
        for j, right in enumerate(pred):
            up, back = lengths[i][j + 1], lengths[i + 1][j]
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if left == right else max(up, back)
    i, j, found = len(gold), len(pred), set()
    while i and j:
        if gold[i - 1] == pred[j - 1]:
            i, j = i - 1, j - 1
            found.add(i)
        elif lengths[i][j - 1] > lengths[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found


def table_hits(gold: list[list[str]], pred: list[list[str]]) -> int:
    left = [token for sentence in pred for token in sentence]
    hits = 0
    for sentence in gold:
        for place in set().union(*(table_walk(sentence, other) for other in pred)):
            if sentence[place] in left:
                left.remove(sentence[place])
                hits += 1
    return hits


@pytest.mark.parametrize("n_words", [2, 3, 6, 25])
def test_union_of_subsequences_is_that_of_the_whole_table(n_words: int) -> None:
    draw = random.Random(n_words)

    def text() -> list[list[str]]:
        return [
            [str(draw.randrange(n_words)) for _ in range(draw.randrange(15))]
            for _ in range(draw.randint(1, 5))
        ]

    for _ in range(150):
        gold, pred = text(), text()
        assert overlap.union_lcs_hits(gold, pred) == table_hits(gold, pred)


@pytest.mark.parametrize(
    ("gold", "pred", "wanted"),
    [
        ("The cat.\nThe dog.", "The dog.\nThe cat.", (1.0, 2 / 3, 0.5, 1.0)),
        ("a b\n\nc d", "c d\na b", (1.0, 2 / 3, 0.5, 1.0)),
        ("a b c d", "a b c d", (1.0, 1.0, 1.0, 1.0)),
        ("a\nb", "a", (2 / 3, 0.0, 2 / 3, 2 / 3)),
    ],
)
def test_lines_matter_to_rougelsum_only(gold: str, pred: str, wanted: tuple[float, ...]) -> None:
    found = numbers(make_metric("rouge"), [{"golds": [gold], "preds": [pred]}])
    assert found == pytest.approx(dict(zip(KINDS, wanted, strict=True)))


def test_one_pass_equals_the_four() -> None:
    draw = random.Random(5)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "ran", "off"]

    def text() -> str:
        return "".join(draw.choice(words) + draw.choice("  \n") for _ in range(draw.randint(1, 30)))

    samples = [{"golds": [text(), text()], "preds": [text(), text()]} for _ in range(60)]
    together = numbers(make_metric("rouge"), samples)
    assert together == {
        kind: pytest.approx(numbers(make_metric(kind), samples)[kind], abs=1e-12) for kind in KINDS
    }


@pytest.mark.parametrize("text", ["今天天气很好", "नमस्ते दुनिया", "Привет мир"])
def test_text_without_a_to_z_needs_the_char_tokenizer_and_is_said(text: str) -> None:
    doc = document({"golds": [text]})
    verdict = scorer_named("rouge1").judge_text(doc, text)
    assert (verdict.value, verdict.state, verdict.rule) == (0.0, State.UNPARSED, "no_token")
    assert scorer_named("rouge1(tokenizer=char)").judge_text(doc, text).value == 1.0
    metric = make_metric("rouge")
    noted = metric.notes(
        statistics(metric, [{"golds": [text], "preds": [text]}, {"golds": ["a"], "preds": ["a"]}])
    )
    assert [line.startswith("1 of 2 documents") and "tokenizer=char" in line for line in noted] == [
        True
    ]
    assert metric.notes(statistics(metric, [{"golds": ["a"], "preds": ["b"]}])) == ()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't STOP-me 2x", ["don", "t", "stop", "me", "2x"]),
        ("Straße İx KELVIN \u212a", ["stra", "e", "i", "x", "kelvin", "k"]),
        ("a_b\t\nc", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_rouge_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize.rouge_tokens(text) == tokens


def test_metric_hands_its_parameters_to_its_scorer() -> None:
    metric: Any = make_metric("rouge1", {"stemmer": "porter", "tokenizer": "char"})
    scorer: Any = make_scorer(metric.scorer, "number")
    assert (scorer.name, scorer.stemmer, scorer.tokenizer) == ("rouge1", "porter", "char")
    assert make_metric("rouge1").scorer == "rouge1.v1"
    assert make_metric("rouge1", {"stemmer": True}) == make_metric("rouge1", {"stemmer": "porter"})
    plain: Any = make_metric("rouge", {"stemmer": False})
    assert plain.stemmer is None


@pytest.mark.parametrize(
    ("key", "params", "said"),
    [
        ("rouge1", {"stemmer": "snowball"}, "stemmer must be porter or none"),
        ("rouge", {"tokenizer": "chars"}, "char"),
        ("rougeL", {"n": 0}, "positive whole number"),
        ("extractiveness", {"language": "../en"}, "must be a code"),
    ],
)
def test_wrong_parameters_are_refused(key: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(Fault, match=said):
        make_metric(key, params)


@pytest.mark.parametrize("key", ["rouge", "rouge_t5"])
def test_documents_without_gold_or_answers_are_refused(key: str) -> None:
    metric = make_metric(key)
    bare = Doc("d7", "t", 0, "?", ())
    assert "d7" in (metric.check_doc(bare) or "")
    for doc, answer in (
        (bare, Samples(("a",), (False,))),
        (document({"golds": ["a"]}), Samples((), ())),
    ):
        with pytest.raises(ValueError, match="document 'd"):
            metric.score(doc, answer, ())


@pytest.mark.parametrize("kind", KINDS)
def test_scorer_refuses_a_document_without_gold(kind: str) -> None:
    with pytest.raises(ValueError, match="no gold"):
        SCORERS.get(kind)().judge_text(Doc("d", "t", 0, "?", ()), "a")


def test_no_answer_scores_zero() -> None:
    row = make_metric("rouge").score(
        document({"golds": ["a b"]}), Samples((None, "a b"), (True, False)), ()
    )
    assert row == (0.5, 0.5, 0.5, 0.5, 1)


def test_extractiveness_wants_the_text() -> None:
    metric = make_metric("summarization_density")
    assert (metric.name, metric.packages) == ("extractiveness", ("spacy",))
    assert "specific" in (metric.check_doc(document({"golds": ["a"]})) or "")


def test_copied_fragments_of_long_texts_is_quick() -> None:
    text = ["the"] * 2001 + ["end"]
    assert overlap.copied_fragments(text, ["the"] * 50 + ["end"]) == [50, 1]
