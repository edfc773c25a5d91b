"""Error objects of servers: their words, whether another attempt can help, content filters.

A content filter judges one prompt and says nothing of the next.
"""

from __future__ import annotations

import json
from typing import Any

from evalrun.backends.openai.http.retry import AttemptFailed, is_worth_repeating
from evalrun.types import Status

_PERMANENT = (
    "invalid_request",
    "badrequest",
    "bad_request",
    "authentication",
    "permission",
    "notfound",
    "not_found",
)

CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "data_inspection_failed",
        "moderation_blocked",
        "content_policy",
        "1301",
    }
)
"""Values of code or type in error objects: Azure and OpenAI, Alibaba, OpenAI images, Zhipu."""

_WORDS = ("content management policy", "content_filter", "content filter", "data_inspection_failed")


def is_filtered(error: Any) -> bool:
    """Whether an error object, or its text, is a content filter's refusal."""
    if isinstance(error, str):
        text = error.lower()
        return any(word in text for word in _WORDS)
    if isinstance(error, list):
        return any(map(is_filtered, error))
    if not isinstance(error, dict):
        return False
    codes = {str(error.get(key)).lower() for key in ("code", "type")}
    inner = (error.get(key) for key in ("error", "innererror", "detail", "message"))
    return bool(codes & CODES) or any(map(is_filtered, inner))


def is_filter_body(body: bytes) -> bool:
    """Whether the body of an HTTP error is one."""
    try:
        return is_filtered(json.loads(body))
    except (ValueError, RecursionError):
        return is_filtered(body.decode("utf-8", "replace"))


def whole(parts: list[str]) -> str:
    """The parts as one text: surrogate pairs cut between two parts are joined, a lone half
    becomes U+FFFD.
    """
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def error_text(error: Any) -> str:
    """The message inside an error object of any of the usual shapes; the JSON itself where there
    is none.
    """
    while isinstance(error, dict):
        inner = next(
            (error[key] for key in ("message", "error", "detail", "msg") if error.get(key)), None
        )
        if inner is None:
            break
        error = inner
    if isinstance(error, str):
        return whole([error])
    try:
        return json.dumps(error)
    except RecursionError:
        return "an error that is nested too deep to be shown"


def filtered(message: str, http_status: int) -> AttemptFailed:
    """A prompt that a content filter refused: the same again would be refused, others may not."""
    return AttemptFailed(
        "content_filter", message, status=Status.FILTERED, http_status=http_status, is_final=True
    )


def error_event(error: Any) -> AttemptFailed:
    """An error that came inside a stream of HTTP status 200. Its code says whether to try again."""
    if is_filtered(error):
        return filtered(error_text(error), 200)
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599:
        is_final = not is_worth_repeating(code)
    else:
        kind = str(error.get("type") or "").lower() if isinstance(error, dict) else ""
        is_final = any(word in kind for word in _PERMANENT)
    return AttemptFailed(
        "error_event", error_text(error), http_status=200, is_final=is_final, is_refusal=is_final
    )
