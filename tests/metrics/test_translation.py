"""BLEU, chrF, chrF++, TER and sentence BLEU: known values, and sacrebleu's own numbers on random
corpora.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from support.overlap_rows import check, document, numbers, of, statistics

from evalrun.errors import Fault
from evalrun.metrics import make_metric, scorer_named
from evalrun.metrics.generation.translation import bleu_words
from evalrun.text import tokenize
from evalrun.text.character_grams import character_grams, shared_sorted
from evalrun.text.edit_rate import edits
from evalrun.types import Samples

CORPUS = ("bleu", "chrf", "chrf++", "ter")


@pytest.mark.parametrize("row", of(*CORPUS))
def test_corpus_rows(row: dict[str, Any]) -> None:
    check(row)


@pytest.mark.parametrize("row", of("bleu_1", "bleu_4"))
def test_sentence_rows(row: dict[str, Any]) -> None:
    check(row)


def corpus(seed: int, n_docs: int, n_words: int) -> list[dict[str, Any]]:
    """Documents with one to three golds and an answer that repeats parts of one; some sides are
    empty.
    """
    draw = random.Random(seed)
    words = [
        "Straße,",
        "(the)",
        "cat.",
        "was",
        "日本",
        "2.50",
        "don't",
        "&quot;",
        "x",
        "ran",
        "-",
        "so",
        "A",
    ][:n_words]

    def text(most: int) -> str:
        return " ".join(draw.choice(words) for _ in range(draw.randrange(most)))

    docs = []
    for _ in range(n_docs):
        golds = [text(30) for _ in range(draw.randint(1, 3))]
        parts = draw.choice(golds).split()
        cut = draw.randrange(len(parts) + 1)
        pred = (
            " ".join([*parts[cut:], *text(6).split(), *parts[:cut]])
            if draw.random() < 0.8
            else text(30)
        )
        docs.append({"golds": golds, "preds": [pred, "never read"]})
    return docs


def by_sacrebleu(key: str, docs: list[dict[str, Any]], options: dict[str, Any]) -> float:
    from sacrebleu.metrics import BLEU, CHRF, TER

    kinds = {"bleu": BLEU, "chrf": CHRF, "chrf++": CHRF, "ter": TER}
    streams = [list(stream) for stream in zip_longest(*(doc["golds"] for doc in docs))]
    metric = kinds[key](**options, **({"word_order": 2} if key == "chrf++" else {}))
    return float(metric.corpus_score([doc["preds"][0] for doc in docs], streams).score)


OPTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("bleu", {}, {}),
    ("bleu", {"tokenize": "zh"}, {"tokenize": "zh"}),
    ("bleu", {"tokenize": "intl"}, {"tokenize": "intl"}),
    ("chrf", {}, {}),
    ("chrf++", {}, {}),
    ("ter", {}, {}),
    (
        "ter",
        {"normalized": True, "asian_support": True},
        {"normalized": True, "asian_support": True},
    ),
    ("ter", {"no_punct": True, "case_sensitive": True}, {"no_punct": True, "case_sensitive": True}),
]


@pytest.mark.parametrize(("key", "params", "options"), OPTIONS)
@pytest.mark.parametrize(
    ("seed", "n_docs", "n_words"), [(1, 25, 13), (2, 8, 4), (3, 1, 13), (4, 2, 2)]
)
def test_equals_sacrebleu(
    key: str, params: dict[str, Any], options: dict[str, Any], seed: int, n_docs: int, n_words: int
) -> None:
    docs = corpus(seed, n_docs, n_words)
    found = numbers(make_metric(key, params), docs)
    assert list(found.values()) == [
        pytest.approx(by_sacrebleu(key, docs, options), rel=1e-9, abs=1e-9)
    ]


@pytest.mark.parametrize("key", CORPUS)
def test_formula_is_vectorised_over_draws(key: str) -> None:
    metric = make_metric(key)
    output = metric.outputs()[0]
    assert output.of_sums is not None
    table = output.stacked(statistics(metric, corpus(7, 12, 13)))
    draws = np.random.default_rng(0).integers(0, 3, size=(2, 5, len(table)))
    found = output.of_sums(draws @ table)
    assert found.shape == (2, 5)
    assert found[1, 3] == pytest.approx(float(output.of_sums(draws[1, 3] @ table)))


def test_words_cut_chunk_by_chunk_are_those_of_the_whole_text() -> None:
    from sacrebleu.metrics import BLEU

    parts = [
        "cat",
        "3",
        ".",
        ",",
        "-",
        "&quot;",
        "&amp;lt;",
        "<skipped>",
        "(",
        "/",
        "2.5",
        "a.b",
        "é",
        "京。",
        "'",
        "$",
    ]
    whole, draw = BLEU(tokenize="13a").tokenizer, random.Random(3)
    for _ in range(3000):
        chunks = [
            "".join(draw.choices(parts, k=draw.choice([1, 1, 2, 3])))
            for _ in range(draw.randrange(9))
        ]
        text = "".join(
            chunk + draw.choice([" ", " ", "  ", "\n", "\t", "\xa0"]) for chunk in chunks
        )
        assert bleu_words("13a", text) == whole(text.rstrip()).split()


@pytest.mark.parametrize("n_signs", [2, 30, 3000])
def test_character_grams_are_counted_as_texts_are(n_signs: int) -> None:
    draw = random.Random(n_signs)
    for n_first, n_second in [(60, 40), (2500, 3000), (3, 9), (0, 4), (0, 0)]:
        texts = [
            "".join(chr(0x4E00 + draw.randrange(n_signs)) for _ in range(n))
            for n in (n_first, n_second)
        ]
        first, second = character_grams(texts, 6)
        for order in range(1, 7):
            cut = [
                Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in texts
            ]
            assert (len(first[order - 1]), len(second[order - 1])) == (
                cut[0].total(),
                cut[1].total(),
            )
            assert shared_sorted(first[order - 1], second[order - 1]) == (cut[0] & cut[1]).total()


@pytest.mark.parametrize("n_words", [2, 5, 40])
def test_edits_with_shifts_are_those_of_tercom(n_words: int) -> None:
    from sacrebleu.metrics.lib_ter import translation_edit_rate

    draw = random.Random(n_words)
    for _ in range(60):
        gold = [str(draw.randrange(n_words)) for _ in range(draw.randrange(25))]
        cut = draw.randrange(len(gold) + 1)
        hyp = [
            word if draw.random() > 0.2 else str(draw.randrange(n_words))
            for word in gold[cut:] + gold[:cut]
        ]
        assert edits(hyp, gold) == translation_edit_rate(hyp, gold)[0]


@pytest.mark.parametrize(
    ("key", "docs", "value"),
    [
        ("bleu", [("up", "down")], 0.0),
        ("bleu", [("a b c", "a b c")], 0.0),
        ("bleu", [("the cat sat on the mat", "the cat sat on the mat"), ("a b", "c d")], 88.913971),
        ("bleu", [("今天天气很好我们去公园", "今天天气很好我们去公园")], 0.0),
        ("bleu:zh", [("今天天气很好我们去公园", "今天天气很好我们去公园")], 100.0),
        ("bleu", [("", "a b c d"), ("", "")], 0.0),
        ("chrf", [("", ""), ("", "a")], 0.0),
        ("ter", [("", "")], 0.0),
        ("ter", [("a b", "")], 100.0),
    ],
)
def test_corners(key: str, docs: list[tuple[str, str]], value: float) -> None:
    name, _, cut = key.partition(":")
    metric = make_metric(name, {"tokenize": cut} if cut else {})
    found = numbers(metric, [{"golds": [gold], "preds": [pred]} for pred, gold in docs])
    assert list(found.values()) == [pytest.approx(value, abs=1e-6)]


STREAMS = [
    ("a b c d e", ""),
    *((text, text) for text in ("the quick brown fox jumps", "over the lazy dog today")),
]


@pytest.mark.parametrize(
    ("key", "value"), [("bleu", 60.653066), ("chrf", 95.016942), ("ter", 33.333333)]
)
def test_every_document_is_read_with_its_own_golds(key: str, value: float) -> None:
    found = numbers(
        make_metric(key), [{"golds": [gold], "preds": [pred]} for gold, pred in STREAMS]
    )
    assert found[key] == pytest.approx(value, abs=1e-4)


def test_no_answer_is_an_empty_hypothesis() -> None:
    row = make_metric("ter").score(document({"golds": ["a b"]}), Samples((None,), (True,)), ())
    assert row == (2, 2.0)


@pytest.mark.parametrize(
    ("key", "params", "said"),
    [
        ("bleu", {"tokenize": "13b"}, "13a"),
        ("bleu", {"tokenize": "ko-mecab"}, "pip install"),
        ("ter", {"normalized": "yes"}, "true or false"),
        ("bleu_4", {"weights": "cumulativ"}, "cumulative"),
        ("bleu_1", {"tokenizer": "treebank"}, "nltk_treebank_no_punkt"),
    ],
)
def test_wrong_parameters_are_refused(key: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(Fault, match=said):
        make_metric(key, params)


@pytest.mark.parametrize(
    ("pred", "gold", "value"),
    [
        ("the the the", "the cat", 1 / 3),
        ("the cat", "the cat sat down", 0.36787944),
        ("", "the cat sat", 0.0),
    ],
)
def test_bleu_1_clips_and_penalises(pred: str, gold: str, value: float) -> None:
    doc = document({"golds": [gold]})
    assert scorer_named("bleu_1").judge_text(doc, pred).value == pytest.approx(value, abs=1e-6)


def test_bleu_4_of_three_words_is_nothing_and_exactly_so() -> None:
    doc = document({"golds": ["the cat sat"]})
    assert scorer_named("bleu_4").judge_text(doc, "the cat sat").value == 0.0


def test_sentences_are_cut_only_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalrun.metrics.generation.sentence_bleu.has_punkt", lambda: False)
    scorer = scorer_named("bleu_1(tokenizer=nltk_word_tokenize)")
    assert not any(
        map(
            tokenize.needs_punkt,
            ["One sentence.", "What? Yes!", "a . b", "3.14 is pi", "wait... what"],
        )
    )
    assert all(map(tokenize.needs_punkt, ["One. Two", 'He said "no." Then', "Mr. X", "One!\nTwo"]))
    assert "punkt_tab" in (scorer.check_doc(document({"golds": ["One. Two."]})) or "")
    assert scorer.check_doc(document({"golds": ["One and two."]})) is None
