"""Log-likelihoods over HTTP: how a server is asked, what is read from its answers, and what
fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.chat_servers import mock
from support.scoring_server import (
    BOS,
    VLLM,
    Toy,
    choice,
    expected,
    logprob,
    plan,
    rows_of,
    toy_server,
)

from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.completions import OpenaiCompletionsBackend
from evalrun.errors import Fault
from evalrun.types import Reply, Request, Rolling

ECHO = ("tokenize", "info", "ids", "echo0")
ECHO1 = ("tokenize", "info", "ids", "echo")
TEXT = ("echo0",)
TEXT1 = ("echo",)


LETTERS = [
    choice("a", i, "Which one? Answer:", f" {letter}", is_single_token=True)
    for i, letter in enumerate("ABCD")
]
TEXTS = [
    choice("b", 0, "The sky is", " blue today"),
    choice("b", 1, "The sky is", " green"),
    choice("b", 2, "The sky is ", "blue"),  # the blank moves to the continuation
    choice("b", 3, "The sky is", " blue today"),  # the same again
    choice("c", 0, "It is sun", "shine here"),  # one token spans the border
    choice("d", 0, "北京 is", " a city 🏙"),
]


@pytest.mark.parametrize("has_bos", [False, True], ids=["no bos", "bos"])
@pytest.mark.parametrize("abilities", [VLLM, VLLM[:-1], ECHO, ECHO1, TEXT, TEXT1], ids="-".join)
def test_every_way_gives_the_same_numbers(abilities: tuple[str, ...], has_bos: bool) -> None:
    with toy_server(*abilities, has_bos=has_bos) as (url, toy):
        asked = [*LETTERS, *TEXTS]
        rows = rows_of(plan(url), *asked)
        for row, request in zip(rows, asked, strict=True):
            value, is_greedy, n_tokens, extra = expected(toy, request)
            assert (row.status, row.error_message) == ("ok", None), row
            assert row.logprob == pytest.approx(value, abs=1e-9), request
            assert (row.is_greedy, row.n_tokens, row.extra) == (is_greedy, n_tokens, extra), request
            assert (row.attempts, row.http_status, row.text) == (1, 200, None)
            assert (
                row.prompt_tokens
                == len(toy.tokens(request.messages[0].content + request.continuation, True))
                - n_tokens
            )
            assert row.started_s is not None


def test_the_letters_of_a_document_are_one_request() -> None:
    with toy_server(*VLLM) as (url, toy):
        rows_of(plan(url), *LETTERS, *TEXTS)
        scoring = [asked for path, asked in toy.asked if path == "/v1/completions"]
        named = [asked for asked in scoring if asked.get("logprob_token_ids")]
        # after the probe: letters; b
        assert [len(asked["logprob_token_ids"]) for asked in named[1:]] == [4, 2]
        assert (
            sum("prompt_logprobs" in asked for asked in scoring) == 1 + 3
        )  # b twice the same, c, d; b has one token


def test_a_text_without_context_stands_after_bos() -> None:
    asked = [choice("p", 0, "", " blue today"), Rolling("r", "The sky is blue today.")]
    for has_bos in (True, False):
        with toy_server(*VLLM, has_bos=has_bos) as (url, toy):
            rows = rows_of(plan(url), *asked)
            for row, text in zip(rows, (" blue today", "The sky is blue today."), strict=True):
                ids = [BOS, *toy.tokens(text)]
                assert (row.logprob, row.is_greedy) == (
                    pytest.approx(toy.expected(ids, 1)[0]),
                    toy.expected(ids, 1)[1],
                )
                assert row.n_tokens == len(ids) - 1
    # nobody says which token BOS is
    with toy_server("tokenize", "ids", "prompt_logprobs") as (url, _):
        rows = rows_of(plan(url), *asked)
        assert [row.error_type for row in rows] == ["no_start_token"] * 2
        assert "Set model.tokenizer" in (rows[0].error_message or "")


def test_texts_only_need_a_bos_of_the_server() -> None:
    asked = Rolling("r", "The sky is blue.")
    with toy_server(*TEXT, has_bos=True) as (url, toy):
        (row,) = rows_of(plan(url), asked)
        ids = toy.tokens("The sky is blue.", True)
        assert (row.logprob, row.n_tokens) == (pytest.approx(toy.expected(ids, 1)[0]), len(ids) - 1)
    with toy_server(*TEXT) as (url, _):
        (row,) = rows_of(plan(url), asked)
        assert (row.status, row.error_type, row.attempts) == ("error", "no_start_token", 1)


def test_long_texts_are_scored_in_windows_and_contexts_are_cut() -> None:
    words = " ".join(f"w{i}" for i in range(30))
    with toy_server(*VLLM, limit=9) as (url, toy):
        whole, cut, long = rows_of(
            plan(url),
            Rolling("r", words),
            choice("a", 0, words, " end it"),
            choice("a", 1, "x", f" {words}"),
        )
        ids, total = [BOS, *toy.tokens(words)], 0.0
        total += toy.expected(ids[:8], 1)[0]
        for done in range(8, 31, 7):
            end = min(done + 7, 31)
            window = ids[end - 8 : end]
            total += toy.expected(window, 8 - (end - done))[0]
        assert (whole.logprob, whole.n_tokens) == (pytest.approx(total), 30)
        assert (cut.status, cut.extra) == ("ok", '{"cut_tokens": 24}')
        assert long.error_type == "continuation_too_long"
    # nobody says which token BOS is
    with toy_server("tokenize", "ids", "prompt_logprobs", limit=9) as (url, _):
        (cut,) = rows_of(plan(url), choice("a", 0, words, " end it"))
        assert (cut.status, cut.extra) == ("ok", '{"cut_tokens": 24}')


BENT = [
    ("missing", "it has no prompt_logprobs"),
    ("count", "tokens of a prompt of"),
    ("nan", "nan, which is no log-probability"),
    ("minus infinity", "-9999.0, which is no log-probability"),
    ("positive", "0.5, which is no log-probability"),
    ("other token", "prompt_logprobs has no value of token"),
    ("null row", "prompt_logprobs has no value of token"),
]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalrun.backends.openai.http.retry.FIRST_WAIT_S", 0.01)


def bent_row(bend: str, n_bent: int, **changes: Any) -> Reply:
    """One text asked of a server that bends its answers after the probe."""
    with toy_server(*VLLM[:-1]) as (url, toy):
        backend = OpenaiCompletionsBackend(plan(url, **changes))
        backend.check_scores()
        toy.bend, toy.n_bent = bend, n_bent
        rows: list[Reply] = []
        backend.run([TEXTS[0]], rows.append)
        (row,) = rows
        if row.status == "ok":
            assert row.logprob == pytest.approx(expected(toy, TEXTS[0])[0])
        return row


@pytest.mark.parametrize("bend", ["429", "500", *(bend for bend, _ in BENT)])
def test_a_bad_answer_is_asked_again(bend: str) -> None:
    row = bent_row(bend, 2)
    assert (row.status, row.attempts) == ("ok", 3)


@pytest.mark.parametrize(("bend", "says"), BENT)
def test_an_answer_that_stays_bad_is_a_failure_row(bend: str, says: str) -> None:
    row = bent_row(bend, 9, retries=1)
    assert (row.status, row.error_type, row.attempts, row.logprob) == (
        "error",
        "bad_logprobs",
        2,
        None,
    )
    assert says in (row.error_message or "")


def refusal(url: str, **changes: Any) -> str:
    with pytest.raises(Fault) as caught:
        OpenaiCompletionsBackend(plan(url, **changes)).check_scores()
    return str(caught.value)


def test_a_server_without_logprobs_is_refused_at_the_start() -> None:
    with toy_server("tokenize", "ids") as (url, _):
        said = refusal(url)
        assert "tells no log-probabilities of a prompt" in said
        assert (
            "echo with logprobs=1 and max_tokens=0 of a text: HTTP 400 echo is not supported with "
            "logprobs" in said
        )
        assert "prompt_logprobs=1: HTTP 200, but it has no prompt_logprobs" in said
        assert "a variant of the task that asks for texts" in said


def test_the_boundary_separate_needs_tokens() -> None:
    with toy_server(*TEXT) as (url, _):
        said = refusal(url, token_boundary="separate")
        assert "model.token_boundary=separate needs the tokens of model 'm'" in said
        assert "Set model.tokenizer" in said
    with toy_server(*VLLM) as (url, toy):
        (row,) = rows_of(plan(url, token_boundary="separate"), TEXTS[4])
        ids = [*toy.tokens("It is sun"), *toy.tokens("shine here")]
        assert (row.logprob, row.n_tokens) == (pytest.approx(toy.expected(ids, len(ids) - 2)[0]), 2)


def test_the_tokenizer_of_the_plan_goes_first(tiny_tokenizer: str) -> None:
    with toy_server(*VLLM) as (url, toy):
        (row,) = rows_of(plan(url, tokenizer=tiny_tokenizer), TEXTS[0])
        assert (row.status, toy.counts["/tokenize"]) == ("ok", 0)
    with toy_server(*TEXT) as (url, _):
        said = refusal(url, tokenizer=tiny_tokenizer)
        assert "Leave model.tokenizer out to send texts" in said


@pytest.fixture(scope="module")
def tiny_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A byte-level tokenizer in a folder."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["the sky"], tokenizers.trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    transformers.PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    return str(folder)


def test_what_cannot_be_asked_fails_alone() -> None:
    asked = [
        choice("a", 0, "Which?", ""),
        choice("a", 1, "Which?", " two words", is_single_token=True),
        Rolling("r", ""),
        choice("a", 2, "Which?", " fine"),
    ]
    for abilities in (VLLM, (*TEXT, "has bos")):
        with toy_server(*abilities) as (url, _):
            rows = rows_of(plan(url), *asked)
            types = ["empty_continuation", "not_one_token", "empty_text", None]
            assert [row.error_type for row in rows] == types, abilities
            assert "' two words'" in (rows[1].error_message or "")


def test_interrupt_passes_and_nothing_comes_after_it() -> None:
    with toy_server(*VLLM) as (url, _):
        rows: list[Reply] = []

        def sink(row: Reply) -> None:
            rows.append(row)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            OpenaiCompletionsBackend(plan(url)).run([choice("e", 0, "x", ""), *TEXTS], sink)
        assert len(rows) == 1


def test_fields_of_the_user_are_sent() -> None:
    with toy_server(*VLLM) as (url, toy):
        rows_of(plan(url, extra_body=(("priority", 3),)), LETTERS[0], TEXTS[0])
        assert {asked["priority"] for path, asked in toy.asked if path == "/v1/completions"} == {3}


def test_against_the_mock_server() -> None:
    """It echoes texts; a right answer after the question is nearly certain."""
    asked = [choice("q", i, "What is 2 + 3?\nAnswer:", f" {n}") for i, n in enumerate((4, 5, 6))]
    with mock(strict=True, faults=("429:first=1",), retry_after=0.01) as server:
        rows = rows_of(plan(server.url, retries=3), *asked)
    assert [row.status for row in rows] == ["ok"] * 3
    assert max(rows, key=lambda row: row.logprob or -99).index == 1
    assert [row.is_greedy for row in rows] == [False, True, False]


# ---- chat ----------------------------------------------------------------------------------------


def chat_rows(
    abilities: tuple[str, ...], *requests: Request, **changes: Any
) -> tuple[list[Reply], Toy]:
    with toy_server(*abilities) as (url, toy):
        return rows_of(plan(url, "openai_chat", **changes), *requests), toy


CHAT = ("tokenize", "token_ids")


def test_letters_by_a_chat_server() -> None:
    rows, toy = chat_rows(CHAT, *LETTERS)
    context = toy.tokens(LETTERS[0].messages[0].content)
    for row, letter in zip(rows, "ABCD", strict=True):
        (token,) = toy.tokens(f" {letter}")
        assert (row.status, row.logprob, row.n_tokens) == ("ok", logprob(context, token), 1)
        assert (row.extra, row.prompt_tokens) == (None, len(context))
    assert toy.counts["/v1/chat/completions"] == 2  # the probe, and one for the document
    _, body = toy.asked[-1]
    assert (body["max_tokens"], body["temperature"], body["logprobs"]) == (1, 0, True)
    assert sum(row.is_greedy is True for row in rows) <= 1


def test_blanks_are_dropped_for_all_choices_or_none() -> None:
    rows, toy = chat_rows(CHAT, choice("a", 0, "Which?", "  A"), choice("a", 1, "Which?", " B"))
    context = toy.tokens("Which?")
    assert [row.logprob for row in rows] == [
        logprob(context, toy.tokens(letter)[0]) for letter in "AB"
    ]
    assert {row.extra for row in rows} == {'{"leading_blanks_dropped": true}'}


def test_what_a_chat_server_cannot_answer() -> None:
    asked = [
        choice("a", 0, "Which?", " blue sky"),
        choice("a", 1, "Which?", " fine"),
        choice("p", 0, "", " A", is_conditioned=False),
        choice("a", 2, "Which?", ""),
        Rolling("r", "a text"),
    ]
    rows, toy = chat_rows(CHAT, *asked)
    types = ["not_one_token", None, "empty_context", "empty_continuation", "no_logprobs"]
    assert [row.error_type for row in rows] == types
    said = rows[0].error_message or ""
    assert (
        "choice 0 (' blue sky') must be one token where the answer begins; its ids are "
        f"{toy.tokens(' blue sky')}" in said
    )


@pytest.mark.parametrize(
    ("abilities", "is_single", "says"),
    [
        (("tokenize",), True, "HTTP 200, but it has no logprobs"),
        (("token_ids",), True, "it tells no token ids (no /tokenize)"),
        (CHAT, False, "it scores single tokens at most"),
    ],
)
def test_a_chat_server_that_cannot_is_refused_at_the_start(
    abilities: tuple[str, ...], is_single: bool, says: str
) -> None:
    with toy_server(*abilities) as (url, _), pytest.raises(Fault) as caught:
        OpenaiChatBackend(plan(url, "openai_chat")).check_scores(is_single)
    assert says in str(caught.value)
    assert "a variant of the task that asks for texts" in str(caught.value)
