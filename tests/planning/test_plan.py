"""The plan: n and k in order, temperature, the address, the JSON form, all files composed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalrun.config import ModelConfig, RunConfig, TaskConfig, places
from evalrun.config.composing import composed
from evalrun.config.schema import DatasetConfig
from evalrun.errors import Fault
from evalrun.metrics import METRICS
from evalrun.planning import build, from_json, to_json
from evalrun.planning.samples import warm
from evalrun.runs.words.arguments import read
from evalrun.types import Cell, Kind, Plan


def planned(*words: str) -> Plan:
    """The plan of a command line."""
    arguments = read(list(words))
    return build(composed(arguments.overrides), arguments.overrides)


def config(metrics: dict[str, Any] | None = None, **changes: Any) -> RunConfig:
    """One task named t with these metrics of its own."""
    task = TaskConfig(
        dataset=DatasetConfig(path="x.jsonl", split="test"),
        extract="number",
        metrics={"accuracy": {}} if metrics is None else metrics,
    )
    return RunConfig(
        model=ModelConfig(name="m", backend="replay", path="p"), tasks={"t": task}, **changes
    )


def counts(cell: Cell) -> dict[str, tuple[Any, int, dict[str, str]]]:
    """Metric -> (k, n, origins)."""
    return {m.key: (dict(m.params).get("k"), m.n, dict(m.origins)) for m in cell.metrics}


# ---- n and k -------------------------------------------------------------------------------------

MET, STR, NRS, KN, NK, DEF = (
    "metric parameter",
    "task string",
    "num_return_sequences",
    "k = n",
    "n = k",
    "default",
)
Row = tuple[
    dict[str, Any], dict[str, Any], int | None, int, dict[str, tuple[Any, int, dict[str, str]]]
]
RESOLVED: list[Row] = [
    # own metrics, task string, num_return_sequences -> n of the cell, each metric's k, n and
    # origins
    ({"accuracy": {}}, {}, None, 1, {"accuracy": (None, 1, {"n": DEF})}),
    ({"accuracy": {}}, {}, 1, 1, {"accuracy": (None, 1, {"n": NRS})}),
    ({"accuracy": {"n": 3}}, {}, None, 3, {"accuracy": (None, 3, {"n": MET})}),
    (
        {"accuracy": {}},
        {},
        4,
        4,
        {
            "accuracy": (None, 4, {"n": NRS}),
            "pass_at_k": (4, 4, {"k": KN, "n": NRS}),
            "cons_at_k": (4, 4, {"k": KN, "n": NRS}),
            "avg_at_n": (None, 4, {"n": NRS}),
        },
    ),
    (
        {"accuracy": {}},
        {"k": 2, "n": 8},
        None,
        8,
        {
            "accuracy": (None, 8, {"n": STR}),
            "pass_at_k": (2, 8, {"k": STR, "n": STR}),
            "cons_at_k": (2, 8, {"k": STR, "n": STR}),
            "avg_at_n": (None, 8, {"n": STR}),
        },
    ),
    (
        {"accuracy": {}},
        {"k": 2},
        None,
        2,
        {
            "accuracy": (None, 2, {"n": NK}),
            "pass_at_k": (2, 2, {"k": STR, "n": NK}),
            "cons_at_k": (2, 2, {"k": STR, "n": NK}),
            "avg_at_n": (None, 2, {"n": NK}),
        },
    ),
    (
        {"accuracy": {}},
        {"k": 2},
        6,
        6,
        {
            "accuracy": (None, 6, {"n": NRS}),
            "pass_at_k": (2, 6, {"k": STR, "n": NRS}),
            "cons_at_k": (2, 6, {"k": STR, "n": NRS}),
            "avg_at_n": (None, 6, {"n": NRS}),
        },
    ),
    (
        {"accuracy": {}},
        {"n": 3},
        6,
        6,
        {
            "accuracy": (None, 3, {"n": STR}),
            "pass_at_k": (3, 3, {"k": KN, "n": STR}),
            "cons_at_k": (3, 3, {"k": KN, "n": STR}),
            "avg_at_n": (None, 3, {"n": STR}),
        },
    ),
    (
        {"pass_at_k": {"k": 1, "n": 16}},
        {"k": 2, "n": 8},
        None,
        16,
        {
            "pass_at_k": (1, 16, {"k": MET, "n": MET}),
            "cons_at_k": (2, 8, {"k": STR, "n": STR}),
            "avg_at_n": (None, 8, {"n": STR}),
        },
    ),
    (
        {"pass_at_k": {"k": 1}},
        {},
        4,
        4,
        {
            "pass_at_k": (1, 4, {"k": MET, "n": NRS}),
            "cons_at_k": (4, 4, {"k": KN, "n": NRS}),
            "avg_at_n": (None, 4, {"n": NRS}),
        },
    ),
    ({"pass_at_k": {"k": 5}}, {}, None, 5, {"pass_at_k": (5, 5, {"k": MET, "n": NK})}),
    (
        {"pass_at_k": {"k": [1, 2, 4]}},
        {},
        None,
        4,
        {"pass_at_k": ((1, 2, 4), 4, {"k": MET, "n": NK})},
    ),
    (
        {"pass_at_k": {"k": [1, 4], "n": 16}},
        {},
        None,
        16,
        {"pass_at_k": ((1, 4), 16, {"k": MET, "n": MET})},
    ),
    (
        {"avg_at_n": {"n": 2}, "maj_at_n": {"n": 3}},
        {},
        None,
        3,
        {"avg_at_n": (None, 2, {"n": MET}), "maj_at_n": (None, 3, {"n": MET})},
    ),
    (
        {"accuracy": {}, "maj_at_n": {"n": 3}},
        {},
        None,
        3,
        {"accuracy": (None, 1, {"n": DEF}), "maj_at_n": (None, 3, {"n": MET})},
    ),
]


@pytest.mark.parametrize(("own", "string", "asked", "n", "expected"), RESOLVED)
def test_n_and_k(
    own: dict[str, Any], string: dict[str, Any], asked: int | None, n: int, expected: dict[str, Any]
) -> None:
    params = {"t": string} if string else {}
    (cell,) = build(config(own, task_params=params, num_return_sequences=asked)).cells
    assert counts(cell) == expected
    assert list(counts(cell)) == list(expected)
    assert cell.n == n
    assert dict(cell.origins)["temperature"] == (
        "one sample: greedy" if n == 1 else "default for n > 1"
    )
    assert cell.sampling.temperature == (0.0 if n == 1 else 0.7)


def test_the_commands_own_metrics_bring_no_others() -> None:
    """The trio is added to a task's own metrics only; what the command names is what it gets."""
    (cell,) = build(config(metrics=None, num_return_sequences=4, task_params={})).cells
    assert len(cell.metrics) == 4
    asked = config(num_return_sequences=4)
    asked.metrics = {"exact_match": {}}
    assert list(counts(build(asked).cells[0])) == ["exact_match"]


UNRESOLVED: list[tuple[dict[str, Any], dict[str, Any], Any, str]] = [
    (
        {"pass_at_k": {}},
        {},
        None,
        "Metric pass@k of task t needs k: how many answers are drawn. Write "
        "metric='pass@k:k=1&n=4'",
    ),
    ({"pass_at_k": {"n": 4}}, {}, None, "Metric pass@k of task t needs k"),
    ({"cons_at_k": {}}, {"n": 4}, None, "Metric cons@k of task t needs k"),
    ({"avg_at_n": {}}, {}, None, "Metric avg@n of task t needs n: how many answers are averaged."),
    ({"maj_at_n": {}}, {}, None, "Metric maj@n of task t needs n"),
    ({"pass_at_k": {"k": 4, "n": 2}}, {}, None, "k=4 is larger than n=2"),
    ({"pass_at_k": {"k": 5}}, {}, 4, "k=5 is larger than n=4"),
    ({"pass_at_k": {"k": [1, 8], "n": 4}}, {}, None, "k=8 is larger than n=4"),
    (
        {"accuracy": {"n": 3}},
        {},
        2,
        "num_return_sequences=2 is below the n=3 that metric accuracy of task t needs (metric "
        "parameter)",
    ),
    (
        {"accuracy": {}},
        {"n": 8},
        4,
        "num_return_sequences=4 is below the n=8 that metric accuracy of task t needs (task "
        "string)",
    ),
    ({"pass_at_k": {"k": 0, "n": 2}}, {}, None, "k must be a positive whole number, got 0"),
    ({"pass_at_k": {"k": True, "n": 2}}, {}, None, "k must be a positive whole number, got True"),
    ({"pass_at_k": {"k": 1, "n": "5"}}, {}, None, "n must be a positive whole number, got '5'"),
    ({"pass_at_k": {"k": 2.5}}, {}, None, "must be a positive whole number"),
    ({"accuracy": {}}, {"n": 0}, None, "n must be a positive whole number, got 0"),
    ({"accuracy": {}}, {"k": -1}, None, "must be a positive whole number, got -1"),
    ({"accuracy": {"q": 1}}, {}, None, "There is no parameter of metric 'accuracy' 'q'"),
    ({"acuracy": {}}, {}, None, "There is no metric 'acuracy'. Did you mean 'accuracy'?"),
    (
        {"accuracy": {}},
        {"scoorer": 1},
        None,
        "There is no parameter 'scoorer' in the task string of t. Did you mean 'scorer'",
    ),
    (
        {"accuracy": 3},
        {},
        None,
        "metrics.accuracy must be a mapping of parameters, such as {} or {n: 4}; got 3.",
    ),
    ({}, {}, None, "Task t has no metric. Say metric=accuracy"),
    *[
        ({"accuracy": {}}, {}, bad, f"num_return_sequences must be a positive integer; got {bad!r}")
        for bad in (0, -1, 2.5, True, "5")
    ],
]


@pytest.mark.parametrize(("own", "string", "asked", "message"), UNRESOLVED)
def test_n_and_k_refused(
    own: dict[str, Any], string: dict[str, Any], asked: Any, message: str
) -> None:
    with pytest.raises(Fault) as caught:
        build(config(own, task_params={"t": string} if string else {}, num_return_sequences=asked))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "5", [1]])
@pytest.mark.parametrize("key", ["limit", "tasks.t.limit"])
def test_limits_refused(bad: Any, key: str) -> None:
    asked = config(limit=bad) if key == "limit" else config()
    asked.tasks["t"].limit = bad if key != "limit" else None
    with pytest.raises(Fault, match=f"{key} must be a positive integer; got "):
        build(asked)


def test_the_set_sampling() -> None:
    (cell,) = planned("metric=sampling", "num_return_sequences=3").cells
    assert counts(cell) == {
        "pass_at_k": ((1,), 3, {"k": MET, "n": NRS}),
        "cons_at_k": (3, 3, {"k": KN, "n": NRS}),
        "avg_at_n": (None, 3, {"n": NRS}),
    }
    (cell,) = planned("metric=sampling", "task=demo_math@k=2&n=8").cells
    assert {key: row[:2] for key, row in counts(cell).items()} == {
        "pass_at_k": ((1,), 8), "cons_at_k": (2, 8), "avg_at_n": (None, 8),
    }  # fmt: skip


def test_task_strings_reach_only_their_task() -> None:
    cells = planned("task=[gsm8k@k=2&n=8|3,demo_math]").cells
    assert [(c.task, c.n, c.fewshot.n, len(c.metrics), dict(c.task_params)) for c in cells] == [
        ("gsm8k", 8, 3, 4, {"k": 2, "n": 8}),
        ("demo_math", 1, 0, 1, {}),
    ]
    with pytest.raises(Fault, match=r"There is no task 'x' in task_params\. Allowed: t"):
        build(config(task_params={"x": {"k": 1}}))


def test_parameters_keep_the_order_in_which_they_were_typed() -> None:
    (metric,) = planned("metric=pass@k:n=16&k=10").cells[0].metrics
    assert (metric.given, metric.is_service) == (("n", "k"), False)
    services = {m.key: m.is_service for m in planned("num_return_sequences=5").cells[0].metrics}
    assert services["pass_at_k"] is True


@pytest.mark.parametrize(
    ("n", "asked", "protocol", "may_be_equal", "expected"),
    [
        (1, None, None, False, (0.0, "one sample: greedy")),
        (1, None, 0.6, False, (0.0, "one sample: greedy")),
        (2, None, None, False, (0.7, "default for n > 1")),
        (2, None, 0.6, False, (0.6, "task")),
        (1, 0.9, 0.6, False, (0.9, "model.temperature")),
        (2, 0.9, 0.6, False, (0.9, "model.temperature")),
        (1, 0.0, None, False, (0.0, "model.temperature")),
        (2, 0.0, None, True, (0.0, "model.temperature")),
    ],
)
def test_temperature(
    n: int,
    asked: float | None,
    protocol: float | None,
    may_be_equal: bool,
    expected: tuple[float, str],
) -> None:
    assert warm(n, asked, protocol, may_be_equal, "t") == expected


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.temperature=0", (
            "model.temperature=0 with n=2 gives 2 equal samples for every document of task "
            "demo_math"
        )),
        ("model.temperature=-1", "model.temperature must be a finite number >= 0; got -1.0"),
        ("model.temperature=nan", "model.temperature must be a finite number >= 0; got nan"),
        ("model.top_p=0", "top_p must be above 0 and at most 1; got 0.0"),
        ("model.top_k=0", "model.top_k must be a positive integer; got 0"),
        ("model.min_p=2", "model.min_p must lie in 0..1; got 2.0"),
        ("model.repetition_penalty=0", (
            "model.repetition_penalty must be a finite number above 0; got 0.0"
        )),
        ("model.max_tokens=0", "max_tokens must be a positive integer; got 0"),
        ("model.concurrency=0", "model.concurrency must be a positive integer; got 0"),
        ("model.retries=-1", "model.retries must be 0 or more"),
        ("model.idle_timeout_s=0", (
            "model.idle_timeout_s must be above 0 seconds, and finite; got 0.0"
        )),
        ("model.total_timeout_s=inf", (
            "model.total_timeout_s must be above 0 seconds, and finite; got inf"
        )),
        ("model.engine.x=nan", (
            "model.engine.x: nan is no finite number, which the plan cannot hold."
        )),
        ("model.engine.x={y: [inf]}", "model.engine.x.y: inf is no finite number"),
        ("max_error_rate=2", "max_error_rate is a share of the rows, 0 to 1; got 2.0"),
        ("tasks.demo_math.fewshot.n=-1", "tasks.demo_math.fewshot.n must be 0 or more; got -1"),
        ("tasks.demo_math.fewshot.rule=best", (
            "tasks.demo_math.fewshot.rule must be first or random; got 'best'"
        )),
        ("dataset.gold_form=word", (
            "gold_form must be one of auto, index, letter, text, flags; got 'word'"
        )),
        ("dataset.path=null", ""),
    ],
)  # fmt: skip
def test_values_refused(word: str, message: str) -> None:
    if not message:
        # an absent layer changes nothing
        assert planned(word).cells[0].dataset.path == "package:demo_math.jsonl"
        return
    with pytest.raises(Fault) as caught:
        planned(word, "num_return_sequences=2")
    assert message in str(caught.value)


def test_the_root_dataset_is_for_the_only_task() -> None:
    (cell,) = planned("dataset.path=/a/b.jsonl", "dataset.columns.query=q").cells
    assert (cell.dataset.path, dict(cell.dataset.columns)["query"]) == ("/a/b.jsonl", "q")
    assert dict(cell.dataset.columns)["gold"] == "answer"
    with pytest.raises(Fault, match=r"Say which: tasks\.gsm8k\.dataset\.path=b\.jsonl"):
        planned("suite=math", "dataset.path=b.jsonl")


def test_subsets_are_cells() -> None:
    asked = config()
    asked.tasks["t"].subsets = ["a", "b"]
    with pytest.raises(
        Fault, match=r"Task t has 2 subsets, but its dataset \(x.jsonl\) is the same for all"
    ):
        build(asked)
    asked.tasks["t"].dataset.name = "{subset}"
    cells = build(asked).cells
    assert [(c.name, c.dataset.name) for c in cells] == [("t:a", "a"), ("t:b", "b")]
    assert len({c.ask_id for c in cells}) == 2


# ---- the JSON form, and everything that can be composed ------------------------------------------


def every_plan() -> list[list[str]]:
    """Every model, every task and suite, each set of metrics, each single metric that is read
    from generations.
    """
    rows = [[f"model={m}", "suite=math"] for m in places.names("model")]
    chosen = [
        *(f"task={t}" for t in places.names("task")),
        *(f"suite={s}" for s in places.names("suite")),
    ]
    rows += [["model=smollm2", c] for c in chosen]
    asked = [m for m in METRICS if METRICS.get(m).reads is Kind.GENERATE]
    rows += [[f"metric={m}", "num_return_sequences=8"] for m in (*places.names("metric"), *asked)]
    return [
        *rows,
        ["suite=math", "metric=sampling", "num_return_sequences=2"],
        ["metric=[pass@k:k=[1,2]&n=4,em]"],
    ]


@pytest.mark.parametrize("words", every_plan(), ids=" ".join)
def test_all_of_conf_composes_into_a_plan(words: list[str]) -> None:
    plan = planned(*words)
    assert plan.cells
    assert from_json(to_json(plan)) == plan
    assert hash(from_json(to_json(plan))) == hash(plan)
    assert all(len(c.ask_id) == 16 and c.metrics for c in plan.cells)


@pytest.mark.parametrize(
    "name", ["mmlu", "arc_easy", "hellaswag", "winogrande", "boolq", "lambada"]
)
def test_a_chat_server_is_sent_to_the_generative_variant(name: str) -> None:
    with pytest.raises(
        Fault,
        match=rf"task {name} reads log-likelihoods .* by generating: task={name}_generative\.",
    ):
        planned("model=openai", "model.path=x", f"task={name}")
    assert planned("model=openai", "model.path=x", f"task={name}_generative").cells[0].kinds == (
        "generate",
    )


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
    max_leaves=6,
)
TEXT = st.text(max_size=12)


@settings(deadline=None, max_examples=30)
@given(VALUES, VALUES, TEXT, TEXT, st.lists(TEXT, max_size=3), st.sampled_from([1, 2, 5]))
def test_json_round_trip(
    engine: Any, body: Any, text: str, system: str, stop: list[str], n: int
) -> None:
    asked = config(num_return_sequences=n, suite_name=text or None)
    asked.model.engine, asked.model.extra_body = {"a": engine}, {"b": body}
    asked.model.system, asked.model.stop = system, stop
    asked.tasks["t"].prompt.template = text
    plan = build(asked)
    again = from_json(to_json(plan))
    assert again == plan
    assert to_json(again) == to_json(plan)
    assert hash(again) == hash(plan)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.json is not a run plan"),
        ("[]", "p.json is not a run plan"),
        ("{}", "p.json is not a run plan"),
        ('{"format_version": 99}', "p.json has plan format 99; this evalrun reads format 1."),
        ('{"format_version": 1}', "p.json is damaged: created is missing"),
    ],
)
def test_what_is_no_plan(text: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        from_json(text, "p.json")
    assert message in str(caught.value)


def test_unknown_fields_of_a_later_minor_version_are_passed_over() -> None:
    plan = build(config())
    data = json.loads(to_json(plan))
    data["later"] = 1
    data["cells"][0]["later"] = [1]
    assert from_json(json.dumps(data)) == plan
