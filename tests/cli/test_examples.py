"""Every command of README and of the main job, through the real entry point: it composes, and it
runs.

Where a line needs an engine or a server, a saved model stands in under another name; data of the
hub are local folders of their names.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.workspace import ROOT, Evalrun, Ran, run_folders, values_of, write_bench

import evalrun as front_door
from evalrun.errors import Fault

EVALRUN = str(Path(sys.executable).with_name("evalrun"))

# The command lines that the main job is defined by; ... is any name.
MAIN_JOB = """
evalrun model=smollm2 task=demo_math                 # embedded: a real model on a laptop's CPU
evalrun model=qwen task=gsm8k                        # vLLM, Hugging Face hub
evalrun model=vllm_server task=gsm8k model.base_url=http://127.0.0.1:8000/v1
evalrun --mode infer model=... task=...
evalrun --mode eval  model=... task=...              # finds the run by its address
evalrun --mode eval  --reuse latest 'metric=[exact_match,pass@k:k=1&n=2]'     # other metrics
evalrun --mode viz   --reuse latest                  # summary again
evalrun -m model=smollm2,qwen task=demo_math,gsm8k   # sweep, engines loaded once, joint summary
evalrun --dry-run model=... task=...                 # plan, request count, one rendered prompt
evalrun model=... 'task=gsm8k@k=2&n=8'               # LightEval's task string
evalrun model=... 'task=[gsm8k,demo_math]'
evalrun model=... suite=math
evalrun model=... task=demo_math --config-dir DIR
"""


def readme_blocks() -> list[list[str]]:
    """The lines that start with `evalrun ` in each fenced block of README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    lines = [
        [line for line in block.splitlines() if line.startswith("evalrun ")] for block in blocks
    ]
    return [block for block in lines if block]


def words_of(line: str) -> list[str]:
    """The arguments of a command line, its comment left out."""
    return shlex.split(line, comments=True)[1:]


MAIN_LINES = [line for line in MAIN_JOB.splitlines() if line]
LINES = {tuple(words_of(line)): line for block in [*readme_blocks(), MAIN_LINES] for line in block}
COMMANDS = {"import", "list", "status", "stop", "pack"}
COMPOSED = [words for words in LINES if words[0] not in COMMANDS]


def run(folder: Path, *words: str) -> Ran:
    """The console script in `folder`, offline."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    ran = subprocess.run(
        [EVALRUN, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


# ---- every line composes as it stands ------------------------------------------------------------


def combinations(words: list[str]) -> list[list[str]]:
    """The jobs of a sweep, one by one; any other command is its only job."""
    if "-m" not in words:
        return [words]
    choices = [
        [f"{key}={value}" for value in values.split(",")] if values else [key]
        for key, _, values in (word.partition("=") for word in words if word != "-m")
    ]
    return [list(job) for job in itertools.product(*choices)]


@pytest.mark.parametrize("words", COMPOSED, ids=" ".join)
def test_line_composes(words: tuple[str, ...], tmp_path: Path, evalrun: Evalrun) -> None:
    (tmp_path / "DIR").mkdir()
    named = [{"model=...": "model=hf", "task=...": "task=gsm8k"}.get(word, word) for word in words]
    for job in combinations(named):
        ran = evalrun(*job, "--cfg", "job")
        assert ran.code == 0, ran.err
        assert "\ntasks:\n" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["DIR"]


# ---- every line runs -----------------------------------------------------------------------------


def answers_for(questions: list[dict[str, str]], n: int) -> str:
    """n saved answers per question; every third question is answered wrongly in its odd samples."""
    lines = []
    for number, row in enumerate(questions):
        for i in range(n):
            right = row["answer"].rpartition("#### ")[2]
            text = (
                "The answer is 999999." if number % 3 == 0 and i % 2 else f"The answer is {right}."
            )
            lines.append(json.dumps({"query": row["question"], "index": i, "text": text}))
    return "\n".join(lines) + "\n"


def write_hub_rows(folder: Path) -> str:
    """A few rows of the log-likelihood tasks where their names on the hub would be folders;
    saved replies to them.
    """
    quiz = [
        {"question": f"What is {i} + 1?", "choices": ["0", f"{i + 1}", "99", "100"], "answer": 1}
        for i in range(6)
    ]
    subjects = yaml.safe_load((ROOT / "tasks_yaml/task/mmlu.yaml").read_text("utf-8"))["subsets"]
    labelled = {
        "question": "What is 5 + 1?",
        "choices": {"text": ["6", "7"], "label": ["A", "B"]},
        "answerKey": "A",
    }
    scene = {
        "activity_label": "Baking",
        "ctx_a": "A baker kneads.",
        "ctx_b": "he",
        "endings": ["rests.", "flies."],
    }
    files: dict[str, list[dict[str, Any]]] = {
        "MMLU.jsonl": quiz,
        **{f"cais/mmlu/{subject}/dev.jsonl": quiz[:5] for subject in subjects},
        **{f"cais/mmlu/{subject}/test.jsonl": quiz[5:] for subject in subjects},
        "allenai/ai2_arc/ARC-Challenge/test.jsonl": [labelled],
        "Rowan/hellaswag/validation.jsonl": [{**scene, "label": "0"}],
        "EleutherAI/wikitext_document_level/wikitext-2-raw-v1/test.jsonl": [
            {"page": "A page of text."}
        ],
    }
    for name, rows in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [*(row["question"] for row in quiz), "Baking: A baker kneads. He"]
    saved = [
        {"query": q, "kind": "loglikelihood", "index": i, "logprob": -1.0 - i}
        for q in asked
        for i in range(4)
    ]
    saved.append({"query": "A page of text.", "kind": "rolling", "index": 0, "logprob": -9.0})
    return "".join(json.dumps(row) + "\n" for row in saved)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two saved models, a local copy of a hub dataset, and a file with predictions
    of others.
    """
    folder = tmp_path_factory.mktemp("world")
    text = (ROOT / "evalrun/tasks/data/demo_math.jsonl").read_text(encoding="utf-8")
    demo = [json.loads(line) for line in text.splitlines()]
    hub = [
        {"question": f"What is {q} + {q}?", "answer": f"{q} + {q} = {2 * q}\n#### {2 * q}"}
        for q in range(5)
    ]
    place = folder / "openai" / "gsm8k" / "main"
    place.mkdir(parents=True)
    for split in ("train", "test"):
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in hub))
    others = [{**row, "model_a": {"solution": row["answer"]}} for row in hub]
    (folder / "FILE.jsonl").write_text("".join(json.dumps(row) + "\n" for row in others))
    likelihoods = write_hub_rows(folder)
    (folder / "answers.jsonl").write_text(answers_for([*demo, *hub], 8) + likelihoods)
    (folder / "DIR" / "model").mkdir(parents=True)
    for name in ("one", "two"):
        model = f"name: {name}\nbackend: replay\npath: {folder / 'answers.jsonl'}\n"
        (folder / "DIR" / "model" / f"{name}.yaml").write_text(model)
    return folder


def stand_in(words: list[str]) -> list[str]:
    """The same command with saved models for engines; a first answer set gets the samples that
    later lines score.
    """
    found = []
    for word in words:
        key, _, value = word.partition("=")
        if key == "model":
            word = "model=" + ",".join(
                {"qwen": "two"}.get(name, "one") for name in value.split(",")
            )
        if word == "dataset.path=FILE.jsonl" and "task=mmlu_cloze" in words:
            word = "dataset.path=MMLU.jsonl"
        if (
            key not in ("model.base_url", "model.path", "model.repo", "model.weights")
            and word != "task=..."
        ):
            found.append("latest" if word == "RUN" else word)
    if "--mode" in words and "infer" in words:
        found.append("num_return_sequences=2")
    return (
        found
        if "--config-dir" in found or words[0] in COMMANDS
        else [*found, "--config-dir", "DIR"]
    )


SHOWN = {
    "num_return_sequences=5": ("pass@5", "cons@5", "avg@5"),
    "@k=2&n=8": ("pass@k", "cons@k", "avg@n"),
    "pass@k:k=[1,2,4]&n=8": ("pass@k:k=1&n=8", "pass@k:k=2&n=8", "pass@k:k=4&n=8"),
    "metric=[exact_match": ("exact_match", "pass@k"),
    "--dry-run": ("Nothing was sent or written", "prompt of document"),
    "-m model=": ("demo_math", "gsm8k", "one", "two"),
    "suite=math": ("demo_math", "gsm8k"),
    "--mode viz": ("accuracy",),
}


@pytest.mark.parametrize("block", [*readme_blocks(), MAIN_LINES], ids=lambda block: block[0][:60])
def test_block_runs(block: list[str], world: Path) -> None:
    """The lines of a block one after another in one folder, as somebody who reads it would type
    them.
    """
    shutil.rmtree(world / "outputs", ignore_errors=True)
    for line in block:
        ran = run(world, *stand_in(words_of(line)))
        assert ran.code == 0, f"{line}\n{ran.err}"
        wanted = [text for sign, texts in SHOWN.items() if sign in line for text in texts]
        assert [text for text in wanted if text not in ran.out] == [], f"{line}\n{ran.out}"
        is_shown = not {"--dry-run", "infer", *COMMANDS} & set(words_of(line))
        assert ("summary: " in ran.out) == is_shown, line


def test_readme_shows_the_main_job() -> None:
    """Each kind of command of the main job stands in README too."""
    shown = "\n".join(line for block in readme_blocks() for line in block)
    signs = (
        "--mode infer",
        "--mode eval",
        "--mode viz",
        "--reuse latest",
        "-m model=",
        "--dry-run",
        "@k=2&n=8",
    )
    assert [
        sign for sign in (*signs, "suite=", "import FILE", "model.base_url=") if sign not in shown
    ] == []


def test_readme_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


# ---- the log-likelihood tasks of docs/tasks.md, end to end ---------------------------------------

# How likely saved models found each choice, or the text: by question, or by id where no context
# holds the question.
LOGPROBS: dict[str, dict[str, tuple[float, ...]]] = {
    "bird_letters": {
        "Which bird cannot fly?": (-1.0, -2.0, -3.0),
        "Which bird dives?": (-1.5, -2.5),
    },
    "gaps": {"ann": (-3.0, -4.0), "cup": (-5.0, -4.5)},
    "pages": {"A hare runs 3.5 km.": (-12.0,), "It sleeps, then it runs.": (-8.0,)},
}


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("bird_letters", {"loglikelihood_acc": 0.5}),
        ("gaps", {"loglikelihood_acc": 1.0}),
        # 20 nats over the 15 words and 50 bytes of the stored pages, not of what was scored
        ("pages", {"word_perplexity": math.exp(20 / 15), "bits_per_byte": 20 / 50 / math.log(2)}),
    ],
)
def test_likelihood_task_of_the_page(
    task: str, values: dict[str, float], tmp_path: Path, evalrun: Evalrun
) -> None:
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", page, re.M | re.S):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kind, key = (
        ("rolling" if task == "pages" else "loglikelihood"),
        ("doc_id" if task == "gaps" else "query"),
    )
    rows = [
        {key: name, "kind": kind, "index": i, "logprob": logprob}
        for name, logprobs in LOGPROBS[task].items()
        for i, logprob in enumerate(logprobs)
    ]
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = evalrun(
        "--config-dir", "mytasks", "model=replay", "model.path=scores.jsonl", f"task={task}"
    )
    assert ran.code == 0, ran.err
    assert values_of(run_folders(tmp_path)[0]) == pytest.approx(values)


# ---- evalrun.results -----------------------------------------------------------------------------


def test_results_is_the_table_of_a_run(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["11", "10"])
    assert evalrun(*bench.words("num_return_sequences=2")).code == 0
    (folder,) = run_folders(tmp_path)
    frame = front_door.results(folder)
    assert dict(zip(frame["metric"], frame["value"], strict=True)) == values_of(folder)
    assert set(frame["dataset"]) == {"gsm8k"}
    (csv_file,) = folder.glob("summary/*.csv")
    assert list(frame.columns) == csv_file.read_text().splitlines()[0].split(",")


def test_results_of_a_sweep_are_those_of_its_jobs(tmp_path: Path, evalrun: Evalrun) -> None:
    bench = write_bench(tmp_path, ["11", "10"])
    assert evalrun("-m", *bench.words("num_return_sequences=1,2")).code == 0
    frame = front_door.results(str(run_folders(tmp_path)[0]))
    assert sorted(set(frame["n"])) == [1, 2]


def test_results_of_a_folder_without_a_run_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="is not a run folder"):
        front_door.results(tmp_path)
