"""What docs/ says is what the code does: the tables of format.md, and every file and command of
tasks.md.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from support.workspace import ROOT, Evalrun, run_folders, values_of, write_bench

from evalrun.config.schema import TaskConfig
from evalrun.stages.summarize import COLUMNS as CSV_COLUMNS
from evalrun.store.cell.reply_rows import PREDICTIONS
from evalrun.store.cell.saved_docs import DOCS
from evalrun.store.cell.verdicts import VERDICTS
from evalrun.types import Cell, Consistency, Counts, Estimate, Plan, Record, State, Status

FORMAT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
TASKS = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")


def table(title: str, text: str = FORMAT) -> list[list[str]]:
    """The rows of the table whose header begins with `| title |` (after `## `: of that section),
    cells stripped.
    """
    if title.startswith("## "):
        text, title = text.partition(f"\n{title}\n")[2], "column"
    body = text.partition(f"\n| {title} |")[2]
    rows = [line for line in body.split("\n\n")[0].splitlines()[2:] if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def first_names(rows: list[list[str]]) -> list[str]:
    """The names in backticks of the first column."""
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize(
    ("section", "schema"),
    [
        ("## Predictions, row version 1", PREDICTIONS.schema),
        ("## Documents", DOCS.schema),
        ("## Verdicts", VERDICTS.schema),
    ],
)
def test_columns_are_described_in_order_with_their_types(section: str, schema: object) -> None:
    words = {
        "large_string": "text",
        "int64": "int",
        "double": "float",
        "bool": "bool",
        "large_list<item: int32>": "list of int",
        "large_list<item: int64>": "list of int",
        "large_list<item: large_string>": "list of text",
    }
    wanted = []
    for field in schema:  # type: ignore[attr-defined]
        kind = words.get(str(field.type), "list of struct")
        wanted.append([f"`{field.name}`", kind + (", null" if field.nullable else "")])
    rows = table(section)
    assert [row[:2] for row in rows] == wanted
    assert all(row[2] for row in rows)


@pytest.mark.parametrize(
    ("title", "names"),
    [
        (
            "header",
            [
                f.name
                for f in fields(Record)
                if f.name not in ("counts", "estimates", "consistency")
            ],
        ),
        ("counts", [f.name for f in fields(Counts)]),
        ("estimate", [f.name for f in fields(Estimate)]),
        ("consistency", [f.name for f in fields(Consistency)]),
        ("## The tidy table", list(CSV_COLUMNS)),
        ("key", [f.name for f in fields(Plan)]),
        ("key of a cell", [f.name for f in fields(Cell)]),
    ],
)
def test_names_are_described(title: str, names: list[str]) -> None:
    described = [name for row in table(title) for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(described) == sorted(names)


def test_states_are_described() -> None:
    assert [status.value for status in Status] == re.findall(
        r"`(\w+)`", table("## Predictions, row version 1")[4][2]
    )
    (row,) = [row for row in table("## Verdicts") if row[0] == "`state`"]
    assert {state.value for state in State} == set(re.findall(r"`(\w+)`", row[2]))


def test_tree_of_a_run_is_described(tmp_path: Path, evalrun: Evalrun) -> None:
    """Every file that a run leaves stands in the tree of format.md, and the other way round."""
    assert evalrun(*write_bench(tmp_path, ["1"]).words()).code == 0
    (run,) = run_folders(tmp_path)
    paths = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    made = {
        re.sub(r"\d{8}_\d{6}(_\d+)?", "TIME", path.replace("replay/gsm8k", "MODEL/TASK"))
        for path in paths
    }
    lines = FORMAT.partition("```\n")[2].partition("```")[0].splitlines()[1:]
    described = {re.sub(r"\d{8}_\d{6}(_\d+)?", "TIME", line.split()[0]) for line in lines}
    described |= {"logs/eval/MODEL/TASK.out", "summary/summary_TIME.md", "summary/summary_TIME.txt"}
    assert made == described


def test_every_key_of_a_task_is_described() -> None:
    rows = table("key", TASKS)
    described = first_names(rows)
    wanted = []
    for field in fields(TaskConfig):
        value = getattr(TaskConfig(), field.name)
        inner = getattr(value, "__dataclass_fields__", None)
        wanted += [f"{field.name}.{key}" for key in inner] if inner else [field.name]
    assert sorted(described) == sorted(wanted)


# ---- tasks.md ------------------------------------------------------------------------------------

ANSWERS = {
    "France": "Paris", "Peru": "Lima", "Kenya": "Mombasa", "Japan": " Tokyo\n",
    "Which bird cannot fly?": "kiwi", "Which bird dives?": "B",
}  # fmt: skip


@pytest.fixture
def page(tmp_path: Path, evalrun: Evalrun) -> Evalrun:
    """The command line in a folder with every file that tasks.md shows; saved answers stand in
    for the model.
    """
    for name, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", TASKS, re.M | re.S):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    rows = [json.dumps({"query": query, "text": text}) for query, text in ANSWERS.items()]
    (tmp_path / "answers.jsonl").write_text("\n".join(rows) + "\n")
    return evalrun


def commands() -> list[str]:
    """The command lines of tasks.md."""
    return [line for line in TASKS.splitlines() if line.startswith("evalrun ")]


@pytest.mark.parametrize("line", commands())
def test_command_of_the_page_runs(line: str, page: Evalrun) -> None:
    words = shlex.split(line)[1:]
    replayed = ["model=replay", "model.path=answers.jsonl"] if "model=smollm2" in words else []
    ran = page(*[word for word in words if word != "model=smollm2"], *replayed)
    assert ran.code == 0, ran.err
    assert ("summary: " in ran.out) == ("--dry-run" not in words and "list" not in words)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["task=capitals"], {"exact_match": 0.75}),
        (["task=birds"], {"exact_match": 0.5}),
        (["task=capitals", "dataset.filter.continent=[Asia,Africa]"], {"exact_match": 0.5}),
        (["task=capitals", "tasks.capitals.extract=null", "metric=accuracy"], {"accuracy": 0.75}),
    ],
)
def test_tasks_of_the_page_score_as_it_says(
    words: list[str], values: dict[str, float], page: Evalrun, tmp_path: Path
) -> None:
    ran = page("--config-dir", "mytasks", "model=replay", "model.path=answers.jsonl", *words)
    assert ran.code == 0, ran.err
    assert values_of(run_folders(tmp_path)[0]) == values


def test_prompts_of_the_page(page: Evalrun) -> None:
    words = ["--config-dir", "mytasks", "--dry-run", "model=replay", "model.path=answers.jsonl"]
    birds = page(*words, "task=birds").out
    assert (
        "Which bird cannot fly?\\nA. kiwi\\nB. swift\\nC. gull\\nAnswer with the text of the "
        "option:" in birds
    )
    shots = page(*words, "task=capitals|2").out
    assert (
        "capital of Peru? Answer with its name alone. Lima\\n\\nWhat is the capital of Kenya?"
        in shots
    )
    assert shots.count("What is the capital of") == 3
    areas = page(*words, "task=geography").out
    assert "task geography:Asia," in areas
    assert "task geography:Africa," in areas


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("# @package tasks.capitals", "# @package tasks.capital"), "first line"),
        (("max_tokens: 16", "max_token: 16"), "max_tokens"),
        (("{{ query }}", "{{ quary }}"), "query"),
        (("gold: capital", "gold: capitol"), "capital"),
        (("exact_match: {}", "exact_mach: {}"), "exact_match"),
    ],
)
def test_mistake_in_a_task_file_is_named(
    change: tuple[str, str], said: str, page: Evalrun, tmp_path: Path
) -> None:
    """Each is exit 2 before anything is asked, with what would be right."""
    file = tmp_path / "mytasks/task/capitals.yaml"
    file.write_text(file.read_text().replace(*change))
    ran = page(
        "--config-dir", "mytasks", "model=replay", "model.path=answers.jsonl", "task=capitals"
    )
    assert ran.code == 2
    assert said in ran.err
    assert not (tmp_path / "outputs").exists()


def test_a_filter_is_set_key_by_key_or_as_a_mapping(page: Evalrun) -> None:
    words = [
        "--config-dir",
        "mytasks",
        "model=replay",
        "model.path=answers.jsonl",
        "task=capitals",
        "--dry-run",
    ]
    ran = page(*words, "dataset.filter={continent: [Asia]}")
    assert (ran.code, ran.out) == (0, page(*words, "dataset.filter.continent=[Asia]").out)
    ran = page(*words, "dataset.filter=Asia")
    assert ran.code == 2
    assert "dataset.filter.KEY=VALUE" in ran.err


def test_a_name_that_exists_twice_is_refused(page: Evalrun, tmp_path: Path) -> None:
    (tmp_path / "mytasks/task/gsm8k.yaml").write_text(
        "# @package tasks.gsm8k\ndefaults: [/task_schema@_here_]\n"
    )
    ran = page(
        "--config-dir",
        "mytasks",
        "--dry-run",
        "model=replay",
        "model.path=answers.jsonl",
        "task=gsm8k",
    )
    assert ran.code == 2
    assert "gsm8k exists twice" in ran.err


def test_suite_of_the_page_is_one_run(page: Evalrun, tmp_path: Path) -> None:
    ran = page("--config-dir", "mytasks", "model=replay", "model.path=answers.jsonl", "suite=world")
    assert ran.code == 0, ran.err
    (run,) = run_folders(tmp_path)
    plan = json.loads((run / "configs/plan.json").read_text())
    assert [(c["task"], c["subset"]) for c in plan["cells"]] == [
        ("capitals", None),
        ("geography", "Asia"),
        ("geography", "Africa"),
    ]
    assert plan["suite"] == "world"
