"""The command line end to end in one process: exit codes, messages, dry runs, what is printed
and what is written.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.chat_servers import mock
from support.workspace import ROOT, Bench, Evalrun, run_folders, values_of, write_bench

from evalrun.backends.replay.backend import ReplayBackend
from evalrun.cli import main
from evalrun.runs.sweep import exit_code


@pytest.fixture
def small(tmp_path: Path) -> Bench:
    """Two questions with three samples each: the first has two right."""
    return write_bench(tmp_path, ["110", "000"])


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder, with size and time."""
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*")}


REFUSED: list[tuple[list[str], str]] = [
    (
        ["model=nope"],
        "There is no model 'nope' in model=nope. Did you mean 'openai'? Allowed: deploy, hf, "
        "openai,",
    ),
    (
        ["task=gsm8"],
        "There is no task 'gsm8' in task=gsm8. Did you mean 'gsm8k'? Allowed: arc_challenge, ",
    ),
    (
        ["task=[gsm8k,demo_mat]"],
        "There is no task 'demo_mat' in task=[gsm8k,demo_mat]. Did you mean 'demo_math'?",
    ),
    (
        ["suite=maths"],
        "There is no suite 'maths' in suite=maths. Did you mean 'math'? Allowed: "
        "choices_generative, likelihood, math.",
    ),
    (
        ["metric=acuracy"],
        "There is no metric 'acuracy' in metric=acuracy. Did you mean 'accuracy'?",
    ),
    (["judge=none2"], "There is no judge 'none2' in judge=none2. Did you mean 'none'?"),
    (["summary=tabel"], "There is no summary 'tabel' in summary=tabel. Did you mean 'table'?"),
    (["-m", "model=hf,nope"], "There is no model 'nope' in model=hf,nope."),
    (["-m", "task=[gsm8k],[gsm8]"], "There is no task 'gsm8' in task=[gsm8k],[gsm8]."),
    (
        ["model.backend=hff"],
        "There is no backend 'hff' in model.backend. Did you mean 'hf'?",
    ),
    (
        ["model.temprature=1"],
        "There is no setting 'model.temprature' in the command line. Did you mean 'model.temper",
    ),
    (
        ["tasks.gsm8k.limit=3"],
        "tasks.gsm8k.limit sets task gsm8k, which is not asked for: demo_math. Add task=gsm8k.",
    ),
    (
        ["tasks.gsm9k.limit=3"],
        "There is no task 'gsm9k' in tasks.gsm9k.limit. Did you mean 'gsm8k'?",
    ),
    (
        ["-m", "task=gsm8k,demo_math", "tasks.gsm8k.limit=3"],
        "tasks.gsm8k.limit sets task gsm8k, which is not asked for here",
    ),
    (
        ["metrics.accuracy.q=1"],
        "There is no parameter of metric 'accuracy' 'q'. Allowed: n, scorer.",
    ),
    (["metric=pass@k"], "Metric pass@k of task demo_math needs k: how many answers are drawn."),
    (
        ["model.max_tokens=many"],
        "model.max_tokens=many: Value 'many' of type 'str' could not be converted to Integer.",
    ),
    (
        ["model.chat=rew"],
        "model.chat=rew: Invalid value 'rew', expected one of [auto, template, raw].",
    ),
    (["resume=perhaps"], "resume=perhaps: Value 'perhaps' is not a valid bool"),
    (
        ["seed=a=b"],
        "seed=a=b cannot be read (mismatched input '=' expecting <EOF>). Put a value with special "
        "characters in",
    ),
    (["model.engine.x=[1"], "model.engine.x=[1 cannot be read"),
    (
        ["model.system=${"],
        "no viable alternative at input '${'. ${NAME} stands for another setting; a plain one is "
        "written \\${.",
    ),
    (
        ["model.system=${price}"],
        "model.system cannot be resolved: Interpolation key 'price' not found. ${NAME} stands for",
    ),
    (["limit=0"], "limit must be a positive integer; got 0."),
    (["--limit", "-1"], "limit must be a positive integer; got -1."),
    (["--limit", "2.5"], "limit must be a positive integer; got 2.5."),
    (["limit=true"], "limit must be a positive integer; got True."),
    (['limit="5"'], "limit must be a positive integer; got '5'."),
    (["limit=None"], "limit must be a positive integer; got 'None'. Write null for none."),
    (["num_return_sequences=0"], "num_return_sequences must be a positive integer; got 0."),
    (["num_return_sequences=true"], "num_return_sequences must be a positive integer; got True."),
    (
        ["suite=math", "dataset.path=x.jsonl"],
        "dataset.path=x.jsonl is for the only task, but 2 were asked for (gsm8k, demo_math).",
    ),
    (
        ["-m", "limit=0,-1"],
        "limit must be a positive integer; got 0.\nevalrun: limit must be a positive integer; got "
        "-1.",
    ),
    (
        ["--dry-run", "--mode", "eval"],
        "--dry-run shows what would be asked; --mode eval asks nothing.",
    ),
    (
        ["--config-dir", "nowhere"],
        "--config-dir nowhere is not a folder. It should hold task/NAME.yaml, model/NAME.yaml, ...",
    ),
    (["model=replay", "model.path=null"], "Model replay (backend replay) has no model.path."),
    (
        ["model=vllm_server", "model.base_url=null"],
        "Model vllm_server (backend openai_chat) has no model.base_url. Say model.base_url=",
    ),
    (
        ["--mode", "eval"],
        "There are no saved predictions of this address in outputs: model smollm2, task demo_math.",
    ),
    (["--mode", "eval", "--reuse", "latest"], "--reuse latest: there is no run in outputs."),
    (["--resume"], "There is no run of this address to resume in outputs"),
    (["list", "taks"], "There is no list 'taks' in evalrun list. Did you mean 'tasks'?"),
    (["list", "tasks", "--config-dir"], "--config-dir needs a folder."),
]


@pytest.mark.parametrize(
    ("words", "message"), REFUSED, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_a_fault_is_one_paragraph_and_writes_nothing(
    words: list[str], message: str, evalrun: Evalrun, tmp_path: Path
) -> None:
    ran = evalrun(*words)
    assert message in ran.err, ran.err
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1 + message.count("\n")
    assert ran.err.startswith("evalrun: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["model=nope"], ["limit=0"], ["--modee"], ["model.max_tokens=x"]]
)
def test_debug_adds_the_trace(words: list[str], evalrun: Evalrun) -> None:
    ran = evalrun("--debug", *words)
    assert ran.code == 2
    assert "Traceback (most recent call last)" in ran.err
    assert ran.err.splitlines()[-1].startswith("evalrun: ")


def test_help_version_and_no_words(evalrun: Evalrun) -> None:
    for words in (["--help"], ["-h"], ["help"], ["model=hf", "--help"], ["-m", "-h"]):
        ran = evalrun(*words)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("evalrun: ask a language model every question")
    nothing = evalrun()
    assert nothing.code == 2
    assert "Exit codes: 0 good" in nothing.out
    assert evalrun("--version").out.startswith("evalrun 0.")


def test_every_flag_of_the_help_is_read() -> None:
    from evalrun.cli.help import HELP
    from evalrun.runs.words.flags import FLAGS

    shown = {
        word.strip(",")
        for line in HELP.splitlines()
        for word in line.split()
        if word.startswith("--")
    }
    assert {flag for flag in shown if flag in FLAGS} >= {
        "--mode",
        "--reuse",
        "--resume",
        "--limit",
        "--dry-run",
        "--cfg",
    }
    # of `evalrun import`
    assert shown - set(FLAGS) == {"--question", "--gold", "--prediction", "--task", "--model"}


def test_cfg_prints_and_runs_nothing(small: Bench, evalrun: Evalrun, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    ran = evalrun(*small.words("--cfg", "job", "model.revision=1.10"))
    assert (ran.code, ran.err) == (0, "")
    assert "  revision: '1.10'\n" in ran.out
    assert "\ntasks:\n  gsm8k:\n" in ran.out
    part = evalrun(*small.words("--cfg", "job", "--package", "model", "--resolve"))
    assert part.out.startswith("# @package model\nname: replay\n")
    assert evalrun("--info", "defaults").code == 0
    assert evalrun("--hydra-help").code == 0
    assert snapshot(tmp_path) == before


def test_lists(evalrun: Evalrun) -> None:
    every = evalrun("list").out
    assert [line for line in every.splitlines() if not line.startswith(" ")] == [
        "tasks:",
        "models:",
        "suites:",
        "metrics:",
    ]
    assert re.search(r"^  gsm8k +1,319 grade-school word problems", every, re.M)
    assert re.search(r"^  math +\[gsm8k, demo_math\]", every, re.M)
    assert "also: pass@k" in evalrun("list", "metrics").out
    assert re.search(r"^  demo_math +40 arithmetic", evalrun("list", "tasks").out, re.M)


# ---- dry runs ------------------------------------------------------------------------------------


def test_dry_run_shows_all_and_writes_nothing(
    small: Bench, evalrun: Evalrun, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    ran = evalrun(*small.words("--dry-run", "task=gsm8k@k=2&n=3"))
    assert (ran.code, ran.err) == (0, "")
    for line in (
        f"model replay: backend replay, path {small.answers}",
        "  documents    2",
        "  n            3  (accuracy: task string)",
        "  temperature  0.7  (default for n > 1)",
        "  max_tokens   512  (task)",
        "  metric       pass_at_k(k=2, n=3, threshold=1.0)  [k: task string, n: task string]",
        "requests: 6 answers in all. Nothing was sent or written.",
        "question 0 of bench?",
    ):
        assert line in ran.out, ran.out
    assert snapshot(tmp_path) == before
    again = evalrun("-m", *small.words("--dry-run", "seed=1,2"))
    assert again.code == 0
    assert again.out.count("Nothing was sent or written.") == 2
    assert snapshot(tmp_path) == before


def test_dry_run_sends_nothing(small: Bench, evalrun: Evalrun, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    with mock() as server:
        words = [
            "model=vllm_server",
            f"model.base_url={server.url}/v1",
            "task=gsm8k",
            f"dataset.path={small.data}",
        ]
        ran = evalrun("--dry-run", *words)
        assert ran.code == 0, ran.err
        assert "requests: 2 answers in all. Nothing was sent or written." in ran.out
        assert server.stats["requests"] == 0
        evalrun("--mode", "infer", *words)
        assert server.stats["requests"] > 0  # the same command without the flag does ask
    assert set(snapshot(tmp_path)) > set(before)


# ---- what the names of numbers are ---------------------------------------------------------------


def test_display_names_keep_the_order_given(small: Bench, evalrun: Evalrun, tmp_path: Path) -> None:
    assert evalrun(*small.words("num_return_sequences=3")).code == 0
    shown = values_of(run_folders(tmp_path)[-1])
    assert shown == {
        "accuracy": pytest.approx(1 / 3),
        "pass@3": 0.5,
        "cons@3": 0.5,
        "avg@3": pytest.approx(1 / 3),
    }
    for word, name, value in (
        ("metric=pass@k:n=3&k=2", "pass@k:n=3&k=2", 0.5),
        ("metric=pass@k:k=2&n=3", "pass@k:k=2&n=3", 0.5),
        ("metric=pass@k:k=1", "pass@k:k=1", 1 / 3),
        ("metric=avg@n", "avg@3", 1 / 3),
    ):
        ran = evalrun("--mode", "eval", "--reuse", "latest", word)
        assert ran.code == 0, ran.err
        assert values_of(run_folders(tmp_path)[-1])[name] == pytest.approx(value)


def test_a_list_of_k_gives_one_number_each(small: Bench, evalrun: Evalrun, tmp_path: Path) -> None:
    assert evalrun(*small.words("metric=pass@k:k=[1,2,3]&n=3")).code == 0
    assert values_of(run_folders(tmp_path)[-1]) == {
        "pass@k:k=1&n=3": pytest.approx(1 / 3), "pass@k:k=2&n=3": 0.5, "pass@k:k=3&n=3": 0.5,
    }  # fmt: skip


# ---- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 2], 2), ([2, 1, 3], 1), ([0, 130], 130),
        ([1, 143], 143),
        ([143, 130], 130),
    ],
)  # fmt: skip
def test_exit_codes_together(codes: list[int], code: int) -> None:
    assert exit_code(codes) == code


def test_ctrl_c_is_130(small: Bench, evalrun: Evalrun, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ReplayBackend, "run", stop)
    ran = evalrun(*small.words())
    assert ran.code == 130
    assert "Stopped by SIGINT." in ran.err
    assert "--resume with the same settings goes on from there." in ran.err


def test_an_internal_fault_is_1_and_asks_for_debug(
    small: Bench, evalrun: Evalrun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("odd \x1b[31m")

    monkeypatch.setattr("evalrun.runs.execute.build", broken)
    ran = evalrun(*small.words())
    assert ran.code == 1
    assert "RuntimeError: odd \\x1b[31m. Run again with --debug for the whole trace." in ran.err
    assert "Traceback" not in ran.err


def test_sigterm_is_143(small: Bench, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "evalrun", *small.words("model.engine.delay_s=30")]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "loading replay" in line or "run folder" in line:
            break
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    assert process.wait(30) == 143
    assert "Stopped by SIGTERM." in rest


# ---- the shell -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("evalrun model=", ["model=deploy", "model=hf", "model=openai", (
            "model=openai_completions"
        ), "model=qwen",
                            "model=replay", "model=smollm2", "model=vllm", (
                                "model=vllm_completions"
                            ), "model=vllm_server"]),
        ("evalrun task=gs", ["task=gsm8k"]),
        ("evalrun task=[gs", ["task=[gsm8k"]),
        ("evalrun task=[gsm8k,de", ["task=[gsm8k,demo_math"]),
        ("evalrun metric=pass_a", ["metric=pass_at_k"]),
        ("evalrun --mode ", ["all", "eval", "infer", "viz"]),
        ("evalrun --mode eval task=d", ["task=demo_math"]),
        ("evalrun --d", ["--debug", "--dry-run"]),
        ("evalrun --cfg ", ["all", "hydra", "job"]),
        ("evalrun --limit 3 --dry-run model=replay model.top", ["model.top_k=", "model.top_p="]),
        ("evalrun 'task=gsm8k@k=2&n=8' num", ["num_return_sequences="]),
        ("evalrun task=gsm8k tasks.gsm8k.fewshot.s", ["tasks.gsm8k.fewshot.seed=", (
            "tasks.gsm8k.fewshot.split="
        )]),
        ("evalrun foo=1 model.temp", []),
    ],
)  # fmt: skip
def test_completion(
    line: str,
    offered: list[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert main(["-sc", "query=bash"]) == 0
    assert capfd.readouterr().out.split() == offered


def test_completion_is_installed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-sc", "install=bash"]) == 0
    assert capfd.readouterr().out.rstrip().endswith("hydra_bash_completion evalrun")


# ---- speed ---------------------------------------------------------------------------------------

HEAVY = ("torch", "vllm", "transformers", "datasets", "pandas", "scipy.stats", "aiohttp")


def loaded_after(words: list[str], folder: Path) -> tuple[int, set[str]]:
    """(exit code, heavy modules that were imported) of one command in a process of its own."""
    code = (
        "import sys, json; from evalrun.cli import main; code = main(json.loads(sys.argv[1]));"
        "print('MODULES', code, *[m for m in json.loads(sys.argv[2]) if m in sys.modules], "
        "file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, json.dumps(words), json.dumps(HEAVY)]
    ran = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("MODULES")]
    return int(line.split()[1]), set(line.split()[2:])


def test_eval_loads_no_backend_and_no_data_library(
    small: Bench, evalrun: Evalrun, tmp_path: Path
) -> None:
    assert evalrun(*small.words("--mode", "infer", "num_return_sequences=3")).code == 0
    code, heavy = loaded_after(["--mode", "eval", "--reuse", "latest"], tmp_path)
    assert (code, heavy) == (0, set())
    assert values_of(run_folders(tmp_path)[-1])["pass@3"] == 0.5


def test_help_loads_nothing(tmp_path: Path) -> None:
    names = "('hydra', 'omegaconf', 'numpy', 'pyarrow')"
    code = "import sys; from evalrun.cli import main; main(['--help']);"
    code += f"print([m for m in sys.modules if m.split('.')[0] in {names}])"
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    print(f"evalrun --help: {time.perf_counter() - began:.2f} s")
    assert ran.stdout.splitlines()[-1] == "[]"
