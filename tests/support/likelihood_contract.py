"""What every backend that tells log-probabilities must do, as functions over a started backend.

Not collected itself.

A test file of such a backend runs them all:

    @pytest.mark.parametrize("check", likelihood_contract.CHECKS, ids=lambda check: check.__name__)
    def test_likelihood_contract(check, backend):      # a started backend, shared by the checks
        check(backend)

`REQUESTS` holds every request the checks send; `saved_replies()` are rows with which a backend
passes that serves what was saved. A scripted server passes when its log-probabilities depend on
nothing but the tokens and lie below 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from evalrun.backends.base import Backend, failed
from evalrun.types import Key, Kind, Loglikelihood, Message, Reply, Request, Rolling, Status
from support.backend_contract import MANY
from support.backend_contract import saved_replies as saved_texts

NEAR = 1e-3  # nats: what another order may change in float32


def choose(
    doc_id: str, question: str, choices: Iterable[str], is_single_token: bool = False
) -> list[Loglikelihood]:
    """One request per choice, after one context."""
    messages = (Message("user", question),)
    return [
        Loglikelihood(doc_id, i, messages, c, is_single_token=is_single_token)
        for i, c in enumerate(choices)
    ]


LETTERS = choose(
    "letters", "Two and two is\nA. three\nB. four\nC. five\nAnswer:", (" A", " B", " C"), True
)
WORDS = choose(
    "words", "The capital of France is", (" Paris", " the city of Rome", " a large town in Spain")
)
AGAIN = choose(
    "again", "The capital of France is", (" Paris", " the city of Rome", " a large town in Spain")
)
BARE = [
    replace(WORDS[0], messages=(), is_conditioned=False),
    replace(WORDS[1], messages=(Message("user", "Answer:"),), is_conditioned=False),
]
BLANK = [replace(request, doc_id="blank", messages=(Message("user", "The capital of France is "),),
                 continuation=request.continuation[1:]) for request in WORDS]  # fmt: skip
EMPTY = Loglikelihood("empty", 0, WORDS[0].messages, "")
TWO_TOKENS = Loglikelihood(
    "two", 1, LETTERS[0].messages, " Paris is a large city", is_single_token=True
)
TEXT = Rolling("text", "The cat sat on the mat. It was a sunny day.")
NO_TEXT = Rolling("no-text", "")
REQUESTS: tuple[Request, ...] = (
    *LETTERS,
    *WORDS,
    *AGAIN,
    *BARE,
    *BLANK,
    EMPTY,
    TWO_TOKENS,
    TEXT,
    NO_TEXT,
    MANY[0],
)


def replies(backend: Backend, requests: Iterable[Request]) -> dict[Key, Reply]:
    """All replies by key, each key seen exactly once and none but those asked for."""
    asked = list(requests)
    rows: list[Reply] = []
    backend.run(asked, rows.append)
    keys = [key for request in asked for key in request.keys()]  # noqa: SIM118
    assert sorted(row.key for row in rows) == sorted(keys)
    return {row.key: row for row in rows}


def logprob(rows: dict[Key, Reply], request: Request) -> float:
    """The log-probability of a request's row."""
    row = rows[request.keys()[0]]
    assert row.logprob is not None, row
    return row.logprob


def is_scored(row: Reply) -> bool:
    """Whether a row is as a scored one must be."""
    assert (row.status, row.text, row.error_type) == (Status.OK, None, None), row
    assert row.logprob is not None
    assert row.n_tokens is not None
    assert row.started_s is not None
    assert row.ended_s is not None
    return (
        row.logprob < 0 < row.n_tokens
        and row.is_greedy in (True, False)
        and 0 < row.started_s <= row.ended_s
    )


def every_score_comes_once(backend: Backend) -> None:
    """Choices and a whole text, each with its sum, its tokens and its times; in another order
    the same numbers.
    """
    asked: list[Request] = [*WORDS, *LETTERS, TEXT]
    rows, turned = replies(backend, asked), replies(backend, reversed(asked))
    assert all(is_scored(row) for row in rows.values())
    assert {key: row.logprob for key, row in turned.items()} == pytest.approx(
        {key: row.logprob for key, row in rows.items()}, abs=NEAR
    )
    assert len({row.logprob for row in rows.values()}) == len(rows)


def kinds_mix_in_one_run(backend: Backend) -> None:
    """A text is drawn, choices and a whole text are scored, in one run."""
    rows = replies(backend, [LETTERS[0], MANY[0], TEXT, BARE[0], LETTERS[1]])
    assert [key[1] for key in sorted(rows)] == [Kind.LOGLIKELIHOOD] * 2 + [
        Kind.GENERATE,
        Kind.ROLLING,
        Kind.UNCONDITIONED,
    ]
    assert rows[MANY[0].keys()[0]].text
    assert all(is_scored(row) for row in rows.values() if row.kind != Kind.GENERATE)


def letters_are_one_token(backend: Backend) -> None:
    """Choices of one token say so, and the likeliest of all tokens is at most one of them."""
    rows = replies(backend, LETTERS)
    assert {row.n_tokens for row in rows.values()} == {1}
    assert sum(row.is_greedy is True for row in rows.values()) <= 1


def equal_requests_have_equal_values(backend: Backend) -> None:
    """Two documents that ask the same get the same."""
    rows = replies(backend, [*WORDS, *AGAIN])
    assert [logprob(rows, r) for r in AGAIN] == pytest.approx(
        [logprob(rows, r) for r in WORDS], abs=NEAR
    )


def a_blank_at_the_border_is_scored(backend: Backend) -> None:
    """A context that ends with a blank, and a choice without one, are scored like the other way
    round.
    """
    rows = replies(backend, [*WORDS, *BLANK])
    assert [logprob(rows, r) for r in BLANK] == pytest.approx(
        [logprob(rows, r) for r in WORDS], abs=NEAR
    )


def unconditioned_is_another_kind(backend: Backend) -> None:
    """The same choice without its question: another key, another number; no context at all is
    possible.
    """
    rows = replies(backend, [*WORDS[:2], *BARE])
    assert all(is_scored(row) for row in rows.values())
    assert all(
        row.kind == Kind.UNCONDITIONED for key, row in rows.items() if key[1] != Kind.LOGLIKELIHOOD
    )
    assert abs(logprob(rows, BARE[0]) - logprob(rows, WORDS[0])) > NEAR
    assert abs(logprob(rows, BARE[1]) - logprob(rows, WORDS[1])) > NEAR


def what_cannot_be_scored_fails_alone(backend: Backend) -> None:
    """An empty choice, a choice of several tokens where one is wanted, an empty text: rows that
    say why.
    """
    rows = replies(backend, [WORDS[0], EMPTY, TWO_TOKENS, NO_TEXT, WORDS[1]])
    bad = {request: rows[request.keys()[0]] for request in (EMPTY, TWO_TOKENS, NO_TEXT)}
    assert [row.error_type for row in bad.values()] == [
        "empty_continuation",
        "not_one_token",
        "empty_text",
    ]
    assert all(
        (row.status, row.logprob, row.text) == (Status.ERROR, None, None) for row in bad.values()
    )
    assert all(row.error_message for row in bad.values())
    assert "choice 1 (' Paris is a large city')" in str(bad[TWO_TOKENS].error_message)
    assert is_scored(rows[WORDS[0].keys()[0]])
    assert is_scored(rows[WORDS[1].keys()[0]])


def render_shows_the_context(backend: Backend) -> None:
    """The prompt of a choice is its context; of a whole text the text itself."""
    assert backend.render(WORDS[1]).count("The capital of France is") == 1
    assert TEXT.text in backend.render(TEXT)


def interrupt_passes(backend: Backend) -> None:
    """KeyboardInterrupt out of the sink ends the run; the backend can then be asked again."""
    rows: list[Reply] = []

    def sink(row: Reply) -> None:
        rows.append(row)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backend.run([*WORDS, TEXT], sink)
    assert len(rows) == 1
    assert is_scored(replies(backend, [WORDS[2]])[WORDS[2].keys()[0]])


CHECKS = (
    every_score_comes_once,
    kinds_mix_in_one_run,
    letters_are_one_token,
    equal_requests_have_equal_values,
    a_blank_at_the_border_is_scored,
    unconditioned_is_another_kind,
    what_cannot_be_scored_fails_alone,
    render_shows_the_context,
    interrupt_passes,
)


def saved_replies() -> list[Reply]:
    """One row for every key of REQUESTS, as a run would have saved them."""
    rows = [_saved(request) for request in REQUESTS if isinstance(request, Loglikelihood | Rolling)]
    return rows + [row for row in saved_texts() if row.doc_id == MANY[0].doc_id]


def _saved(request: Loglikelihood | Rolling) -> Reply:
    ((doc_id, kind, index, turn),) = request.keys()
    row = Reply(doc_id, kind, index, turn, started_s=1.0, ended_s=2.0, prompt_tokens=9)
    if request in (EMPTY, NO_TEXT):
        return failed(
            row,
            Status.ERROR,
            "empty_text" if request == NO_TEXT else "empty_continuation",
            "nothing to score",
        )
    if request == TWO_TOKENS:
        said = f"choice {index} ({TWO_TOKENS.continuation!r}) must be one token"
        return failed(row, Status.ERROR, "not_one_token", said)
    if isinstance(request, Rolling):
        return replace(row, logprob=-40.5, n_tokens=12, is_greedy=False)
    words = request.continuation.split()
    value = -1.0 - sum(map(len, words)) - (0.0 if request.is_conditioned else 2.5)
    value -= ord(words[0]) / 100 if len(words[0]) == 1 else 0.0  # letters differ
    return replace(
        row, logprob=value, n_tokens=len(words), is_greedy=False, extra=json.dumps({"saved": True})
    )
