"""Waiting between attempts: Retry-After, back-off, and what counts as the same refusal."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from evalrun.backends.openai.http.retry import (
    AttemptFailed,
    Refusals,
    backoff_s,
    is_worth_repeating,
    retry_after_s,
    wait_s,
)

NOW = datetime(2024, 1, 1, tzinfo=UTC).timestamp()

HEADERS = [
    ("2", 2.0),
    ("1.5", 1.5),
    ("Mon, 01 Jan 2024 00:00:05 GMT", 5.0),
    ("Mon, 01 Jan 2024 01:00:05 +0100", 5.0),
    ("Mon, 01 Jan 2024 00:00:05 -0000", 5.0),
    ("0", None),
    ("Sun, 31 Dec 2023 23:59:00 GMT", None),
    ("3600", 3600.0),
    ("2abc", None),
    ("-3", None),
    ("inf", None),
    ("nan", None),
    ("", None),
    ("soon", None),
    (None, None),
]


@pytest.mark.parametrize(("value", "expected"), HEADERS)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert retry_after_s(value, NOW) == expected


def test_back_off_doubles_with_jitter_up_to_a_cap() -> None:
    assert [backoff_s(k, 1.0) for k in (1, 2, 3, 4, 7, 8, 1000)] == [
        0.5,
        1.0,
        2.0,
        4.0,
        30.0,
        30.0,
        30.0,
    ]
    assert [backoff_s(k, 0.0) for k in (1, 2, 8)] == [0.25, 0.5, 15.0]


def test_the_servers_wait_is_a_floor() -> None:
    assert wait_s(1, 2.0, draw=0.0) == 2.0
    assert wait_s(1, 2.0, draw=1.0) == pytest.approx(2.2)
    assert wait_s(8, 2.0, draw=0.0) == 15.0
    assert wait_s(1, None, draw=1.0) == 0.5
    assert len({wait_s(3, None) for _ in range(20)}) > 1


def test_which_statuses_are_worth_repeating() -> None:
    assert [s for s in range(100, 600) if is_worth_repeating(s)] == [
        408,
        409,
        425,
        429,
        *range(500, 600),
    ]


def refusal(message: str, http_status: int = 400) -> AttemptFailed:
    return AttemptFailed("http", message, http_status=http_status, is_final=True, is_refusal=True)


def test_refusals_count_in_a_row_and_of_one_cause() -> None:
    refusals = Refusals(limit=3)
    assert [refusals.note(refusal("a")) for _ in range(3)] == [False, False, True]
    assert [refusals.note(fault) for fault in (refusal("a"), None, refusal("a"), refusal("a"))] == [
        True,
        False,
        False,
        False,
    ]
    assert [refusals.note(refusal(m)) for m in "bab"] == [False] * 3
    assert [refusals.note(refusal(m, 401)) for m in "xyz"] == [False, False, True]
    assert not refusals.note(AttemptFailed("incomplete", "z"))
    assert refusals.count == 0
