"""Faults that users of test services met, as whole commands against the mock server.

Numbers: the list of traps.
"""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.chat_servers import RIGHT, Mock, mock, plan, row_of
from support.running import counts_of, rows_of
from support.workspace import Evalrun, Ran, run_folders, values_of

from evalrun.backends.base import split_reasoning
from evalrun.types import Reply


class Asked:
    """A command over arithmetic questions, and what it left behind."""

    def __init__(
        self, evalrun: Evalrun, folder: Path, server: Mock, questions: list[str], *words: str
    ) -> None:
        data = folder / "questions.jsonl"
        with data.open("w") as file:
            for i, marks in enumerate(questions):
                file.write(
                    json.dumps({"question": f"{marks} {i} + 10", "answer": f"#### {i + 10}"}) + "\n"
                )
        self.folder = folder
        self.ran: Ran = evalrun(
            "model=vllm_server",
            f"model.base_url={server.url}",
            "task=gsm8k",
            f"dataset.path={data}",
            "model.retries=1",
            *words,
        )

    @property
    def run(self) -> Path:
        return run_folders(self.folder)[-1]

    @property
    def rows(self) -> list[Reply]:
        return rows_of(self.run, "vllm_server")

    @property
    def counts(self) -> dict[str, int]:
        return counts_of(self.run, "vllm_server")

    @property
    def values(self) -> dict[str, float]:
        return {name: round(100 * value, 2) for name, value in values_of(self.run).items()}

    def table(self) -> list[dict[str, str]]:
        (path,) = (self.run / "summary").glob("*.csv")
        return list(csv.DictReader(path.open(newline="")))

    def written(self) -> str:
        """Every text file of the run, and what was shown."""
        texts = [
            p.read_bytes().decode("utf-8", "replace") for p in self.run.rglob("*") if p.is_file()
        ]
        return "\n".join([*texts, self.ran.out, self.ran.err])


def test_trap_01_samples_are_grouped_by_question(evalrun: Evalrun, tmp_path: Path) -> None:
    with mock() as server:
        questions = [f"[[pattern={1 if i % 3 == 0 else 0}]]" for i in range(12)]
        asked = Asked(evalrun, tmp_path, server, questions, "num_return_sequences=3")
    assert asked.ran.code == 0, asked.ran.err
    assert {asked.values[name] for name in ("pass@3", "cons@3", "avg@3")} == {33.33}


@pytest.mark.parametrize("fault", ["429", "500", "503", "reset"])
def test_trap_04_passing_errors_are_tried_again(
    evalrun: Evalrun, tmp_path: Path, fault: str
) -> None:
    with mock(retry_after=0.6) as server:
        begun = time.monotonic()
        asked = Asked(evalrun, tmp_path, server, [f"[[fault={fault} x 2]]"], "model.retries=3")
        assert time.monotonic() - begun > (1.2 if fault in ("429", "503") else 0.5)
        assert server.stats["requests"] == 3
    assert (asked.ran.code, asked.values["accuracy"]) == (0, 100.0)
    assert asked.rows[0].attempts == 3


def test_trap_05_failures_are_counted_and_end_the_run_badly(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    with mock() as server:
        asked = Asked(evalrun, tmp_path, server, ["", "", "", "", "[[fault=500]]"])
    assert asked.ran.code == 3
    assert asked.counts == {"n_error": 1}
    (line,) = [line for line in asked.table() if line["metric"] == "accuracy"]
    assert (line["value"], line["n_error"], line["n_docs"]) == ("0.8", "1", "5")
    assert "1 of 5" in asked.ran.out, asked.ran.out
    assert [r.error_message for r in asked.rows if r.is_failure] == ["mock 500"]


ONCE = [
    # trap, fault of the first attempt, requests
    (6, "cut", 2),
    (7, "cleancut", 2),
    (8, "errorevent", 2),
    (9, "keepalive", 1),
    (9, "crlf", 1),
    (9, "nospace", 1),
    (9, "eventlines", 1),
    (9, "multidata", 1),
    (9, "bom", 1),
    (9, "split", 1),
    (9, "onebyte", 1),
    (9, "bigchunk", 1),
    (10, "emptychunk", 1),
    (10, "usageevery", 1),
    (11, "emptychoices", 2),
    (11, "empty200", 2),
]


@pytest.mark.parametrize(("trap", "fault", "n_requests"), ONCE)
def test_trap_06_07_08_09_10_11_one_fault(trap: int, fault: str, n_requests: int) -> None:
    with mock() as server:
        row = row_of(plan(server.url), f"[[fault={fault} x 1]] 7 + 5")
        assert server.stats["requests"] == n_requests
    assert (row.text, row.status, row.raw_text) == (RIGHT, "ok", None)
    if trap == 10:
        assert (row.completion_tokens, row.prompt_tokens) == (12, 6)


def test_trap_07_a_stream_that_is_always_cut_is_a_failure(evalrun: Evalrun, tmp_path: Path) -> None:
    with mock() as server:
        asked = Asked(evalrun, tmp_path, server, ["", "[[fault=cleancut]]"])
    assert asked.ran.code == 3
    assert [(r.status, r.error_type, r.attempts, r.text) for r in asked.rows][1] == (
        "incomplete",
        "incomplete",
        2,
        None,
    )


def test_trap_08_the_message_of_an_error_in_a_stream_is_kept(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    with mock() as server:
        asked = Asked(evalrun, tmp_path, server, ["", "[[fault=errorevent]]"])
    assert (asked.rows[1].error_type, asked.rows[1].error_message) == ("error_event", "engine died")
    assert "engine died" in (asked.run / "logs" / "infer" / "vllm_server" / "gsm8k.out").read_text()


def test_trap_11_an_empty_answer_is_wrong_and_counted(evalrun: Evalrun, tmp_path: Path) -> None:
    with mock() as server:
        asked = Asked(evalrun, tmp_path, server, ["", "[[fault=nullcontent]]"])
    assert asked.ran.code == 0
    assert asked.values["accuracy"] == 50.0
    assert [r.status for r in asked.rows] == ["ok", "empty"]
    assert asked.counts["n_empty"] == 1


THOUGHTS = [
    ("think", 100.0, {}),
    ("think-open", 100.0, {}),
    ("field", 100.0, {}),
    ("think-only", 0.0, {"n_empty": 3}),
    ("field-only", 0.0, {"n_empty": 3}),
]


@pytest.mark.parametrize(("style", "accuracy", "counts"), THOUGHTS)
def test_trap_12_thoughts_are_never_scored(
    evalrun: Evalrun, tmp_path: Path, style: str, accuracy: float, counts: dict[str, int]
) -> None:
    with mock(style=style) as server:
        asked = Asked(evalrun, tmp_path, server, ["", "", ""])
    assert asked.ran.code == 0
    assert asked.values["accuracy"] == accuracy
    assert all(r.reasoning for r in asked.rows)
    assert {k: v for k, v in asked.counts.items() if k == "n_empty"} == counts
    if style.startswith("think"):
        assert all(r.raw_text for r in asked.rows)


def test_trap_13_nested_tags_are_cut_after_the_last_one() -> None:
    assert split_reasoning("<think>a</think>b</think>c") == ("a</think>b", "c")
    assert split_reasoning("a</think>b</think>c") == ("a</think>b", "c")


def test_trap_22_nothing_but_failures_says_why(evalrun: Evalrun, tmp_path: Path) -> None:
    with mock(("500",)) as server:
        asked = Asked(evalrun, tmp_path, server, [""] * 6)
    assert asked.ran.code == 3
    assert asked.counts["n_error"] == 6
    assert "6 of 6" in asked.ran.out
    assert "logs/infer/vllm_server/gsm8k.out" in asked.ran.out


def test_trap_25_a_stream_that_hangs_is_given_up(evalrun: Evalrun, tmp_path: Path) -> None:
    with mock(hang=60.0, slow=0.2) as server:
        begun = time.monotonic()
        questions = ["[[fault=hang x 1]]", "[[fault=slow]]"]
        asked = Asked(evalrun, tmp_path, server, questions, "model.idle_timeout_s=1")
        assert time.monotonic() - begun < 30
        assert server.stats["requests"] == 3
    assert asked.values["accuracy"] == 100.0
    assert [r.attempts for r in asked.rows] == [2, 1]


def test_trap_26_only_what_the_api_knows_is_sent(evalrun: Evalrun, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with mock(strict=True, log=str(log)) as server:
        asked = Asked(
            evalrun,
            tmp_path,
            server,
            [""] * 3,
            "num_return_sequences=4",
            "+model.extra_body.ignore_eos=false",
        )
        assert server.stats["unknown_fields"] == {}
    assert asked.ran.code == 0
    keys = {
        "model",
        "messages",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "max_tokens",
        "seed",
        "ignore_eos",
    }
    assert {frozenset(json.loads(line)["body"]) for line in log.open()} == {frozenset(keys)}


def test_trap_27_truncated_answers_are_counted(evalrun: Evalrun, tmp_path: Path) -> None:
    with mock() as server:
        asked = Asked(evalrun, tmp_path, server, ["", "", "", "[[fault=length]]"])
    assert asked.ran.code == 0
    assert asked.counts["n_truncated"] == 1
    assert [r.finish_reason for r in asked.rows] == ["stop"] * 3 + ["length"]
    (line,) = [line for line in asked.table() if line["metric"] == "accuracy"]
    assert line["n_truncated"] == "1"


def test_trap_29_equal_samples_are_refused_and_seeds_differ(
    evalrun: Evalrun, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    with mock(log=str(log)) as server:
        refused = Asked(
            evalrun, tmp_path, server, [""], "num_return_sequences=3", "model.temperature=0"
        )
        assert refused.ran.code == 2
        assert "allow_equal_samples" in refused.ran.err
        assert server.stats["requests"] == 0
        allowed = Asked(
            evalrun,
            tmp_path,
            server,
            [""],
            "num_return_sequences=3",
            "model.temperature=0",
            "allow_equal_samples=true",
        )
    assert allowed.ran.code == 0
    seeds = sorted(json.loads(line)["body"]["seed"] for line in log.open())
    assert seeds == [seeds[0], seeds[0] + 1, seeds[0] + 2]
    assert [r.seed for r in allowed.rows] == seeds


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_trap_31_every_form_of_an_address(host: str, tail: str) -> None:
    with mock() as server:
        assert row_of(plan(server.url.replace("127.0.0.1", host) + tail)).status == "ok"


def test_trap_31_a_key_is_never_written(
    evalrun: Evalrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-Very5ecretKey"
    monkeypatch.setenv("MY_KEY", key)
    with mock(api_key=key) as server:
        asked = Asked(
            evalrun,
            tmp_path,
            server,
            ["", "[[fault=500]]", "[[fault=400]]"],
            "model.api_key_env=MY_KEY",
        )
        assert server.stats["requests"] == 4
    assert [r.status for r in asked.rows] == ["ok", "error", "error"]
    assert "MY_KEY" in asked.written()
    assert key not in asked.written()


def test_trap_31_a_refused_key_ends_the_run_before_anything(
    evalrun: Evalrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-another5ecret")
    with mock(api_key="right") as server:
        asked = Asked(evalrun, tmp_path, server, [""] * 40, "model.api_key_env=MY_KEY")
        assert server.stats["requests"] == 0  # the mock server counts what it reads
    assert asked.ran.code == 3
    assert "bad key" in asked.written()
    assert "sk-another5ecret" not in asked.written()


def test_trap_31_a_gold_of_zero_counts(evalrun: Evalrun, tmp_path: Path) -> None:
    data = tmp_path / "zero.jsonl"
    data.write_text(json.dumps({"question": "5 - 5", "answer": "#### 0"}) + "\n")
    with mock() as server:
        ran = evalrun(
            "model=vllm_server",
            f"model.base_url={server.url}",
            "task=gsm8k",
            f"dataset.path={data}",
        )
    assert ran.code == 0
    assert values_of(run_folders(tmp_path)[0]) == {"accuracy": 1.0}


@pytest.mark.parametrize("way", ["1", "all"])
def test_a_resumed_run_asks_for_the_failed_samples_alone(
    evalrun: Evalrun, tmp_path: Path, way: str
) -> None:
    log = tmp_path / "log.jsonl"
    words: tuple[str, ...] = (
        "num_return_sequences=3",
        f"model.n_per_request={way}",
        "model.retries=0",
    )
    with mock(log=str(log)) as server:
        first = Asked(evalrun, tmp_path, server, ["", "[[fault=500 x 1]]"], *words)
        assert first.ran.code == 3
        before: dict[str, Any] = {
            (r.doc_id, r.index): r.started_s for r in first.rows if not r.is_failure
        }
        log.write_text("")
        again = Asked(evalrun, tmp_path, server, ["", "[[fault=500 x 1]]"], *words, "--resume")
    assert again.ran.code == 0, again.ran.err
    bodies = [json.loads(line)["body"] for line in log.open()]
    assert [body.get("n", 1) for body in bodies] == [1 if way == "1" else 3]
    assert len(again.rows) == 6
    assert {(r.doc_id, r.index): r.started_s for r in again.rows}.items() >= before.items()
