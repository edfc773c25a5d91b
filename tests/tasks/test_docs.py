"""Rows -> documents: columns, options, right answers, ids; and the choice of few-shot examples."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
from support.workspace import ROOT

from evalrun.errors import Fault
from evalrun.tasks.docs import check_choices, gold_places, letters_of, make_docs
from evalrun.tasks.fewshot import choose, pool_dataset, with_examples
from evalrun.tasks.rows import Rows
from evalrun.tasks.values import Number, column_names
from evalrun.types import DatasetPlan, Doc, FewshotPlan, Pairs

CASES = {
    row["id"]: row
    for row in map(
        json.loads, (ROOT / "tests" / "cases" / "data.jsonl").read_text("utf-8").strip().split("\n")
    )
}
LETTER_COLUMNS = ("choices", ("A", "B", "C", "D", "E", "F"))


def docs_of(
    rows: Sequence[dict[str, Any]],
    columns: Pairs = (),
    limit: int | None = None,
    extra: Sequence[str] = (),
    subset: str | None = None,
    **dataset: Any,
) -> list[Doc]:
    plan = DatasetPlan("a.jsonl", columns=columns, **dataset)
    return make_docs(
        "t",
        subset,
        plan,
        Rows(rows, range(len(rows)), column_names(rows), "", "a.jsonl"),
        limit,
        extra,
    )


# ---- public reports ------------------------------------------------------------------------------


def test_da010_the_number_of_options_is_the_rows_own() -> None:
    case = CASES["DA-010"]
    docs = docs_of(
        case["input"]["rows"], (("query", "question"), ("gold", "answer"), LETTER_COLUMNS)
    )
    assert [len(doc.choices) for doc in docs] == case["expected"]["n_choices"]
    assert [doc.gold[0] for doc in docs] == case["expected"]["gold_index"]


def test_da012_forms_of_the_right_answer() -> None:
    case = CASES["DA-012"]
    rows = [
        {"query": "q", "gold": gold, "choices": case["input"]["choices"]}
        for gold in case["input"]["golds"]
    ]
    docs = docs_of(rows, (("choices", "choices"),), index_base=case["input"]["index_base"])
    assert [doc.gold[0] for doc in docs] == case["expected"]["gold_index"]
    assert [doc.gold_texts for doc in docs] == [("green",)] * 4


def test_cf005_yaml_booleans_are_refused() -> None:
    import yaml

    data = yaml.safe_load(CASES["CF-005"]["input"]["yaml"])
    with pytest.raises(
        Fault, match=r'choices holds the boolean true: .*Write the text in quotes: "yes"'
    ):
        check_choices(data["choices"], "choices")
    assert check_choices(["yes", "no"], "choices") == ("yes", "no")
    with pytest.raises(Fault, match=r"columns\.choices holds the boolean"):
        docs_of([{"query": "q", "gold": 0}], (("choices", data["choices"]),))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], "is not a list of texts with at least one entry"),
        ("AB", "is not a list of texts"),
        (["1", 2], "holds 2, which YAML does not read as text"),
        (["a", "a"], "holds 'a' twice"),
    ],
)
def test_choices_that_are_no_list_of_texts(values: Any, expected: str) -> None:
    with pytest.raises(Fault, match=expected):
        check_choices(values, "choices")


# ---- the right answer ----------------------------------------------------------------------------

RGB = ("red", "green", "blue")


@pytest.mark.parametrize(
    ("value", "choices", "form", "base", "places"),
    [
        (2, RGB, "auto", 0, (2,)),
        (3, RGB, "index", 1, (2,)),
        ("3", RGB, "auto", 1, (2,)),
        (1.0, RGB, "auto", 0, (1,)),
        (1, ("2", "3", "1"), "auto", 0, (1,)),
        ("b", RGB, "letter", 0, (1,)),
        ("(C)", RGB, "auto", 0, (2,)),
        ("A.", RGB, "auto", 0, (0,)),
        (" blue ", RGB, "text", 0, (2,)),
        ("42", ("40", "42"), "auto", 0, (1,)),
        ("1", ("0", "1"), "auto", 0, (1,)),
        (7, ("6", "7"), "text", 0, (1,)),
        (True, ("False", "True"), "auto", 0, (1,)),
        ("x", ("x", "y", "x"), "text", 0, (0, 2)),
        (3, RGB, "auto", 0, None),
        (-1, RGB, "index", 0, None),
        (0, RGB, "index", 1, None),
        ("D", RGB, "auto", 0, None),
        ("green", RGB, "letter", 0, None),
        ("Green", RGB, "text", 0, None),
        (1.5, RGB, "index", 0, None),
        (True, RGB, "index", 0, None),
    ],
)
def test_gold_places(
    value: Any, choices: Sequence[str], form: str, base: int, places: tuple[int, ...] | None
) -> None:
    assert list(gold_places(value, choices, form, base).values()) == (
        [] if places is None else [places]
    )


def test_an_answer_with_two_readings_must_be_declared() -> None:
    rows = [{"query": "q", "gold": "1", "o": ["1", "2"]}]
    with pytest.raises(
        Fault,
        match=(
            r"'1' .*more than one way: as index option 2, as text option 1\. Declare "
            r"dataset\.gold_form"
        ),
    ):
        docs_of(rows, (("choices", "o"),))
    assert docs_of(rows, (("choices", "o"),), gold_form="text")[0].gold == (0,)
    assert docs_of(rows, (("choices", "o"),), gold_form="index", index_base=1)[0].gold == (0,)


@pytest.mark.parametrize(
    ("golds", "expected"),
    [
        ([1, 2, 0], [1, 2, 0]),  # a 0: counted from 0
        ([1, 2, 3], [0, 1, 2]),  # a 3 of three options: counted from 1
        (["1", "3"], [0, 2]),
        ([1, 2], None),
        ([0, 3], ()),  # neither base fits
    ],
)
def test_the_base_of_indices_is_found_or_asked_for(golds: list[Any], expected: Any) -> None:
    rows = [{"query": f"q{i}", "gold": gold, "o": ["x", "y", "z"]} for i, gold in enumerate(golds)]
    columns = (("choices", "o"),)
    if expected:
        found = docs_of(rows, columns, gold_form="index")
        assert [doc.gold for doc in found] == [(place,) for place in expected]
        assert [doc.gold for doc in docs_of(rows, columns)] == [(place,) for place in expected]
        return
    message = (
        r"Say which: dataset\.index_base=0 or" if expected is None else "none of the 3 options"
    )
    with pytest.raises(Fault, match=message):
        docs_of(rows, columns, gold_form="index")
    if expected is None:
        assert [d.gold for d in docs_of(rows, columns, index_base=1)] == [(0,), (1,)]
        assert [d.gold for d in docs_of(rows, columns, index_base=0)] == [(1,), (2,)]


def test_an_answer_that_names_no_option_is_a_fault() -> None:
    rows = [{"query": "q", "gold": 0, "o": ["x"]}, {"query": "q", "gold": 5, "o": ["x", "y"]}]
    with pytest.raises(
        Fault,
        match=(
            r"row 2 of a\.jsonl: the answer 5 .* none of the 2 options \(x, y\)\. Allowed: an "
            r"index from 0 to 1"
        ),
    ):
        docs_of(rows, (("choices", "o"),), gold_form="index")
    with pytest.raises(
        Fault, match=r"There is no gold form 'idx' in dataset\.gold_form\. Did you mean 'index'\?"
    ):
        docs_of(rows, (("choices", "o"),), gold_form="idx")


@pytest.mark.parametrize(
    ("value", "gold"),
    [
        (0, ("0",)),
        (Number("2.50"), ("2.50",)),
        (True, ("true",)),
        (["a", 2], ("a", "2")),
        (["a", "a"], ("a", "a")),
        ("#### 18\x00", ("#### 18\x00",)),
    ],
)
def test_gold_texts_without_options(value: Any, gold: tuple[str, ...]) -> None:
    assert docs_of([{"query": "q", "gold": value}])[0].gold == gold


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"gold": None}, r"row 2 of a\.jsonl has no answer: dataset\.columns\.gold reads null"),
        ({"gold": []}, r"row 2 of a\.jsonl has no answer: .* reads \[\]"),
        ({"gold": ["a", None]}, r"has no answer"),
        ({"gold": float("nan")}, r"has no answer: .* reads nan"),
        (
            {"gold": {"a": 1}},
            r"row 2 of a\.jsonl: dataset\.columns\.gold reads \{'a': 1\}, which has no text form",
        ),
        (
            {"query": " \n"},
            r"row 2 of a\.jsonl has no question: dataset\.columns\.query reads ' \\n'",
        ),
        ({"query": None}, r"has no question: .* reads null"),
        ({"query": ["a"]}, r"has no question"),
        ({"key": None}, r"row 2 of a\.jsonl has no id: dataset\.columns\.id reads null"),
        ({"key": ""}, r"has no id"),
        ({"key": "k"}, r"row 2 of a\.jsonl has the id 'k' .*, which row 1 has too"),
    ],
)
def test_rows_that_cannot_be_asked(row: dict[str, Any], expected: str) -> None:
    rows = [{"key": "k", "query": "q", "gold": "g"}, {"key": "m", "query": "q", "gold": "g"} | row]
    with pytest.raises(Fault, match=expected):
        docs_of(rows, (("id", "key"),))


def test_a_row_without_the_column() -> None:
    with pytest.raises(
        Fault, match=r"row 2 of a\.jsonl has no answer: .* reads no such column in this row"
    ):
        docs_of([{"query": "q", "gold": "g"}, {"query": "q"}])


# ---- columns -------------------------------------------------------------------------------------


def test_nested_columns_and_further_fields() -> None:
    row = {
        "in": {"text": "q"},
        "answers": {"text": ["x", "y"]},
        "opts": [{"t": "x", "l": "A"}, {"t": "y", "l": "B"}],
        "doc": 7,
        "sys": "be brief",
        "level": {"n": 3},
        "Topic Name": "maths",
    }
    columns = (
        ("query", "in.text"),
        ("gold", "answers.text.1"),
        ("choices", "opts.t"),
        ("system", "sys"),
    )
    (doc,) = docs_of(
        [row],
        (*columns, ("topic", "Topic Name")),
        extra=["level", "topic"],
        cluster="doc",
        subset="s",
    )
    assert (doc.query, doc.gold, doc.choices, doc.cluster, doc.system) == (
        "q",
        (1,),
        ("x", "y"),
        "7",
        "be brief",
    )
    assert dict(doc.extra) == {"level": {"n": 3}, "topic": "maths"}
    assert (doc.subset, doc.row, doc.task) == ("s", 0, "t")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            (("query", "qestion"),),
            r"no column 'qestion' in a\.jsonl \(dataset\.columns\.query\)\. Did you mean "
            r"'question'\?",
        ),
        ((), r"no column 'query' in a\.jsonl \(dataset\.columns\.query\)"),
        ((("qery", "question"),), r"no field 'qery' in dataset\.columns\. Did you mean 'query'\?"),
        ((("query", 3),), r"dataset\.columns\.query=3 is not the name of a column"),
        (
            (("query", "question"), ("choices", ("A", "G"))),
            r"no column 'G' .*dataset\.columns\.choices",
        ),
        (
            (("query", "question"), ("choices", "A")),
            r"columns\.choices reads 'x'\. Allowed: a column that holds a list",
        ),
    ],
)
def test_unknown_columns(columns: Pairs, expected: str) -> None:
    with pytest.raises(Fault, match=expected):
        docs_of([{"question": "q", "gold": "g", "A": "x"}], columns)


def test_two_cluster_columns_are_refused() -> None:
    with pytest.raises(
        Fault, match=r"dataset\.cluster=a and dataset\.columns\.cluster=b name two columns"
    ):
        docs_of([{"query": "q", "gold": "g", "a": 1, "b": 2}], (("cluster", "b"),), cluster="a")


def test_an_option_may_be_absent_at_the_end_only() -> None:
    columns = (("choices", ("A", "B", "C")),)
    rows = [
        {"query": "q", "gold": "B", "A": "x", "B": "y", "C": ""},
        {"query": "q", "gold": "A", "A": "x", "C": "z"},
    ]
    assert docs_of(rows, columns, limit=1)[0].choices == ("x", "y")
    with pytest.raises(Fault, match=r"row 2 of a\.jsonl: option 2 is absent, a later one is not"):
        docs_of(rows, columns)


def test_ids() -> None:
    row = {"query": "q", "gold": "g", "n": 0}
    first, other, again, third = docs_of([row, row | {"gold": "h"}, row | {"n": 1}, row])
    assert len(first.id) == 16
    assert int(first.id, 16) >= 0
    assert other.id != first.id
    assert [again.id, third.id] == [f"{first.id}#2", f"{first.id}#3"]
    assert first.id == "3deae411f9a9112b"  # golden: saved predictions are joined by it
    assert [doc.id for doc in docs_of([row, row | {"n": 1}], (("id", "n"),))] == ["0", "1"]
    assert [doc.row for doc in docs_of([row] * 3, limit=2)] == [0, 1]


def test_100k_rows_take_linear_time() -> None:
    took = []
    for size in (10_000, 100_000):
        rows = [
            {"query": f"How many is {i}?", "gold": i % 4, "o": ["a", "b", "c", "d"]}
            for i in range(size)
        ]
        start = time.process_time()
        docs = docs_of(rows, (("choices", "o"),))
        took.append(time.process_time() - start)
        assert len({doc.id for doc in docs}) == size
    assert took[1] < 0.5 + 30 * took[0]


def test_letters() -> None:
    assert letters_of(3) == ("A", "B", "C")
    assert letters_of(28)[25:] == ("Z", "AA", "AB")


# ---- few-shot examples ---------------------------------------------------------------------------


def pool_of(n: int, prefix: str = "q") -> list[Doc]:
    return [Doc(f"{prefix}{i:03d}", "t", i, f"{prefix} {i}", (str(i),)) for i in range(n)]


@pytest.mark.parametrize("rule", ["first", "random"])
def test_da013_no_document_is_its_own_example(rule: str) -> None:
    case = CASES["DA-013"]["input"]
    docs = pool_of(case["rows"])
    chosen = choose(docs, docs, FewshotPlan(case["num_fewshot"], rule, seed=case["seed"]))
    assert [
        doc.id in {e.id for e in examples} for doc, examples in zip(docs, chosen, strict=True)
    ] == [False] * 3
    assert [len({e.id for e in examples}) for examples in chosen] == [2, 2, 2]
    assert with_examples(docs, chosen)[0].fewshot == tuple(e.id for e in chosen[0])


def test_equal_questions_of_another_pool_are_left_out() -> None:
    doc = Doc("x", "t", 0, "How  many?", ("1",))
    pool = [
        Doc("a", "t", 0, "how many?\n", ("1",)),
        Doc("x", "t", 1, "Other?", ("2",)),
        Doc("c", "t", 2, "Third?", ("3",)),
    ]
    assert [[e.id for e in examples] for examples in choose([doc], pool, FewshotPlan(2))] == [
        ["x", "c"]
    ]
    with pytest.raises(
        Fault,
        match=r"fewshot\.n=3 .* document x of t can have 2: .*holds 3, and 1 of them ask the same",
    ):
        choose([doc], pool, FewshotPlan(3, "random", split="train"))


def test_random_examples_depend_on_seed_and_document_alone() -> None:
    docs, pool = pool_of(20), pool_of(50, "p")
    plan = FewshotPlan(5, "random", seed=1)
    straight = choose(docs, pool, plan)
    turned = choose(docs[::-1], pool[::-1], plan)[::-1]
    assert straight == turned
    assert len({tuple(e.id for e in examples) for examples in straight}) == 20
    assert choose(docs, pool, FewshotPlan(5, "random", seed=2)) != straight
    assert all(
        len(set(examples)) == 50 for examples in choose(docs, pool, FewshotPlan(50, "random"))
    )
    counts = [0] * 50
    for examples in choose(pool_of(2000), pool, plan):
        for example in examples:
            counts[example.row] += 1
    assert sum(counts) == 10_000
    # 200 expected, 60 is more than four standard deviations
    assert all(140 < count < 260 for count in counts)


def test_fewshot_faults_and_none() -> None:
    docs = pool_of(2)
    assert choose(docs, [], FewshotPlan()) == [(), ()]
    with pytest.raises(
        Fault, match=r"no few-shot rule 'frist' in fewshot\.rule\. Did you mean 'first'\?"
    ):
        choose(docs, docs, FewshotPlan(1, "frist"))
    with pytest.raises(Fault, match=r"fewshot\.n=-1\. Allowed: 0"):
        choose(docs, docs, FewshotPlan(-1))


def test_where_examples_come_from() -> None:
    hub = DatasetPlan("openai/gsm8k", "main", "test", "abc", (("gold", "answer"),))
    train = FewshotPlan(2, split="train")
    assert pool_dataset(hub, FewshotPlan(split="train")) is None
    assert pool_dataset(hub, FewshotPlan(2)) is None
    assert pool_dataset(hub, train) == DatasetPlan(
        "openai/gsm8k", "main", "train", "abc", (("gold", "answer"),)
    )
    other = pool_dataset(hub, FewshotPlan(2, path="train.jsonl"))
    assert other == DatasetPlan("train.jsonl", "main", "test", None, (("gold", "answer"),))
    with pytest.raises(
        Fault,
        match=(
            r"fewshot\.split=train cannot be taken from dataset\.path=a\.jsonl, "
            r".*fewshot\.path=FILE"
        ),
    ):
        pool_dataset(DatasetPlan("a.jsonl"), train)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"query": "q", "gold": ""},
            "row 1 of a.jsonl has an empty answer: dataset.columns.gold reads ''",
        ),
        ({"query": "q", "gold": ["a", " "]}, "has an empty answer"),
        (
            {"query": "q", "gold": 0, "o": ["", "B"]},
            "has an empty option: dataset.columns.choices reads ''",
        ),
    ],
)
def test_empty_options_and_answers_are_refused(row: dict[str, Any], says: str) -> None:
    with pytest.raises(Fault, match=re.escape(says)):
        docs_of([row], (("choices", "o"),) if "o" in row else ())
