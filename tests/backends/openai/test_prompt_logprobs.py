"""What is read out of a server's answers: the value of the token that was sent, and where an
echoed text is cut.
"""

from __future__ import annotations

from typing import Any

import pytest

from evalrun.backends.loglikelihood.spans import Score, Span
from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.scoring import responses as reading
from evalrun.backends.openai.scoring.responses import Echo


def prompted(*rows: Any, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"prompt_logprobs": list(rows), **fields}]}


def echoed(
    tokens: list[str], values: list[Any], n_prompt: int | None = None, **lists: Any
) -> dict[str, Any]:
    usage = {} if n_prompt is None else {"usage": {"prompt_tokens": n_prompt}}
    return {
        "choices": [{"logprobs": {"tokens": tokens, "token_logprobs": values, **lists}}],
        **usage,
    }


# BK-005, BK-006: only the continuation's terms, each by the id that was sent, whatever else stands
# at its position
VALUES: list[tuple[dict[str, Any], Span, Score]] = [
    (prompted(None, {"7": -0.2}, {"3": -0.1, "9": -4.0}), Span((5, 7, 9), 1), Score(-4.2, False)),
    (
        prompted(None, {"11": -0.3}, {"12": -0.4}, {"13": -0.7}),
        Span((10, 11, 12, 13), 2),
        Score(-1.1, True),
    ),
    (
        prompted(None, {"1": {"logprob": -0.5}, "2": {"logprob": -0.5}}),
        Span((0, 1), 1),
        Score(-0.5, True),
    ),
    (
        prompted(None, {"1": 0.0000004}, prompt_token_ids=[0, 1]),
        Span((0, 1), 1),
        Score(0.0000004, True),
    ),
]


@pytest.mark.parametrize(("found", "span", "score"), VALUES)
def test_values_by_token_id(found: dict[str, Any], span: Span, score: Score) -> None:
    got = reading.from_prompt_logprobs(found, span)
    assert (got.logprob, got.is_greedy) == (pytest.approx(score.logprob), score.is_greedy)


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "no choices"),
    ({"choices": [{}, {}]}, "2 choices"),
    ({"choices": [{}]}, "no prompt_logprobs"),
    (prompted(None, {"7": -0.2}), "2 tokens of a prompt of 3"),
    (prompted(None, {"7": -0.2}, {"3": -0.1}), "no value of token 9 at place 2"),
    (prompted(None, {"8": -0.2}, {"9": -0.1}), "no value of token 7 at place 1"),
    (prompted(None, None, {"9": -0.1}), "no value of token 7 at place 1"),
    (prompted(None, {"7": -0.2}, {"9": None}), "is None, which is no log-probability"),
    (prompted(None, {"7": -0.2}, {"9": True}), "is True, which is no log-probability"),
    (prompted(None, {"7": -0.2}, {"9": {"logprob": "-1"}}), "is '-1', which is no log-probability"),
    (prompted(None, {"7": -0.2}, {"9": -0.1}, prompt_token_ids=[5, 8, 9]), "came back changed"),
]


@pytest.mark.parametrize(("found", "says"), BAD)
def test_answers_without_the_values(found: dict[str, Any], says: str) -> None:
    with pytest.raises(AttemptFailed) as caught:
        reading.from_prompt_logprobs(found, Span((5, 7, 9), 2))
    assert says in caught.value.message
    assert (caught.value.error_type, caught.value.is_final) == ("bad_logprobs", False)


def test_the_context_need_not_be_finite() -> None:
    """Only the scored places count; the others must name the token that was sent."""
    found = prompted(None, {"7": float("nan")}, {"9": -0.5})
    assert reading.from_prompt_logprobs(found, Span((5, 7, 9), 2)).logprob == -0.5


def test_echo_by_place() -> None:
    tops = [None, {"b": -1.0}, {"c": -2.0, "d": -0.5}, {"!": -0.1}]
    found = echoed(["a", "b", "c", "!"], [None, -1.0, -2.0, -0.1], 3, top_logprobs=tops)
    assert reading.from_echo(found, Span((1, 2, 3), 1), 1) == Score(-3.0, False)
    # the server's count decides
    assert reading.from_echo(found, Span((1, 2, 3), 1), 0) == Score(-3.0, False)
    found["usage"] = {}
    assert reading.from_echo(found, Span((1, 2, 3), 1), 1) == Score(-3.0, False)
    for span, says in (
        (Span((1, 2), 1), "3 tokens of a prompt of 2"),
        (Span((1, 2, 3, 4), 1), "3 tokens of a prompt"),
    ):
        with pytest.raises(AttemptFailed, match=says):
            reading.from_echo(found, span, 1)
    with pytest.raises(AttemptFailed, match="no top_logprobs"):
        reading.from_echo(echoed(["a", "b"], [None, -1.0], 2), Span((1, 2), 1), 0)


ECHOES: list[tuple[dict[str, Any], str]] = [
    ({"choices": [{"logprobs": None}]}, "it has no logprobs"),
    (echoed(["a"], [None, -1.0]), "1 tokens and 2 values"),
    (echoed(["a", "b"], [None, -1.0], 3), "echoes 2 tokens where the prompt has 3"),
    (
        {"choices": [{"logprobs": {"tokens": [1], "token_logprobs": [-1.0]}}]},
        "no tokens or no token_logprobs",
    ),
]


@pytest.mark.parametrize(("found", "says"), ECHOES)
def test_answers_without_an_echo(found: dict[str, Any], says: str) -> None:
    with pytest.raises(AttemptFailed) as caught:
        Echo.of(found, 0)
    assert says in caught.value.message


# tokens, text_offset, text, continuation -> first scored place and whether it spans the border;
# None: not to be told
BORDERS: list[tuple[list[str], list[int] | None, str, str, tuple[int, bool] | None]] = [
    (["The", " sky", " is"], None, "The sky is", " is", (2, False)),
    (["The", " sky", " is"], None, "The sky is", " sky is", (1, False)),
    (["The", " sky", " is"], None, "The sky is", "ky is", (1, True)),
    (["<s>", "The", " sky"], None, "The sky", "The sky", (1, False)),
    (["<s>", "The", " sky"], [0, 3, 6], "The sky", " sky", (2, False)),
    (
        ["The", " b", "\ufffd", "\ufffd", " is"],
        [0, 3, 5, 5, 6],
        "The b\u00e9 is",
        "\u00e9 is",
        (2, False),
    ),
    (
        ["The", " b", "\ufffd", "\ufffd", " is"],
        [0, 3, 5, 6, 7],
        "The b\u00e9 is",
        "\u00e9 is",
        None,
    ),
    (["The", " b", "\ufffd", "\ufffd", " is"], None, "The b\u00e9 is", " is", (4, False)),
    (["The", " b", "\ufffd", "\ufffd", " is"], None, "The b\u00e9 is", "\u00e9 is", None),
    (["Other", " text"], None, "The sky", " sky", None),
    (["Other", " text"], [0, 5], "The sky", " sky", None),
]


@pytest.mark.parametrize(("tokens", "offsets", "text", "continuation", "expected"), BORDERS)
def test_the_border_in_an_echoed_text(
    tokens: list[str],
    offsets: list[int] | None,
    text: str,
    continuation: str,
    expected: tuple[int, bool] | None,
) -> None:
    echo = Echo.of(echoed(tokens, [None] + [-1.0] * (len(tokens) - 1), text_offset=offsets), 0)
    found = echo.border(text, continuation)
    assert (None if found is None else (found[0].start, found[1])) == expected
    assert found is None or found[0].stop == len(tokens)


def test_named_tokens() -> None:
    tops = {"token_id:4": -1.5, "token_id:9": -0.25, "token_id:77": -0.2}
    found = {"choices": [{"logprobs": {"tokens": ["token_id:77"], "top_logprobs": [tops]}}]}
    assert reading.from_token_ids(found, [4, 9]) == {4: Score(-1.5, False), 9: Score(-0.25, False)}
    assert reading.from_token_ids(found, [77]) == {77: Score(-0.2, True)}
    with pytest.raises(AttemptFailed, match=r"no log-probability of the tokens \[5\]"):
        reading.from_token_ids(found, [4, 5])
    entries = [{"token": token, "logprob": value} for token, value in tops.items()]
    chat = {
        "choices": [{"logprobs": {"content": [{"token": "token_id:77", "top_logprobs": entries}]}}]
    }
    assert reading.from_chat_token_ids(chat, [4, 77]) == {
        4: Score(-1.5, False),
        77: Score(-0.2, True),
    }
    for empty in (
        {"logprobs": None},
        {"logprobs": {"content": []}},
        {"logprobs": {"content": [{"token": "A"}]}},
    ):
        with pytest.raises(AttemptFailed, match="logprobs"):
            reading.from_chat_token_ids({"choices": [empty]}, [4])
