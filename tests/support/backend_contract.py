"""What every backend must do, as functions over a started backend. Not collected itself.

A test file of a backend runs them all, in order (`close_twice` ends the backend, so it stands
last):

    @pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
    def test_contract(check, backend):      # a started backend, shared by the checks
        check(backend)

`REQUESTS` holds every request the checks send, for backends that serve what was saved;
`saved_replies()` are rows with which such a backend passes. A scripted server passes when its text
depends on nothing but the messages and the seed, is English prose of some words, honours
max_tokens, and refuses the prompt of `TOO_LONG`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from evalrun.backends.base import Backend, answered, failed
from evalrun.types import Generate, Kind, Message, Reply, Sampling, Status

FACTS = (
    "engine",
    "engine_version",
    "dtype",
    "revision",
    "tokenizer",
    "chat_template",
    "is_deterministic",
)
GREEDY = Sampling(max_tokens=12, temperature=0.0)
DRAWN = Sampling(max_tokens=12, temperature=1.0)


def ask(
    doc_id: str,
    text: str,
    indices: tuple[int, ...] = (0,),
    sampling: Sampling = GREEDY,
    seed: int = 7,
) -> Generate:
    """A request with one user turn."""
    return Generate(doc_id, (Message("user", text),), indices, sampling, seed)


MANY = tuple(
    ask(f"many-{i}", f"Write one sentence about the number {i}.", seed=100 + i) for i in range(5)
)
SAMPLES = ask("samples", "Tell me a short story.", (0, 1, 2, 3), DRAWN, seed=1000)
SOME_SAMPLES = ask("samples", "Tell me a short story.", (1, 3), DRAWN, seed=1000)
UNCUT = ask("uncut", "Describe the sea in one sentence.", sampling=replace(GREEDY, max_tokens=24))
CUT = ask(
    "cut",
    "Describe the sea in one sentence.",
    sampling=replace(GREEDY, max_tokens=24, stop=("e", "never said")),
)
SHORT = ask(
    "short",
    "Tell me everything about the ocean, at length.",
    sampling=replace(GREEDY, max_tokens=3),
)
TOO_LONG = ask("too-long", "word " * 60_000)
REQUESTS = (*MANY, SAMPLES, UNCUT, CUT, SHORT, TOO_LONG)


def replies(backend: Backend, requests: Iterable[Generate]) -> dict[tuple[str, int], Reply]:
    """All replies by (doc_id, index), each key seen exactly once and none but those asked for."""
    asked = list(requests)
    rows: list[Reply] = []
    backend.run(asked, rows.append)
    keys = [key for request in asked for key in request.keys()]  # noqa: SIM118
    assert sorted(row.key for row in rows) == sorted(keys)
    return {(row.doc_id, row.index): row for row in rows}


def every_key_comes_once(backend: Backend) -> None:
    """Greedy answers to several documents, each with its seed, counts and times."""
    rows = replies(backend, MANY)
    for request in MANY:
        row = rows[request.doc_id, 0]
        assert row.kind == Kind.GENERATE
        assert row.turn == 0
        assert Status(row.status) in (Status.OK, Status.TRUNCATED), row
        assert row.text
        assert row.text.strip()
        assert row.finish_reason in ("stop", "length")
        assert row.error_type is None
        assert row.error_message is None
        assert row.started_s is not None
        assert row.ended_s is not None
        assert 0 < row.started_s <= row.ended_s
        assert row.completion_tokens is not None
        assert 0 < row.completion_tokens <= request.sampling.max_tokens
    rows = replies(backend, reversed(MANY))
    assert {rows[r.doc_id, 0].seed for r in MANY} == {r.seed for r in MANY}


def nothing_asked_nothing_said(backend: Backend) -> None:
    """An empty run ends, and the sink stays empty."""
    assert replies(backend, ()) == {}


def samples_have_seeds(backend: Backend) -> None:
    """n samples of one document: seed + index each, not all alike, and alike when asked again."""
    first, again = replies(backend, [SAMPLES]), replies(backend, [SAMPLES])
    assert [first["samples", i].seed for i in range(4)] == [1000, 1001, 1002, 1003]
    assert len({row.text for row in first.values()}) > 1
    if backend.facts().get("is_deterministic") == "yes":
        assert [row.text for row in first.values()] == [row.text for row in again.values()]


def missing_samples_can_be_asked(backend: Backend) -> None:
    """Indices with a gap (a resumed run) bring exactly those samples, with the seeds they always
    have.
    """
    rows = replies(backend, [SOME_SAMPLES])
    assert {key: row.seed for key, row in rows.items()} == {
        ("samples", 1): 1001,
        ("samples", 3): 1003,
    }
    if backend.facts().get("is_deterministic") == "yes":
        whole = replies(backend, [SAMPLES])
        assert {key: row.text for key, row in rows.items()} == {
            key: whole[key].text for key in rows
        }


def stop_strings_cut(backend: Backend) -> None:
    """The text ends before the first stop string, and such an ending is not a truncation."""
    uncut, cut = replies(backend, [UNCUT])["uncut", 0], replies(backend, [CUT])["cut", 0]
    assert uncut.text is not None
    assert "e" in uncut.text
    assert cut.text == uncut.text.split("e")[0]
    assert cut.status in (Status.OK, Status.EMPTY)


def max_tokens_truncates(backend: Backend) -> None:
    """An answer cut by max_tokens says so."""
    row = replies(backend, [SHORT])["short", 0]
    assert (row.status, row.finish_reason) == (Status.TRUNCATED, "length")
    assert row.text
    assert row.completion_tokens == 3


def one_bad_request_fails_alone(backend: Backend) -> None:
    """A prompt far too long is a failure row that says why; the requests around it are answered."""
    rows = replies(backend, [MANY[0], TOO_LONG, MANY[1]])
    bad = rows["too-long", 0]
    assert bad.status == Status.ERROR
    assert bad.is_failure
    assert bad.text is None
    assert bad.error_type
    assert bad.error_message
    assert bad.seed == TOO_LONG.seed
    assert all(rows[r.doc_id, 0].text for r in MANY[:2])


def render_shows_the_question_once(backend: Backend) -> None:
    """The final prompt holds the question exactly once, and is the same each time."""
    prompt = backend.render(MANY[3])
    assert prompt.count("Write one sentence about the number 3.") == 1
    assert backend.render(MANY[3]) == prompt


def facts_are_named(backend: Backend) -> None:
    """Facts are texts under the agreed names; engine and is_deterministic are always there."""
    facts = backend.facts()
    assert set(facts) <= set(FACTS)
    assert facts["engine"]
    assert facts["is_deterministic"] in ("yes", "no")
    assert all(isinstance(value, str) and value for value in facts.values())
    assert backend.facts() == facts


def interrupt_passes(backend: Backend) -> None:
    """KeyboardInterrupt out of the sink ends the run; the backend can then be asked again."""
    rows: list[Reply] = []

    def sink(row: Reply) -> None:
        rows.append(row)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backend.run(list(MANY), sink)
    assert len(rows) == 1
    assert set(replies(backend, MANY[:2])) == {("many-0", 0), ("many-1", 0)}


def close_twice(backend: Backend) -> None:
    """Closing again does nothing."""
    backend.close()
    backend.close()


CHECKS = (
    every_key_comes_once,
    nothing_asked_nothing_said,
    samples_have_seeds,
    missing_samples_can_be_asked,
    stop_strings_cut,
    max_tokens_truncates,
    one_bad_request_fails_alone,
    render_shows_the_question_once,
    facts_are_named,
    interrupt_passes,
    close_twice,
)


def saved_replies() -> list[Reply]:
    """One row for every key of REQUESTS, as a run would have saved them."""
    return [_saved(request, index) for request in REQUESTS for index in request.indices]


def _saved(request: Generate, index: int) -> Reply:
    base = Reply(
        request.doc_id,
        Kind.GENERATE.value,
        index,
        seed=request.seed + index,
        started_s=1.0,
        ended_s=2.0,
        prompt_tokens=9,
        completion_tokens=min(8, request.sampling.max_tokens),
    )
    if request.doc_id == "too-long":
        return failed(base, Status.ERROR, "prompt_too_long", "60,000 tokens; the limit is 2,048")
    finish = "length" if request.doc_id == "short" else "stop"
    text = f"A sentence about sample {index}, then some more words."
    return answered(base, text, stop=request.sampling.stop, finish_reason=finish)
