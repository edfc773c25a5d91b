"""Documents and verdicts: exact round trips, sorted files, what replaces what."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalrun.errors import Fault
from evalrun.store.arrow.arrowfile import lists, read_file
from evalrun.store.cell.saved_docs import DOCS, StoredDoc, doc_hash, read_docs, write_docs
from evalrun.store.cell.verdicts import VERDICTS, read_verdicts, write_verdicts
from evalrun.store.layout import Run
from evalrun.types import Doc, State, Verdict

WORDS = st.text(max_size=8)
MAYBE = st.none() | WORDS
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=5,
)
DOCUMENTS = st.builds(
    Doc,
    id=WORDS,
    task=WORDS,
    row=st.integers(0, 2**40),
    query=WORDS,
    gold=st.lists(WORDS, max_size=3).map(tuple)
    | st.lists(st.integers(-1, 9), max_size=3).map(tuple),
    choices=st.lists(WORDS, max_size=4).map(tuple),
    subset=MAYBE,
    system=MAYBE,
    fewshot=st.lists(WORDS, max_size=3).map(tuple),
    cluster=MAYBE,
    extra=st.lists(st.tuples(WORDS, JSON), max_size=3).map(tuple),
)
DOC = Doc("q1", "demo", 3, "2+2?", ("4", ""), extra=(("level", 2),))


@given(st.lists(DOCUMENTS, max_size=6, unique_by=lambda doc: doc.id), st.booleans())
@settings(max_examples=40, deadline=None)
def test_documents_round_trip(
    tmp_path_factory: pytest.TempPathFactory, docs: list[Doc], has_prompts: bool
) -> None:
    run = Run(tmp_path_factory.mktemp("r"))
    prompts = {doc.id: f"Q: {doc.query}" for doc in docs} if has_prompts else {}
    write_docs(run.cell("m", "t"), docs, prompts, {"ask_id": "a"})
    got = read_docs(run.cell("m", "t"))
    assert got == [StoredDoc(doc, prompts.get(doc.id), doc_hash(doc)) for doc in docs]
    assert [doc_hash(stored.doc) for stored in got] == [stored.doc_hash for stored in got]


def test_choices_are_measured(tmp_path: Path) -> None:
    run = Run(tmp_path)
    write_docs(run.cell("m", "t"), [replace(DOC, gold=(1,), choices=("a", "né", ""))], {})
    batches, metadata = read_file(run.cell("m", "t").docs_file, DOCS)
    names = ("text", "characters", "bytes", "tokens")
    wanted = [("a", 1, 1, None), ("né", 2, 3, None), ("", 0, 0, None)]
    assert lists(batches, "choices") == [
        [dict(zip(names, choice, strict=True)) for choice in wanted]
    ]
    assert (lists(batches, "gold"), lists(batches, "gold_index")) == ([None], [[1]])
    assert {
        "format_version": "1",
        "table": "docs",
        "model": "m",
        "task": "t",
    }.items() <= metadata.items()


def test_a_larger_limit_writes_anew(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for n in (2, 5):
        write_docs(run.cell("m", "t"), [replace(DOC, id=str(i), row=i) for i in range(n)], {})
    assert [stored.doc.id for stored in read_docs(run.cell("m", "t"))] == list("01234")
    assert [path.name for path in run.cell("m", "t").docs_file.parent.iterdir()] == ["t.docs.arrow"]


@pytest.mark.parametrize("change", [{"row": 4}, {"task": "other"}])
def test_a_moved_document_keeps_its_hash(change: dict[str, object]) -> None:
    content = '["q1",null,"2+2?",["4",""],[],null,[],null,[["level",2]]]'
    assert (
        doc_hash(replace(DOC, **change))
        == doc_hash(DOC)
        == sha256(content.encode()).hexdigest()[:32]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"id": "q2"},
        {"query": "2+3?"},
        {"gold": ("4",)},
        {"gold": (4,)},
        {"choices": ("4",)},
        {"subset": ""},
        {"system": "s"},
        {"fewshot": ("q0",)},
        {"cluster": "c"},
        {"extra": (("level", 3),)},
    ],
)
def test_an_edited_document_changes_its_hash(change: dict[str, object]) -> None:
    assert doc_hash(replace(DOC, **change)) != doc_hash(DOC)


def test_odd_documents(tmp_path: Path) -> None:
    run = Run(tmp_path)
    odd = replace(
        DOC, query="\ud800", extra=(("a", (1, float("nan"))), ("p", Path("x")), ("s", "\udfff"))
    )
    write_docs(run.cell("m", "t"), [odd], {"q1": "p\udc00"})
    got = read_docs(run.cell("m", "t"))[0]
    assert (got.doc.query, got.prompt) == ("\\ud800", "p\\udc00")
    assert got.doc.extra == (("a", [1, "NaN"]), ("p", "x"), ("s", "\udfff"))
    with pytest.raises(ValueError, match="have one id"):
        write_docs(run.cell("m", "t"), [DOC, DOC], {})
    with pytest.raises(ValueError, match="mixes texts and indices"):
        write_docs(run.cell("m", "t"), [replace(DOC, gold=("a", 1))], {})  # type: ignore[arg-type]
    with pytest.raises(Fault, match="There are no documents of model 'm', task 'other'"):
        read_docs(run.cell("m", "other"))
    run.cell("m", "t").docs_file.write_bytes(b"no arrow")
    with pytest.raises(Fault, match="is not a sound docs file"):
        read_docs(run.cell("m", "t"))


VERDICT = st.builds(
    Verdict,
    value=st.none() | st.floats(0, 1),
    extracted=MAYBE,
    span=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
    rule=MAYBE,
    state=st.sampled_from(State),
    note=MAYBE,
)
JUDGED = st.dictionaries(st.tuples(WORDS, st.integers(0, 9)), VERDICT, max_size=4)


@given(
    st.dictionaries(WORDS, JUDGED.filter(bool), max_size=3),
    st.dictionaries(WORDS, JUDGED.filter(bool), max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_verdicts_round_trip_and_merge(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[str, dict[tuple[str, int], Verdict]],
    second: dict[str, dict[tuple[str, int], Verdict]],
) -> None:
    run = Run(tmp_path_factory.mktemp("r"))
    write_verdicts(run.cell("m", "t"), first)
    assert read_verdicts(run.cell("m", "t")) == first
    write_verdicts(run.cell("m", "t"), second)
    assert read_verdicts(run.cell("m", "t")) == {**first, **second}


def test_equal_verdicts_give_equal_files(tmp_path: Path) -> None:
    rows = {
        ("b", 1): Verdict(1.0, "4", (3, 4), "last"),
        ("b", 0): Verdict(None, state=State.ERROR),
        ("a", 0): Verdict(0.0),
    }
    one, two = Run(tmp_path / "1"), Run(tmp_path / "2")
    write_verdicts(one.cell("m", "t"), {"s2": rows, "s1": rows})
    write_verdicts(two.cell("m", "t"), {"s1": dict(reversed(rows.items()))})
    write_verdicts(two.cell("m", "t"), {"s2": rows})
    path = one.cell("m", "t").verdicts_file
    assert path.read_bytes() == two.cell("m", "t").verdicts_file.read_bytes()
    batches, _ = read_file(path, VERDICTS)
    assert batches[0].schema.names == [
        *(
            "doc_id",
            "index",
            "scorer",
            "value",
            "extracted",
            "span_start",
            "span_end",
            "rule",
            "state",
            "note",
        )
    ]
    assert lists(batches, "doc_id") == ["a", "b", "b"] * 2
    assert lists(batches, "scorer") == ["s1"] * 3 + ["s2"] * 3


def test_no_verdicts_yet(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert read_verdicts(run.cell("m", "t")) == {}
    write_verdicts(run.cell("m", "t"), {})
    assert read_verdicts(run.cell("m", "t")) == {}
