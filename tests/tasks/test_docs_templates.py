"""Columns that are templates over a row, documents without gold, and flags for right options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evalrun.errors import Fault
from evalrun.tasks.docs import make_docs
from evalrun.tasks.rows import Rows
from evalrun.tasks.values import Number, column_names
from evalrun.types import DatasetPlan, Doc, Pairs


def docs_of(
    rows: Sequence[dict[str, Any]],
    columns: Pairs = (),
    limit: int | None = None,
    extra: Sequence[str] = (),
    gold_form: str = "auto",
    index_base: int | None = None,
) -> list[Doc]:
    plan = DatasetPlan("a.jsonl", columns=columns, gold_form=gold_form, index_base=index_base)
    return make_docs(
        "t",
        None,
        plan,
        Rows(rows, range(len(rows)), column_names(rows), "", "a.jsonl"),
        limit,
        extra,
    )


SCENES = [
    {
        "head": "Bread",
        "body": "it rises",
        "labels": ["1", "2"],
        "key": "2",
        "is_true": True,
        "size": Number("2.50"),
    },
    {
        "head": "Rain",
        "body": "it falls",
        "labels": ["A", "B"],
        "key": "A",
        "is_true": False,
        "size": None,
    },
]


def test_columns_that_are_templates() -> None:
    columns: Pairs = (
        ("query", "{{ head }}: {{ body | capitalize }}"),
        ("choices", ("{{ 'no' }}", "{{ 'yes' }}", "{{ head | lower }}")),
        ("gold", "{{ labels.index(key) }}"),
        ("cluster", "{{ head }}s"),
        ("size", "{{ size or 'any' }}"),
    )
    docs = docs_of(SCENES, columns, extra=("size", "body"), gold_form="index")
    assert [(d.query, d.choices, d.gold, d.cluster) for d in docs] == [
        ("Bread: It rises", ("no", "yes", "bread"), (1,), "Breads"),
        ("Rain: It falls", ("no", "yes", "rain"), (0,), "Rains"),
    ]
    assert [dict(d.extra) for d in docs] == [
        {"size": "2.50", "body": "it rises"},
        {"size": "any", "body": "it falls"},
    ]
    one = docs_of(SCENES, columns, limit=1, extra=("size",), gold_form="index", index_base=0)
    assert len(one) == 1


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"query": "{{ hed }}"},
            r"no column 'hed' in a\.jsonl \(dataset\.columns\.query\)\. Did you mean 'head'",
        ),
        ({"query": "{{ head"}, r"dataset\.columns\.query, line 1: unexpected end of template"),
        (
            {"query": "{{ head.x }}"},
            r"dataset\.columns\.query fails on row 1 of a\.jsonl: .*no attribute 'x'",
        ),
        (
            {"gold": "{{ labels.index('B') }}"},
            r"dataset\.columns\.gold fails on row 1 of a\.jsonl: ValueError",
        ),
        ({"choices": "{{ labels }}"}, r"choices reads .* Allowed: a column that holds a list"),
        ({"query": "{{ '' }}"}, r"row 1 of a\.jsonl has no question"),
    ],
)
def test_faults_of_columns_that_are_templates(columns: dict[str, str], expected: str) -> None:
    with pytest.raises(Fault, match=expected):
        docs_of(SCENES, tuple(({"query": "head", "gold": "key"} | columns).items()))


def test_a_template_reads_a_row_that_lacks_its_column() -> None:
    with pytest.raises(
        Fault, match=r"no name 'gold_text' in dataset\.columns\.gold \(row 2 of a\.jsonl\)"
    ):
        docs_of([{"query": "q", "gold_text": "a"}, {"query": "r"}], (("gold", "{{ gold_text }}"),))


def test_documents_without_gold() -> None:
    (doc,) = docs_of([{"query": "a page", "gold": "unread"}], (("gold", None),))
    assert doc.gold == ()
    (doc,) = docs_of(
        [{"query": "q", "options": ["a", "b"]}], (("gold", None), ("choices", "options"))
    )
    assert (doc.gold, doc.choices) == ((), ("a", "b"))
    with pytest.raises(Fault, match="There is no column 'gold'"):
        docs_of([{"query": "a page"}])


@pytest.mark.parametrize(
    ("flags", "gold"),
    [([0, 1, 0], (1,)), ([1, 0, 1], (0, 2)), ([True, False, False], (0,)), ((0.0, 0.0, 1.0), (2,))],
)
def test_flags_mark_the_right_options(flags: Sequence[float], gold: tuple[int, ...]) -> None:
    rows = [{"query": "q", "choices": ["a", "b", "c"], "gold": flags}]
    assert docs_of(rows, (("choices", "choices"),), gold_form="flags")[0].gold == gold


@pytest.mark.parametrize("flags", [[0, 0, 0], [1, 0], [1, 0, 2], ["1", 0, 0], 1, "100", None])
def test_flags_that_mark_nothing(flags: Any) -> None:
    rows = [{"query": "q", "choices": ["a", "b", "c"], "gold": flags}]
    with pytest.raises(
        Fault, match=r"does not mark the 3 options\. Allowed .*a list of 0 and 1, one per option"
    ):
        docs_of(rows, (("choices", "choices"),), gold_form="flags")
    with pytest.raises(Fault, match="does not mark the 0 options"):
        docs_of([{"query": "q", "gold": [1]}], gold_form="flags")
