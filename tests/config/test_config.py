"""The configuration: its keys, the user's files, and what Hydra makes of public reports of
trouble.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from support.running import case
from support.workspace import Bench, Evalrun, write_bench

from evalrun.config import DatasetConfig, ModelConfig, RunConfig, TaskConfig, places, yaml_files
from evalrun.config.composing import composed
from evalrun.config.keys import KeyKind, all_keys, kind
from evalrun.errors import Fault
from evalrun.metrics import parameter_defaults
from evalrun.planning import build
from evalrun.planning.plan_builder import metric_requests
from evalrun.runs.words.arguments import read


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("model", KeyKind.section),
        ("model.name", KeyKind.text),
        ("model.system", KeyKind.text),
        ("model.stop", KeyKind.texts),
        ("model.temperature", KeyKind.other),
        ("model.chat", KeyKind.other),
        ("model.engine", KeyKind.mapping),
        ("metrics", KeyKind.mapping),
        ("model.engine.a.b", KeyKind.open),
        ("dataset.columns.query", KeyKind.column),
        ("dataset.filter.level", KeyKind.open),
        ("tasks", KeyKind.section),
        ("tasks.a", KeyKind.section),
        ("tasks.a.prompt.template", KeyKind.text),
        ("tasks.a.subsets", KeyKind.texts),
        ("tasks.a.dataset.columns.gold", KeyKind.column),
        ("tasks.a.metrics.accuracy.n", KeyKind.open),
        ("limit", KeyKind.other),
        ("reuse", KeyKind.text),
        ("limit.x", None),
        ("model.foo", None),
        ("tasks.a.foo", None),
        ("", None),
        ("model.", None),
        ("foo", None),
    ],
)
def test_what_a_key_holds(key: str, what: KeyKind | None) -> None:
    assert kind(key) is what


def test_every_field_of_type_text_is_quoted() -> None:
    """The kinds come from the dataclasses: each str field is text, no other is, and all can be
    named.
    """
    for prefix, config in (
        ("model", ModelConfig),
        ("dataset", DatasetConfig),
        ("tasks.a", TaskConfig),
        ("", RunConfig),
    ):
        for field in fields(config):
            key = f"{prefix}.{field.name}" if prefix else field.name
            assert (kind(key) is KeyKind.text) == (field.type in ("str", "Optional[str]")), key
            assert (kind(key) is KeyKind.texts) == ("list[str]" in str(field.type)), key
    assert all(kind(key) is not None for key in all_keys(["a"]))
    assert {"model.name", "tasks.a.fewshot.n", "dataset.path", "limit"} <= set(all_keys(["a"]))


@pytest.mark.parametrize("group", yaml_files.GROUPS)
def test_own_files_keep_the_rules(group: str) -> None:
    for name, path in places.names(group).items():
        yaml_files.check_file(group, name, path, places.names("task"))


# ---- the user's files ----------------------------------------------------------------------------

TASK = """\
# @package tasks.mine
defaults: [/task_schema@_here_, _self_]
dataset: {{path: {data}, columns: {{query: question, gold: answer}}}}
extract: number
metrics: {{accuracy: {{}}}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Bench:
    """Two questions, the first answered right."""
    return write_bench(tmp_path, ["1", "0"])


def user_dir(tmp_path: Path, **texts: str) -> list[str]:
    """Write GROUP__NAME=text files to a folder; gives the flag that names it."""
    for place, text in texts.items():
        group, _, name = place.partition("__")
        folder = tmp_path / "mine" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_bytes(
            text.encode("latin-1") if "\xff" in text else text.encode()
        )
    return ["--config-dir", str(tmp_path / "mine")]


def test_own_task_model_and_suite(small: Bench, evalrun: Evalrun, tmp_path: Path) -> None:
    words = user_dir(
        tmp_path,
        task__mine=TASK.format(data=small.data),
        model__echo=f"# Says what it said.\nname: echo\nbackend: replay\npath: {small.answers}\n",
        suite__both=(
            "# @package _global_\ndefaults:\n  - override /task: [mine]\n  - _self_\nsuite_name: "
            "both\n"
        ),
    )
    ran = evalrun("model=echo", "task=mine", *words)
    assert ran.code == 0, ran.err
    assert "50.00 ± 50.00" in ran.out
    ran = evalrun("model=echo", "suite=both", "tasks.mine.limit=1", *words)
    assert ran.code == 0, ran.err
    assert "100.00" in ran.out
    listed = evalrun("list", "models", *words).out
    assert "echo Says what it said." in " ".join(listed.split())
    assert "mine" in evalrun("list", "tasks", f"--config-dir={tmp_path / 'mine'}").out


GOOD = "# @package tasks.mine\ndefaults: [/task_schema@_here_, _self_]\n"
BAD_FILES: list[tuple[str, str, str]] = [
    (
        "task__mine",
        "dataset: {path: x}\n",
        "mine.yaml:1: the first line of a task file must be '# @package tasks.mine'; got 'dataset: "
        "{path: x}'.",
    ),
    (
        "task__mine",
        "# @package tasks.mime\n",
        "mine.yaml:1: the first line of a task file must be '# @package tasks.mine'; got '# "
        "@package tasks.mime'.",
    ),
    (
        "task__mine",
        "\n# @package tasks.mine\n",
        "mine.yaml:1: the first line of a task file must be",
    ),
    ("task__mine", "", "mine.yaml:1: the first line of a task file must be"),
    (
        "task__mine",
        "# @package tasks.mine\ndataset: {path: x}\n",
        "task mine lacks its schema. Its first entry must be `defaults: [/task_schema@_here_, "
        "_self_]`",
    ),
    (
        "task__mine",
        GOOD + "promt: {template: x}\n",
        "mine.yaml:3. Did you mean 'tasks.mine.prompt'? Allowed below tasks.mine: dataset,",
    ),
    (
        "task__mine",
        GOOD + "prompt:\n  tmplate: x\n",
        "There is no setting 'tasks.mine.prompt.tmplate' in ",
    ),
    (
        "task__mine",
        GOOD + "prompt:\n  system: no\n",
        "mine.yaml:4: tasks.mine.prompt.system is text, but YAML reads no as a truth value. Write "
        "it in quotes: 'no'.",
    ),
    (
        "task__mine",
        GOOD + "subsets: [yes, no]\n",
        "tasks.mine.subsets is text, but YAML reads yes as a truth value.",
    ),
    (
        "task__mine",
        GOOD + "dataset: {path: x, revision: 1.10}\n",
        "dataset.revision is text, but YAML reads 1.10 as a number. Write it in quotes: '1.10'.",
    ),
    (
        "task__mine",
        GOOD + "dataset:\n  columns: {gold: no}\n",
        "mine.yaml:4: tasks.mine.dataset.columns.gold is text, but YAML reads no as",
    ),
    (
        "task__mine",
        GOOD + "dataset:\n  columns: {choices: [yes, no]}\n",
        "tasks.mine.dataset.columns.choices is text, but YAML reads yes as",
    ),
    (
        "task__mine",
        GOOD + "sampling: {stop: [1]}\n",
        "tasks.mine.sampling.stop is text, but YAML reads 1 as a number.",
    ),
    (
        "task__mine",
        GOOD + "metrics: [mrr, exact_match]\n",
        "mine.yaml:3: tasks.mine.metrics holds `key: value` lines; got a list. Write {mrr: {}, "
        "exact_match: {}}.",
    ),
    (
        "task__mine",
        GOOD + "metrics: [mrr: {}]\n",
        "mine.yaml:3: tasks.mine.metrics holds `key: value` lines; got a list.",
    ),
    (
        "task__mine",
        GOOD + "metrics: mrr\n",
        "tasks.mine.metrics holds `key: value` lines; got mrr. Write {mrr: {}}.",
    ),
    (
        "task__mine",
        GOOD + "prompt: null\n",
        "mine.yaml:3: tasks.mine.prompt holds `key: value` lines; got null.",
    ),
    (
        "task__mine",
        GOOD + "generative: [a]\n",
        "mine.yaml:3: tasks.mine.generative is one text; got a list.",
    ),
    (
        "task__mine",
        GOOD + "source: {a: b}\n",
        "mine.yaml:3: tasks.mine.source is one text; got `key: value` lines.",
    ),
    (
        "task__mine",
        GOOD + "generative: mmlu_generativ\n",
        "There is no task 'mmlu_generativ' in ",
    ),
    (
        "task__mine",
        GOOD + "prompt: {template: 'x}\n",
        "mine.yaml:4: the YAML is broken: found unexpected end of stream.",
    ),
    ("task__mine", GOOD + "prompt: [a\nb: c\n", "mine.yaml:4: the YAML is broken: "),
    ("task__mine", GOOD + "a: \xff\n", "mine.yaml is not UTF-8 text"),
    ("task__gsm8k", "# @package tasks.gsm8k\n", "task gsm8k exists twice: "),
    ("model__hf", "name: hf\n", "model hf exists twice: "),
    (
        "model__own",
        "# @package model\nname: own\n",
        "own.yaml:1: a model file has no `# @package` line; got '# @package model'. Remove it.",
    ),
    (
        "model__own",
        "name: 007\nbackend: hf\n",
        "own.yaml:1: model.name is text, but YAML reads 007 as a number. Write it in quotes: "
        "'007'.",
    ),
    (
        "model__own",
        "name: own\nbackend: hf\ntemprature: 1\n",
        "own.yaml:3. Did you mean 'model.temperature'?",
    ),
    (
        "model__own",
        "- name\n",
        "own.yaml:1: a configuration file holds `key: value` lines; got a list.",
    ),
    (
        "model__own",
        "just text\n",
        "own.yaml:1: a configuration file holds `key: value` lines; got just text.",
    ),
    (
        "suite__own",
        "defaults: []\n",
        "own.yaml:1: the first line of a suite file must be '# @package _global_'",
    ),
    ("suite__own", "# @package _global_\nlimt: 3\n", "own.yaml:2. Did you mean 'limit'?"),
    (
        "metric__own",
        "accuracy: {}\n",
        "own.yaml:1: the first line of a metric file must be '# @package metrics'",
    ),
    (
        "metric__accuracy",
        "# @package metrics\naccuracy: {}\n",
        "metric accuracy exists twice: as a metric of evalrun and as the file ",
    ),
    ("task__mine", "\ufeff" + GOOD, "mine.yaml:1: the file begins with a byte order mark"),
    ("dataset__own", "path: x\nrevison: y\n", "own.yaml:2. Did you mean 'dataset.revision'?"),
]


@pytest.mark.parametrize(("place", "text", "message"), BAD_FILES)
def test_a_bad_file_is_named_with_its_line(
    place: str, text: str, message: str, evalrun: Evalrun, tmp_path: Path
) -> None:
    ran = evalrun("model=qwen", "task=gsm8k", *user_dir(tmp_path, **{place: text}))
    assert ran.code == 2
    assert message in ran.err, ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""
    assert not (tmp_path / "outputs").exists()


def test_interpolations_are_read(small: Bench, evalrun: Evalrun, tmp_path: Path) -> None:
    task = (
        TASK.format(data=small.data)
        + "prompt: {template: 'Cost \\${x} {{ query }}'}\nlimit: ${seed}\n"
    )
    words = user_dir(tmp_path, task__mine=task)
    ran = evalrun(
        "model=replay", f"model.path={small.answers}", "task=mine", "seed=1", "--dry-run", *words
    )
    assert ran.code == 0, ran.err
    assert "documents    1 (limit 1)" in ran.out
    assert "Cost ${x} question 0" in ran.out


# ---- public reports ------------------------------------------------------------------------------


def words_of(case_id: str) -> list[str]:
    """Overrides of a report, by our names of tasks and max_samples."""
    overrides: list[str] = case("config", case_id)["input"]["overrides"]
    return [
        o.replace("tasks=", "task=")
        .replace("max_samples=", "limit=")
        .replace("stop=", "model.stop=")
        for o in overrides
    ]


def test_cf_001_pipe_and_colon() -> None:
    for word in words_of("CF-001"):
        assert read([word]).overrides == [
            "task=mmlu", "tasks.mmlu.fewshot.n=5", "tasks.mmlu.subsets=['abstract_algebra']",
        ]  # fmt: skip


def test_cf_002_metric_string_bare_and_quoted() -> None:
    for word in words_of("CF-002"):
        config = composed(read([word]).overrides)
        assert config.metrics == {
            "pass_at_k": {**parameter_defaults()["pass_at_k"], "k": 10, "n": 16}
        }
        (metric,) = build(config, read([word]).overrides).cells[0].metrics
        assert (metric.key, metric.given, metric.n) == ("pass_at_k", ("k", "n"), 16)


def test_cf_004_commas() -> None:
    bare, listed, text = (word.replace("mmlu", "demo_math") for word in words_of("CF-004"))
    with pytest.raises(
        Fault,
        match=r"is ambiguous: task=\[gsm8k,demo_math\] asks for them in one run, or `evalrun -m",
    ):
        read([bare])
    assert list(composed(read([listed]).overrides).tasks) == ["gsm8k", "demo_math"]
    assert composed(read([text]).overrides).model.stop == ["a,b"]


def test_cf_005_yes_and_no(tmp_path: Path) -> None:
    """Options of a task come from its data; whatever text a file of ours holds is refused where
    YAML reads a boolean.
    """
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD + "dataset: {columns: {choices: [yes, no]}}\n")
    with pytest.raises(Fault, match=r"YAML reads yes as a truth value\. Write it in quotes: 'yes'"):
        yaml_files.check_file("task", "mine", path)
    path.write_text(GOOD + "dataset: {columns: {choices: ['yes', 'no']}}\n")
    yaml_files.check_file("task", "mine", path)


def test_cf_007_versions_stay_text() -> None:
    model = composed(read(words_of("CF-007")).overrides).model
    assert (model.revision, model.name) == ("1.10", "007")


def test_cf_008_literal_dollar() -> None:
    row = case("config", "CF-008")
    text = row["input"]["yaml"].strip().removeprefix("prompt: ").strip("'")
    assert (
        composed(read([f"model.system={text}"]).overrides).model.system == row["expected"]["value"]
    )


def test_cf_011_misspelt_key(evalrun: Evalrun, tmp_path: Path) -> None:
    ran = evalrun(*words_of("CF-011"))
    assert ran.code == 2
    assert "'model.temprature'" in ran.err
    assert "'model.temperature'" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_cf_013_none_and_null() -> None:
    none, null = words_of("CF-013")
    with pytest.raises(
        Fault, match=r"limit must be a positive integer; got 'None'. Write null for none."
    ):
        build(composed(read([none]).overrides))
    assert build(composed(read([null]).overrides)).cells[0].limit is None


def test_cf_015_asked_for_n() -> None:
    words = ["metric=pass@k:k=1&n=16", "num_return_sequences=1"]
    with pytest.raises(
        Fault,
        match="num_return_sequences=1 is below the n=16 that metric pass_at_k of task demo_math",
    ):
        build(composed(read(words).overrides))
    (cell,) = build(composed(read(words[:1]).overrides)).cells
    assert cell.n == 16


def test_metric_sets_and_single_metrics_go_together() -> None:
    metrics: dict[str, Any] = composed(read(["metric=[sampling,em]"]).overrides).metrics
    assert [w.key for w in metric_requests(metrics, [])] == [
        "pass_at_k",
        "cons_at_k",
        "avg_at_n",
        "exact_match",
    ]


def test_a_subset_that_the_task_does_not_list(evalrun: Evalrun, small: Bench) -> None:
    """Known before anything is loaded; a list of one's own is not held against the file's."""
    ran = evalrun("model=replay", f"model.path={small.answers}", "task=mmlu:astronmy")
    assert ran.code == 2
    assert "There is no subset 'astronmy' in task=mmlu:astronmy" in ran.err
    assert "Did you mean 'astronomy'?" in ran.err
    assert evalrun("--cfg", "job", "task=mmlu:astronomy").code == 0
    assert evalrun("--cfg", "job", "task=mmlu", "tasks.mmlu.subsets=[alchemy]").code == 0
