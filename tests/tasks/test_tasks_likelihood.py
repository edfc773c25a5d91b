"""Tasks that ask how likely something is: the space rule, contexts per choice, keys, and every
task file in full.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.workspace import ROOT

from evalrun.config.composing import composed
from evalrun.errors import Fault
from evalrun.planning import build
from evalrun.runs.words.arguments import read
from evalrun.tasks import cell_requests, fewshot, prompt, rows, template_checks
from evalrun.tasks.docs import make_docs
from evalrun.types import (
    Cell,
    DatasetPlan,
    Doc,
    FewshotPlan,
    Generate,
    Loglikelihood,
    Message,
    PromptPlan,
    Request,
    Rolling,
    Sampling,
)

CASES = [
    json.loads(line)
    for line in (ROOT / "tests/cases/likelihood_tasks.jsonl").read_text("utf-8").splitlines()
]
DOC = Doc("d", "t", 0, "2+2?", (1,), ("3", "4", "five"), "sums")
OPEN = Doc("o", "t", 1, "The sky is", ("blue", "grey"))


def cell_of(
    template: str, kinds: Sequence[str] = ("loglikelihood",), n: int = 1, **more: Any
) -> Cell:
    plan, data = (
        PromptPlan(template, more.pop("answer", " {{ gold }}"), **more),
        DatasetPlan("a.jsonl"),
    )
    return Cell(
        "t",
        None,
        "a",
        (),
        "v",
        data,
        plan,
        FewshotPlan(),
        None,
        Sampling(8, 0.0),
        n,
        None,
        (),
        kinds=tuple(kinds),
    )


def text_of(messages: Sequence[Message]) -> str:
    return "\n\n".join(message.content for message in messages)


# ---- the space between context and continuation --------------------------------------------------


@pytest.mark.parametrize(
    ("template", "continuation", "context", "scored"),
    [
        (
            "Question: {{ query }}\nAnswer: ",
            "{{ choice }}",
            "Question: 2+2?\nAnswer:",
            (" 3", " 4", " five"),
        ),
        ("Question: {{ query }}\nAnswer:", None, "Question: 2+2?\nAnswer:", (" 3", " 4", " five")),
        ("{{ query }} ", " {{ choice }}", "2+2?", ("  3", "  4", "  five")),
        ("{{ query }}\n\n", "{{ letter }}{{ index }}", "2+2?", ("\n\nA0", "\n\nB1", "\n\nC2")),
        (
            "{{ query }}",
            "{{ choice }} of {{ subset }}",
            "2+2?",
            ("3 of sums", "4 of sums", "five of sums"),
        ),
        ("  ", "{{ choice }}", "", ("  3", "  4", "  five")),
    ],
)
def test_a_space_that_ends_the_context_is_scored(
    template: str, continuation: str | None, context: str, scored: tuple[str, ...]
) -> None:
    """The first row is reported for lm-evaluation-harness (issue 4012)."""
    cell = cell_of(template, continuation=continuation)
    asked = prompt.asked(cell, DOC, (), None)
    assert [text_of(each) for each in asked.contexts] == [context] * 3
    assert asked.continuations == scored
    assert prompt.as_scored(cell.prompt, DOC) == replace(DOC, choices=scored)


@given(st.text(), st.text())
def test_moving_a_space_changes_no_text(context: str, continuation: str) -> None:
    bare, moved = prompt.move_space(context, continuation)
    assert bare + moved == context + continuation
    assert bare == context.rstrip()


def test_examples_stand_in_the_context_as_in_a_prompt() -> None:
    example = Doc("e", "t", 5, "1+1?", (0,), ("2", "9"))
    cell = cell_of(
        "Q: {{ query }}\nA: ",
        ("generate", "loglikelihood"),
        system="Be brief.",
        continuation="{{ choice }}",
    )
    doc = replace(DOC, fewshot=("e",))
    asked = prompt.asked(cell, doc, (example,), None)
    assert asked.messages == (
        Message("system", "Be brief."),
        Message("user", "Q: 1+1?\nA:  2\n\nQ: 2+2?\nA: "),
    )
    assert (
        asked.contexts
        == ((Message("system", "Be brief."), Message("user", "Q: 1+1?\nA:  2\n\nQ: 2+2?\nA:")),) * 3
    )
    assert all(each is asked.contexts[0] for each in asked.contexts)
    assert asked.continuations == (" 3", " 4", " five")


def test_a_context_of_its_own_for_each_choice() -> None:
    example = Doc("e", "t", 5, "Snow is _ today", (1,), ("hot", "cold"))
    cell = cell_of(
        "unused {{ query }}",
        context="{% if is_first %}Fill the gap. {% endif %}{{ query.split('_')[0] }}{{ choice }}",
        continuation="{{ query.split('_')[1] }}",
    )
    doc = replace(DOC, query="It is _ here", choices=("dry", "wet"))
    assert [text_of(c) for c in prompt.asked(cell, doc, (), None).contexts] == [
        "Fill the gap. It is dry",
        "Fill the gap. It is wet",
    ]
    shots = prompt.asked(cell, doc, (example,), None)
    assert [text_of(c) for c in shots.contexts] == [
        "Fill the gap. Snow is cold today\n\nIt is dry",
        "Fill the gap. Snow is cold today\n\nIt is wet",
    ]
    assert shots.continuations == (" here", " here")
    with pytest.raises(
        Fault, match="Document e of t has no gold, so it cannot stand as an example"
    ):
        prompt.asked(cell, doc, (replace(example, gold=()),), None)


def test_an_empty_context_behind_examples_scores_the_separator() -> None:
    example = Doc("e", "t", 5, "q", (0,), ("It rains.", "It rain."))
    cell = cell_of("{{ query }}", context="", continuation="{{ choice }}")
    doc = replace(DOC, choices=("He sings.", "He sing."), fewshot=("e",))
    asked = prompt.asked(cell, doc, (example,), None)
    assert [text_of(c) for c in asked.contexts] == ["It rains."] * 2
    assert asked.continuations == ("\n\nHe sings.", "\n\nHe sing.")
    assert prompt.as_scored(cell.prompt, doc).choices == asked.continuations
    assert prompt.asked(cell, replace(doc, fewshot=()), (), None).contexts == ((), ())


def test_a_document_without_choices_is_asked_for_its_golds() -> None:
    cell = cell_of("{{ query }}")
    assert prompt.asked(cell, OPEN, (), None).continuations == (" blue", " grey")
    assert prompt.as_scored(cell.prompt, OPEN) == replace(
        OPEN, choices=(" blue", " grey"), gold=(0, 1)
    )


@pytest.mark.parametrize(
    ("change", "doc", "said"),
    [
        (
            {"continuation": "{{ choice | replace('4', '') }}"},
            DOC,
            r"prompt\.continuation gives an empty text for choice 2 \('4'\) of document d of t",
        ),
        (
            {},
            replace(OPEN, gold=()),
            "Document o of t has neither choices nor a gold, so there is nothing to score",
        ),
        (
            {"unconditioned": "Answer: "},
            DOC,
            r"prompt\.unconditioned gives 'Answer: ' .* ends in white space",
        ),
        (
            {"continuation": "{{ choise }}"},
            DOC,
            r"no name 'choise' in prompt\.continuation .*Did you mean 'choice'",
        ),
    ],
)
def test_faults_of_a_document(change: dict[str, str], doc: Doc, said: str) -> None:
    cell = cell_of("{{ query }}", ("loglikelihood", "unconditioned"), **change)
    with pytest.raises(Fault, match=said):
        prompt.asked(cell, doc, (), None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"continuation": "{{ gold }}"},
            r"prompt\.continuation names 'gold': the question must not hold its answer",
        ),
        ({"context": "{{ choice }}{{ golds }}"}, r"prompt\.context names 'golds'"),
        ({"unconditioned": "{{ choice }}"}, r"There is no name 'choice' in prompt\.unconditioned"),
        (
            {"context": "{{ letters }}{{ lettr }}"},
            r"no name 'lettr' in prompt\.context\. Did you mean 'letter'",
        ),
        (
            {"continuation": "{{ choice | uper }}"},
            r"no filter 'uper' in prompt\.continuation, line 1",
        ),
    ],
)
def test_faults_of_templates_while_planning(change: dict[str, str], said: str) -> None:
    with pytest.raises(Fault, match=said):
        template_checks.check_template(PromptPlan("{{ query }}", "", **change), ["level"])


def test_columns_of_every_template_are_read() -> None:
    plan = PromptPlan(
        "{{ a }}", "{{ b }}", continuation="{{ c }}", context="{{ d }}", unconditioned="{{ e }}"
    )
    assert template_checks.template_columns(plan) == ("a", "b", "c", "d", "e")


# ---- keys and requests ---------------------------------------------------------------------------

KINDS = ("generate", "loglikelihood", "unconditioned", "rolling")


def test_keys_and_requests_of_all_kinds() -> None:
    cell = cell_of("Q: {{ query }}", KINDS, n=2, unconditioned="Answer:")
    docs = [DOC, OPEN]
    asked = {doc.id: prompt.asked(cell, doc, (), None) for doc in docs}
    keys = [key for doc in docs for key in cell_requests.keys_of(cell, doc)]
    assert [(k[1], k[2]) for k in keys if k[0] == "o"] == [
        ("generate", 0), ("generate", 1), ("loglikelihood", 0), ("loglikelihood", 1),
        ("unconditioned", 0), ("unconditioned", 1), ("rolling", 0),
    ]  # fmt: skip
    made = list(
        cell_requests.requests(docs, asked, cell, reversed(keys), lambda _: 7, is_single_token=True)
    )
    assert list(chain.from_iterable(request.keys() for request in made)) == keys
    question, answer = (Message("user", "Q: 2+2?"),), (Message("user", "Answer:"),)
    assert made[:5] == [
        Generate("d", question, (0, 1), cell.sampling, 7),
        Loglikelihood("d", 0, question, " 3", True, True),
        Loglikelihood("d", 1, question, " 4", True, True),
        Loglikelihood("d", 2, question, " five", True, True),
        Loglikelihood("d", 0, answer, " 3", False, True),
    ]
    assert made[7] == Rolling("d", "Q: 2+2?")
    some = [("o", "loglikelihood", 1, 0), ("d", "rolling", 0, 0)]
    found = list(cell_requests.requests(docs, asked, cell, some, lambda _: 7))
    assert found == [
        Rolling("d", "Q: 2+2?"),
        Loglikelihood("o", 1, (Message("user", "Q: The sky is"),), " grey"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        ("d", "loglikelihood", 3, 0),
        ("d", "rolling", 1, 0),
        ("d", "rolling", 0, 1),
        ("d", "rate", 0, 0),
    ],
)
def test_a_key_that_nothing_was_rendered_for_is_refused(key: tuple[str, str, int, int]) -> None:
    cell = cell_of("{{ query }}", KINDS)
    with pytest.raises(ValueError, match="is not a key of task t"):
        cell_requests.requests(
            [DOC], {"d": prompt.asked(cell, DOC, (), None)}, cell, [key], lambda _: 0
        )


def test_only_what_the_kinds_need_is_rendered() -> None:
    """A task of whole sentences may have no question at all; its generations could not be asked
    for.
    """
    assert (
        prompt.asked(cell_of("", context="", continuation="{{ choice }}"), DOC, (), None).messages
        == ()
    )
    with pytest.raises(Fault, match="gives an empty prompt"):
        prompt.asked(cell_of("", ("generate",)), DOC, (), None)
    with pytest.raises(Fault, match=r"prompt\.template gives an empty text for document d of t"):
        prompt.asked(cell_of("", ("rolling",)), DOC, (), None)
    whole = prompt.asked(
        cell_of(" {{ query }}\n", ("rolling",), system="unused"), DOC, (OPEN,), "unused"
    )
    assert whole == prompt.Asked(text=" 2+2?\n")


# ---- the tasks that come with evalrun ------------------------------------------------------------


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Cell]]:
    """A folder, and the cells of all these tasks, each with its dataset in a folder of the
    task's name.
    """
    folder = tmp_path_factory.mktemp("data")
    names = list(dict.fromkeys(case["task"] for case in CASES))
    paths = [f"tasks.{name}.dataset.path={folder / name}" for name in names]
    overrides = read(["model=smollm2", f"task=[{','.join(names)}]", *paths]).overrides
    return folder, {cell.name: cell for cell in build(composed(overrides), overrides).cells}


def write_rows(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def requests_of(cell: Cell) -> tuple[list[Doc], list[Request]]:
    """Documents and requests of a cell, from the files of its dataset."""
    columns = template_checks.template_columns(cell.prompt)
    loaded = rows.load_rows(cell.dataset)
    template_checks.check_template(cell.prompt, [*loaded.columns, *dict(cell.dataset.columns)])
    docs = make_docs(cell.name, cell.subset, cell.dataset, loaded, None, columns)
    pool_data = fewshot.pool_dataset(cell.dataset, cell.fewshot)
    pool = docs
    if pool_data is not None:
        pool = make_docs(
            cell.name, cell.subset, pool_data, rows.load_rows(pool_data), None, columns
        )
    chosen = fewshot.choose(docs, pool, cell.fewshot)
    docs = fewshot.with_examples(docs, chosen)
    asked = {
        doc.id: prompt.asked(cell, doc, each, None) for doc, each in zip(docs, chosen, strict=True)
    }
    keys = [key for doc in docs for key in cell_requests.keys_of(cell, doc)]
    return docs, list(cell_requests.requests(docs, asked, cell, keys, lambda _: 0))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["task"])
def test_what_a_task_asks(case: dict[str, Any], planned: tuple[Path, dict[str, Cell]]) -> None:
    folder, cells = planned
    cell = cells[f"{case['task']}:{case['subset']}" if "subset" in case else case["task"]]
    cell = replace(cell, fewshot=replace(cell.fewshot, n=case["shots"]))
    if "loglikelihood" in cell.kinds:
        cell = replace(cell, kinds=("loglikelihood", "unconditioned"))
    place = folder / case["task"] / (cell.dataset.name or "")
    write_rows(place / f"{cell.dataset.split}.jsonl", case["rows"])
    if "pool" in case:
        write_rows(place / f"{cell.fewshot.split}.jsonl", case["pool"])
    docs, made = requests_of(cell)
    for doc, wanted in zip(docs, case["asked"], strict=True):
        own = [request for request in made if request.doc_id == doc.id]
        if "text" in wanted:
            assert own == [Rolling(doc.id, wanted["text"])]
            assert (doc.query, doc.gold) == (case["rows"][doc.row]["page"], ())
            continue
        scored = [r for r in own if isinstance(r, Loglikelihood)]
        assert [text_of(r.messages) for r in scored if r.is_conditioned] == wanted["contexts"]
        assert [text_of(r.messages) for r in scored if not r.is_conditioned] == [
            wanted["unconditioned"] for _ in wanted["continuations"]
        ]
        assert [r.continuation for r in scored] == wanted["continuations"] * 2
        as_scored = prompt.as_scored(cell.prompt, doc)
        assert (list(as_scored.choices), list(as_scored.gold)) == (
            wanted["continuations"],
            wanted["gold"],
        )


def test_every_likelihood_task_has_a_case(planned: tuple[Path, dict[str, Cell]]) -> None:
    suite = yaml.safe_load((ROOT / "tasks_yaml/suite/likelihood.yaml").read_text("utf-8"))
    names = suite["defaults"][0]["override /task"]
    assert {*names, "mmlu_cloze"} == {case["task"] for case in CASES}
    subsets = [name.partition(":")[0] for name in planned[1]]
    assert (subsets.count("mmlu"), subsets.count("mmlu_cloze"), subsets.count("blimp")) == (
        57,
        57,
        67,
    )


def task_files() -> dict[str, dict[str, Any]]:
    files = sorted((ROOT / "tasks_yaml" / "task").glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in files}


def test_generative_variants_ask_the_same_questions() -> None:
    tasks = task_files()
    pairs = {name: task["generative"] for name, task in tasks.items() if "generative" in task}
    assert set(pairs) >= {
        "mmlu",
        "arc_easy",
        "arc_challenge",
        "hellaswag",
        "piqa",
        "winogrande",
        "boolq",
        "lambada",
    }
    for name, variant in pairs.items():
        assert tasks[variant]["defaults"][1] == tasks[name]["defaults"][1], name
        assert tasks[variant].get("subsets") == tasks[name].get("subsets"), name


@pytest.mark.parametrize(
    "path", sorted((ROOT / "conf/dataset").glob("*.yaml")), ids=lambda path: path.stem
)
def test_data_of_the_hub_are_pinned(path: Path) -> None:
    data = yaml.safe_load(path.read_text("utf-8"))
    if not data["path"].startswith("package:"):
        assert set(data["revision"]) <= set("0123456789abcdef")
        assert len(data["revision"]) == 40


# ---- prompts of lm-evaluation-harness 0.4.13 -----------------------------------------------------

SUMS = [
    {"question": "What is 2 + 3?", "choices": ["4", "5", "6", "7"], "answer": 1},
    {"question": "Which number is even? ", "choices": ["1", "3", "8", "9"], "answer": 2},
    {"question": "What is 3 x 3?", "choices": ["9", "6", "33", "0"], "answer": 0},
]
LETTERS = (
    "What is 2 + 3?\nA. 4\nB. 5\nC. 6\nD. 7\nAnswer: B\n\nWhich number is even?\nA. 1\nB. 3\nC. "
    "8\nD. 9\nAnswer: C\n\nWhat is 3 x 3?\nA. 9\nB. 6\nC. 33\nD. 0\nAnswer:"
)
TEXTS = (
    "Question: What is 2 + 3?\nAnswer: 5\n\nQuestion: Which number is even?\nAnswer: 8\n\n"
    "Question: What is 3 x 3?\nAnswer:"
)


@pytest.mark.parametrize(
    ("task", "context", "continuations"),
    [("mmlu", LETTERS, [" A", " B", " C", " D"]), ("mmlu_cloze", TEXTS, [" 9", " 6", " 33", " 0"])],
)
def test_one_file_without_subsets_has_no_header(
    task: str, context: str, continuations: list[str], tmp_path: Path
) -> None:
    """The harness's prompts where no subject is described; the examples are the file's own first
    rows.
    """
    write_rows(tmp_path / "sums.jsonl", SUMS)
    own = {
        "subsets": "[]",
        "fewshot.n": 2,
        "fewshot.split": "null",
        "dataset.path": tmp_path / "sums.jsonl",
    }
    overrides = read(
        ["model=smollm2", f"task={task}", *(f"tasks.{task}.{k}={v}" for k, v in own.items())]
    ).overrides
    (cell,) = build(composed(overrides), overrides).cells
    docs, made = requests_of(cell)
    asked = [r for r in made if isinstance(r, Loglikelihood) and r.doc_id == docs[2].id]
    assert [text_of(r.messages) for r in asked] == [context] * 4
    assert [r.continuation for r in asked] == continuations
