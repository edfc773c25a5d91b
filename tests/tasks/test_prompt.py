"""Templates -> messages -> requests; and the tasks that come with evalrun."""

from __future__ import annotations

import ast
import json
import operator
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.workspace import ROOT

from evalrun.errors import Fault
from evalrun.tasks.cell_requests import requests
from evalrun.tasks.docs import make_docs
from evalrun.tasks.fewshot import choose, pool_dataset
from evalrun.tasks.prompt import Asked, render
from evalrun.tasks.rows import load_rows
from evalrun.tasks.template_checks import check_template, template_columns
from evalrun.types import Cell, DatasetPlan, Doc, FewshotPlan, Message, PromptPlan, Sampling

DOC = Doc(
    "d",
    "t",
    0,
    "What is {{ 1 }}<b>\x00\x1b?",
    (1,),
    ("red", "green"),
    "s",
    extra=(("level", 3), ("m", {"k": "v"})),
)
EXAMPLE = Doc(
    "e", "t", 1, "Example?", (0,), ("up", "down"), "s", extra=(("level", 1), ("m", {"k": "w"}))
)


def text_of(
    template: str, answer: str = " {{ gold }}", doc: Doc = DOC, examples: tuple[Doc, ...] = ()
) -> str:
    (message,) = render(PromptPlan(template, answer), doc, examples, None)
    assert message.role == "user"
    return message.content


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Q: {{ query }}\n", "Q: What is {{ 1 }}<b>\x00\x1b?\n"),
        (
            "{% for c in choices %}{{ letters[loop.index0] }}) {{ c }}\n{% endfor %}",
            "A) red\nB) green\n",
        ),
        ("{{ subset }} {{ level }} {{ m.k }} {{ m['k'] }}", "s 3 v v"),
        ("Cost is ${price} and $5 for {q}", "Cost is ${price} and $5 for {q}"),
        ("{{ choices | join(', ') }}{% if is_first %}!{% endif %}", "red, green!"),
        (
            r"{{ 'a  b c' | regex_replace('\\s+', ' ') }} {{ level | regex_replace('(\\d)', "
            r"'<\\1>') }}",
            "a b c <3>",
        ),
    ],
)
def test_templates(template: str, expected: str) -> None:
    assert text_of(template) == expected


def test_examples_stand_before_the_question() -> None:
    plan = PromptPlan(
        "{% if is_first %}Choose.\n{% endif %}Q: {{ query }}\nA:",
        " {{ gold_letter }} {{ golds }}",
        separator="\n--\n",
    )
    other = Doc("o", "t", 2, "Third?", ("x", "y"))
    with pytest.raises(Fault, match=r"no name 'gold_letter' in prompt\.answer \(document o of t\)"):
        render(plan, DOC, (EXAMPLE, other), None)
    with pytest.raises(Fault, match=r"no name 'gold' in prompt\.answer \(document o of t\)"):
        render(
            PromptPlan("{{ query }}", "{{ gold }}"), DOC, (Doc("o", "t", 2, "A page", ()),), None
        )
    plan = PromptPlan(plan.template, " {{ gold }}", separator=plan.separator)
    (message,) = render(plan, DOC, (EXAMPLE, other), None)
    assert (
        message.content
        == f"Choose.\nQ: Example?\nA: up\n--\nQ: Third?\nA: x\n--\nQ: {DOC.query}\nA:"
    )
    assert (
        text_of("{{ query }}", "={{ gold_letter }}", examples=(EXAMPLE,))
        == f"Example?=A\n\n{DOC.query}"
    )


@pytest.mark.parametrize(
    ("of_model", "of_doc", "of_prompt", "expected"),
    [
        (None, None, None, None),
        (None, None, "p", "p"),
        (None, "d", "p", "d"),
        ("m", "d", "p", "m"),
        ("", "d", "p", None),
    ],
)
def test_the_system_message(
    of_model: str | None, of_doc: str | None, of_prompt: str | None, expected: str | None
) -> None:
    doc = Doc("d", "t", 0, "q", ("g",), system=of_doc)
    messages = render(PromptPlan("{{ query }}", "", of_prompt), doc, (), of_model)
    assert messages == (*([Message("system", expected)] if expected else []), Message("user", "q"))


@pytest.mark.parametrize(
    ("template", "answer", "expected"),
    [
        ("{{ qury }}", "", r"There is no name 'qury' in prompt\.template\. Did you mean 'query'\?"),
        (
            "{{ query }}",
            "{{ golden }}",
            r"no name 'golden' in prompt\.answer\. Did you mean 'gold'\?",
        ),
        (
            "{{ query }} {{ levl }}",
            "",
            r"no name 'levl' in prompt\.template\. Did you mean 'level'\?",
        ),
        (
            "{{ query }} {{ gold }}",
            "",
            r"prompt\.template names 'gold': the question must not hold its answer",
        ),
        (
            "a\n{{ query",
            "",
            r"prompt\.template, line 2: unexpected end of template.*Allowed: a Jinja2 template",
        ),
        (
            "{{ query | uper }}",
            "",
            r"no filter 'uper' in prompt\.template, line 1\. Did you mean 'upper'\?",
        ),
        (
            "{% if query is strng %}{% endif %}",
            "",
            r"no test 'strng' in prompt\.template, line 1\. Did you mean 'string'\?",
        ),
        ("{{ choices | random }}", "", r"no filter 'random'"),
        (
            "{% include 'x' %}",
            "",
            r"prompt\.template includes, imports or extends another template",
        ),
        ("{{ lipsum() }}", "", r"no name 'lipsum' in prompt\.template"),
    ],
)
def test_faults_of_templates_while_planning(template: str, answer: str, expected: str) -> None:
    with pytest.raises(Fault, match=expected):
        check_template(PromptPlan(template, answer), ["level"])


def test_names_that_are_columns() -> None:
    plan = PromptPlan(
        "{{ query }} {{ level }} {% set x = 1 %}{{ x }}{{ m.k }}", "{{ gold }} {{ why }}"
    )
    assert template_columns(plan) == ("level", "m", "why")
    check_template(plan, ["level", "m", "why", "other"])


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ m.z }}", r"prompt\.template fails on document d of t: .*has no attribute 'z'"),
        ("{{ query + 1 }}", r"fails on document d of t: TypeError: "),
        ("{{ 1 // 0 }}", r"ZeroDivisionError"),
        ("{{ range(10 ** 9) }}", r"OverflowError: Range too big"),
        ("{{ ''.__class__.__mro__ }}", r"SecurityError|unsafe"),
        ("{{ m.update({}) }}", r"fails on document d"),
        (
            "{{ query | regex_replace('(', '') }}",
            r"fails on document d of t: ValueError: regex_replace\('\(', ''\): ",
        ),
        (
            r"{{ query | regex_replace('W', '\\4') }}",
            r"ValueError: regex_replace.*invalid group reference",
        ),
        (
            "{% if false %}x{% endif %} \n",
            r"prompt\.template gives an empty prompt for document d of t",
        ),
    ],
)
def test_faults_of_templates_on_a_document(template: str, expected: str) -> None:
    with pytest.raises(Fault, match=expected):
        text_of(template)


# ---- requests ------------------------------------------------------------------------------------


def cell() -> Cell:
    plan = PromptPlan("{{ query }}", "")
    return Cell(
        "t",
        None,
        "a",
        (),
        "v",
        DatasetPlan("a.jsonl"),
        plan,
        FewshotPlan(),
        None,
        Sampling(8, 0.7),
        3,
        None,
        (),
    )


def test_requests_ask_for_what_is_missing_in_order() -> None:
    docs = [Doc(name, "t", i, name, ("g",)) for i, name in enumerate("zyx")]
    prompts = {doc.id: Asked((Message("user", doc.query),)) for doc in docs}
    keys = [
        ("x", "generate", 1, 0),
        ("z", "generate", 2, 0),
        ("z", "generate", 0, 0),
        ("x", "generate", 1, 0),
    ]
    made = list(requests(docs, prompts, cell(), keys, lambda doc_id: ord(doc_id)))
    assert [(r.doc_id, r.indices, r.seed) for r in made] == [("z", (0, 2), 122), ("x", (1,), 120)]
    assert made[1].messages == (Message("user", "x"),)
    assert made[0].sampling == Sampling(8, 0.7)
    assert set().union(*(r.keys() for r in made)) == set(keys)
    with pytest.raises(ValueError, match=r"unknown documents: \['w'\]"):
        requests(docs, prompts, cell(), [("w", "generate", 0, 0)], ord)
    with pytest.raises(ValueError, match="is not a key of task t"):
        requests(docs, prompts, cell(), [("x", "rolling", 0, 0)], ord)


# ---- the tasks that come with evalrun ------------------------------------------------------------

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def value_of(node: ast.AST) -> Fraction:
    """Exact value of an expression of whole numbers, + - * / and brackets."""
    match node:
        case ast.Expression():
            return value_of(node.body)
        case ast.Constant(value=int()):
            return Fraction(node.value)
        case ast.BinOp():
            return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    raise ValueError(ast.dump(node))


def demo_rows() -> list[dict[str, Any]]:
    return list(load_rows(DatasetPlan("package:demo_math.jsonl")).rows)


def test_demo_math_answers_are_right() -> None:
    rows = demo_rows()
    assert 38 <= len(rows) <= 45
    assert [row["answer"] for row in rows] == [
        str(value_of(ast.parse(row["expression"], mode="eval"))) for row in rows
    ]
    assert [row["id"] for row in rows] == [f"dm{i:02d}" for i in range(1, len(rows) + 1)]
    assert len({row["question"] for row in rows}) == len(rows)


WORDS = {
    "twenty": 20,
    "two": 2,
    "three": 3,
    "four": 4,
    "half": 2,
    "twice": 2,
    "another": 1,
    "percent": 100,
}


def test_demo_math_questions_hold_the_numbers_of_their_expression() -> None:
    for row in demo_rows():
        question = row["question"].lower().replace(",", "")
        there = {int(n) for n in re.findall(r"\d+", question)} | {
            n for word, n in WORDS.items() if word in question
        }
        used = {int(n) for n in re.findall(r"\d+", row["expression"])}
        # a perimeter doubles; "on average" divides by the three named
        assert used - there <= {2, 3}, row["id"]


def task_config(name: str) -> tuple[dict[str, Any], DatasetPlan]:
    task = yaml.safe_load((ROOT / "tasks_yaml" / "task" / f"{name}.yaml").read_text("utf-8"))
    data = yaml.safe_load((ROOT / "conf" / "dataset" / f"{name}.yaml").read_text("utf-8"))
    return task, DatasetPlan(**data | {"columns": tuple(data["columns"].items())})


@pytest.mark.parametrize("name", ["demo_math", "gsm8k"])
def test_task_files(name: str) -> None:
    text = (ROOT / "tasks_yaml" / "task" / f"{name}.yaml").read_text("utf-8")
    assert text.split("\n")[0] == f"# @package tasks.{name}"
    task, _ = task_config(name)
    assert task["defaults"] == ["/task_schema@_here_", {"/dataset": name}, "_self_"]
    keys = {
        "dataset",
        "prompt",
        "fewshot",
        "extract",
        "sampling",
        "metrics",
        "description",
        "source",
        "defaults",
    }
    assert set(task) <= keys
    assert task["extract"] == "number"
    assert task["metrics"] == {"accuracy": {}}
    check_template(PromptPlan(**task["prompt"]), ["question", "answer"])
    assert template_columns(PromptPlan(**task["prompt"])) == ()


def prompts_of(name: str, dataset: DatasetPlan, n: int) -> list[str]:
    task, _ = task_config(name)
    docs = make_docs(name, None, dataset, load_rows(dataset), None)
    plan = FewshotPlan(**task["fewshot"] | {"n": n, "split": None})
    assert pool_dataset(dataset, plan) is None
    prompt = PromptPlan(**task["prompt"])
    return [
        render(prompt, doc, examples, None)[-1].content
        for doc, examples in zip(docs, choose(docs, docs, plan), strict=True)
    ]


def test_demo_math_prompts() -> None:
    _, dataset = task_config("demo_math")
    zero, two = prompts_of("demo_math", dataset, 0), prompts_of("demo_math", dataset, 2)
    question = demo_rows()[0]["question"]
    head = (
        'Solve the problem. Write the calculation, then a last line "Answer:" with the number '
        "alone.\n\n"
    )
    assert zero[0] == f"{head}Problem: {question}"
    assert two[0].startswith(f"{head}Problem: Nadia")
    assert two[0].count("Answer: ") == 2
    assert two[0].endswith(f"\n\nProblem: {question}")
    assert (two[0].count("Solve the problem."), two[0].count("Problem: ")) == (1, 3)


def test_gsm8k_from_a_local_file(tmp_path: Path) -> None:
    rows = [
        {
            "question": f"How many is {i} and {i}?",
            "answer": f"{i}+{i}=<<{i}+{i}={2 * i}>>{2 * i}\n#### {2 * i}",
        }
        for i in (1, 2, 3)
    ]
    path = tmp_path / "gsm8k.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    _, hub = task_config("gsm8k")
    assert re.fullmatch(r"[0-9a-f]{40}", hub.revision or "")
    dataset = DatasetPlan(str(path), hub.name, hub.split, hub.revision, hub.columns)
    docs = make_docs("gsm8k", None, dataset, load_rows(dataset), None)
    assert docs[2].gold == (rows[2]["answer"],)
    (zero, *_), (two, *_) = prompts_of("gsm8k", dataset, 0), prompts_of("gsm8k", dataset, 2)
    assert zero.endswith("\n\nQuestion: How many is 1 and 1?\nAnswer:")
    assert two.endswith(
        f"Question: {docs[2].query}\nAnswer: {rows[2]['answer']}\n\nQuestion: "
        f"{docs[0].query}\nAnswer:"
    )
    assert two.count('End with a line "#### "') == 1


@pytest.mark.skipif(
    "EVALRUN_SHARED" not in os.environ, reason="needs the real GSM8K file (EVALRUN_SHARED)"
)
def test_the_real_gsm8k_file() -> None:
    path = Path(os.environ["EVALRUN_SHARED"]) / "data" / "gsm8k_test.jsonl"
    _, hub = task_config("gsm8k")
    dataset = DatasetPlan(str(path), columns=hub.columns)
    docs = make_docs("gsm8k", None, dataset, load_rows(dataset), None)
    assert len({doc.id for doc in docs}) == len(docs) == 1319
    assert docs[0].gold_texts[0].endswith("#### 18")


def test_suite_file() -> None:
    text = (ROOT / "tasks_yaml" / "suite" / "math.yaml").read_text("utf-8")
    assert text.split("\n")[0] == "# @package _global_"
    assert yaml.safe_load(text) == {
        "defaults": [{"override /task": ["gsm8k", "demo_math"]}, "_self_"],
        "suite_name": "math",
    }
