"""Log-probabilities read out of the answers of a server: by token id, by place, or by text.

Each function takes the JSON of an answer and gives a Score. An answer that does not hold what was
asked for (too few tokens, other tokens, numbers that are no log-probabilities) raises
AttemptFailed, so that it is asked for again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalrun.backends.loglikelihood.spans import Score, Span
from evalrun.backends.openai.http.retry import AttemptFailed

MINUS_INFINITY = -9999.0  # what vLLM writes for it, since JSON has none
HIGHEST = 1e-6  # a rounded log-probability may end a little above 0
ID = "token_id:"


def bad(message: str) -> AttemptFailed:
    """An answer without the log-probabilities that were asked for."""
    return AttemptFailed("bad_logprobs", f"HTTP 200, but {message}", http_status=200)


def number(value: Any, what: str) -> float:
    """A log-probability in nats, as a number or in an object's field `logprob`.

    AttemptFailed where it is none.
    """
    value = value.get("logprob") if isinstance(value, Mapping) else value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and MINUS_INFINITY < value <= HIGHEST):
        raise bad(f"{what} is {value!r}, which is no log-probability")
    return float(value)


def only_choice(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one choice of an answer."""
    choices = found.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        n = len(choices) if isinstance(choices, list) else "no"
        raise bad(f"it has {n} choices, not one")
    return choices[0]


def from_prompt_logprobs(found: Mapping[str, Any], span: Span) -> Score:
    """Score of a span by vLLM's prompt_logprobs: for each token a mapping id -> log-probability,
    null for the first.

    A position may hold further, likelier tokens: the value is that of the id that was sent.
    """
    choice = only_choice(found)
    rows = choice.get("prompt_logprobs")
    if not isinstance(rows, list):
        raise bad("it has no prompt_logprobs")
    if len(rows) != len(span.ids):
        raise bad(f"it scores {len(rows)} tokens of a prompt of {len(span.ids)}")
    sent = choice.get("prompt_token_ids")
    if isinstance(sent, list) and tuple(sent) != span.ids:
        raise bad("the prompt's token ids came back changed")
    total, is_greedy = 0.0, True
    for place in range(1, len(rows)):
        row, token = rows[place], str(span.ids[place])
        if not isinstance(row, Mapping) or token not in row:
            raise bad(f"prompt_logprobs has no value of token {token} at place {place}")
        if place >= span.start:
            value = number(row[token], f"the value of token {token} at place {place}")
            total += value
            is_greedy = is_greedy and value >= max(
                number(other, f"a value at place {place}") for other in row.values()
            )
    return Score(total, is_greedy)


def from_echo(found: Mapping[str, Any], span: Span, n_generated: int) -> Score:
    """Score of a span by echo and logprobs: token_logprobs by place.

    Args:
        n_generated: how many tokens were asked for.
    """
    echo = Echo.of(found, n_generated)
    if len(echo.values) != len(span.ids):
        raise bad(f"it scores {len(echo.values)} tokens of a prompt of {len(span.ids)}")
    logprob, is_greedy = echo.scored(range(span.start, len(span.ids)))
    if is_greedy is None:
        raise bad("it has no top_logprobs")
    return Score(logprob, is_greedy)


def from_token_ids(found: Mapping[str, Any], ids: Sequence[int]) -> dict[int, Score]:
    """Scores of tokens that may follow a prompt, by logprob_token_ids of completions: one
    generated token's list.
    """
    logprobs = only_choice(found).get("logprobs")
    if not isinstance(logprobs, Mapping):
        raise bad("it has no logprobs")
    tops, tokens = logprobs.get("top_logprobs"), logprobs.get("tokens")
    if not (
        isinstance(tops, list)
        and tops
        and isinstance(tops[0], Mapping)
        and isinstance(tokens, list)
        and tokens
    ):
        raise bad("its logprobs have no top_logprobs")
    return _by_id(tops[0], tokens[0], ids)


def from_chat_token_ids(found: Mapping[str, Any], ids: Sequence[int]) -> dict[int, Score]:
    """The same of a chat answer, whose list has the entries {token, logprob}."""
    logprobs = only_choice(found).get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not (isinstance(content, list) and content and isinstance(content[0], Mapping)):
        raise bad("it has no logprobs")
    tops = content[0].get("top_logprobs")
    if not isinstance(tops, list):
        raise bad("its logprobs have no top_logprobs")
    by_name = {top.get("token"): top.get("logprob") for top in tops if isinstance(top, Mapping)}
    return _by_id(by_name, content[0].get("token"), ids)


def _by_id(values: Mapping[Any, Any], first: Any, ids: Sequence[int]) -> dict[int, Score]:
    """first: the token that was drawn at temperature 0, which is the likeliest."""
    missing = [token for token in ids if f"{ID}{token}" not in values]
    if missing:
        raise bad(f"it has no log-probability of the tokens {missing}")
    return {
        token: Score(number(values[f"{ID}{token}"], f"token {token}"), first == f"{ID}{token}")
        for token in ids
    }


def prompt_count(found: Mapping[str, Any]) -> int | None:
    """usage.prompt_tokens, where the server gives it."""
    usage = found.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return count if _is_whole(count) else None


@dataclass(frozen=True, slots=True)
class Echo:
    """An echoed prompt: its tokens as text, their log-probabilities (null for the first), and
    the likeliest ones.
    """

    tokens: tuple[str, ...]
    values: tuple[Any, ...]
    tops: tuple[Any, ...] | None
    offsets: tuple[int, ...] | None

    @classmethod
    def of(cls, found: Mapping[str, Any], n_generated: int) -> Echo:
        """The echo of an answer, without what was generated after it.

        AttemptFailed where there is none.
        """
        logprobs = only_choice(found).get("logprobs")
        if not isinstance(logprobs, Mapping):
            raise bad("it has no logprobs")
        tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
        if (
            not isinstance(tokens, list)
            or not isinstance(values, list)
            or not all(isinstance(t, str) for t in tokens)
        ):
            raise bad("its logprobs have no tokens or no token_logprobs")
        if len(values) != len(tokens):
            raise bad(f"it has {len(tokens)} tokens and {len(values)} values")
        counted = prompt_count(found)
        end = len(tokens) - n_generated if counted is None else counted
        if not 0 < end <= len(tokens):
            raise bad(f"it echoes {len(tokens)} tokens where the prompt has {counted}")
        tops, offsets = (
            _as_long(logprobs.get(key), tokens) for key in ("top_logprobs", "text_offset")
        )
        if offsets is not None and not all(map(_is_whole, offsets)):
            offsets = None
        return cls(
            tuple(tokens[:end]),
            tuple(values[:end]),
            None if tops is None else tops[:end],
            None if offsets is None else offsets[:end],
        )

    def scored(self, places: range) -> tuple[float, bool | None]:
        """(sum over the places, whether each token is the likeliest; None where the server does
        not tell).
        """
        total = 0.0
        is_greedy: bool | None = None if self.tops is None else True
        for place in places:
            value = number(
                self.values[place], f"the value of token {self.tokens[place]!r} at place {place}"
            )
            total += value
            row = None if self.tops is None else self.tops[place]
            if not isinstance(row, Mapping) or not row:
                is_greedy = None
            elif is_greedy is not None:
                is_greedy = is_greedy and value >= max(
                    number(v, f"a value at place {place}") for v in row.values()
                )
        return total, is_greedy

    def border(self, text: str, continuation: str) -> tuple[range, bool] | None:
        """(places of the tokens that spell `continuation` at the end of `text`, whether the first
        also spells context).

        Read from the end, so that a BOS which the server put first does not matter; a text whose
        characters are split over tokens is placed by text_offset. None where the tokens do not
        spell the text.
        """
        joined, n = "", len(self.tokens)
        for place in range(n - 1, -1, -1):
            joined = self.tokens[place] + joined
            if not text.endswith(joined):
                break
            if len(joined) >= len(continuation):
                return range(place, n), len(joined) > len(continuation)
        return self._border_by_offset(len(text) - len(continuation), len(text))

    def _border_by_offset(self, border: int, end: int) -> tuple[range, bool] | None:
        """By the offsets, where they follow the text's characters: from 0, never back, the last
        within the text.
        """
        offsets, n = self.offsets, len(self.tokens)
        if (
            offsets is None
            or offsets[0] != 0
            or list(offsets) != sorted(offsets)
            or offsets[-1] >= end
        ):
            return None
        if offsets[-1] + len(self.tokens[-1]) > end:
            # they count something else, such as a stand-in for each byte of a character
            return None
        first = next((place for place in range(n) if offsets[place] >= border), n)
        if first < n and offsets[first] == border:
            return range(first, n), False
        return range(first - 1, n), True


def _as_long(found: Any, tokens: list[str]) -> tuple[Any, ...] | None:
    """The list, where it is one and has an entry for each token."""
    return tuple(found) if isinstance(found, list) and len(found) == len(tokens) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
