"""When a failed attempt is worth another one, and how long to wait before it."""

from __future__ import annotations

import random
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from evalrun.types import Reply, Status

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
REFUSALS_IN_A_ROW = 20

_WORTH_REPEATING = frozenset({408, 409, 425, 429})
_NO_BODY_MATTERS = frozenset({401, 403, 404})
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class AttemptFailed(Exception):
    """One attempt that brought no answer.

    Args:
        error_type: goes into the row if it was the last attempt, as the message does.
        message: what happened.
        status: of the row.
        http_status: of the response, if there was one.
        is_final: another attempt cannot help.
        is_refusal: the same may be expected of every further request.
        retry_after_s: the server's own wait, in seconds.
        raw_text: what came, where it could not be read.
        rows: the rows if it was the last attempt, where they are known.
    """

    def __init__(
        self,
        error_type: str,
        message: str,
        *,
        status: Status = Status.ERROR,
        http_status: int | None = None,
        is_final: bool = False,
        is_refusal: bool = False,
        retry_after_s: float | None = None,
        raw_text: str | None = None,
        rows: list[Reply] | None = None,
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.status = status
        self.http_status = http_status
        self.is_final = is_final
        self.is_refusal = is_refusal
        self.retry_after_s = retry_after_s
        self.raw_text = raw_text
        self.rows = rows

    @property
    def is_unreachable(self) -> bool:
        """True where no connection came about."""
        return self.error_type in ("unreachable", "connect_timeout")

    @property
    def cause(self) -> tuple[str, int | None, str]:
        """What makes two refusals the same one.

        401, 403 and 404 are one cause whatever the server writes, and so are connections that do
        not come about.
        """
        is_one = self.is_unreachable or self.http_status in _NO_BODY_MATTERS
        return self.error_type, self.http_status, "" if is_one else self.message


class Refusals:
    """Counts how many requests in a row ended in the same refusal."""

    def __init__(self, limit: int = REFUSALS_IN_A_ROW) -> None:
        self.limit = limit
        self.count = 0
        self._cause: tuple[str, int | None, str] | None = None

    def note(self, fault: AttemptFailed | None) -> bool:
        """Take down how a request ended (None: well). True when the limit is reached."""
        if fault is None or not fault.is_refusal:
            self.count, self._cause = 0, None
            return False
        self.count = self.count + 1 if fault.cause == self._cause else 1
        self._cause = fault.cause
        return self.count >= self.limit


def is_worth_repeating(http_status: int) -> bool:
    """True for 408, 409, 425, 429 and 5xx: what may be gone in a while."""
    return http_status in _WORTH_REPEATING or 500 <= http_status <= 599


def retry_after_s(value: str | None, now_s: float) -> float | None:
    """Seconds to wait by a Retry-After header (RFC 9110, 10.2.3: seconds or a date), or None.

    None where the header is absent or malformed, or names no moment after `now_s` (seconds since
    the epoch).
    """
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        wait = float(text)
    else:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        if moment.tzinfo is None:  # "-0000": the standard library reads it as a time without a zone
            moment = moment.replace(tzinfo=UTC)
        wait = moment.timestamp() - now_s
    return wait if wait > 0 else None


def backoff_s(n_failed: int, draw: float) -> float:
    """Capped exponential back-off with jitter, in seconds, after `n_failed` (>= 1) failed attempts.

    min(30, 0.5 * 2^(n_failed - 1)) times a factor in [0.5, 1], where `draw` lies in [0, 1].
    """
    return float(
        min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(n_failed - 1, 20)) * (0.5 + 0.5 * draw)
    )


def wait_s(n_failed: int, server_s: float | None, draw: float | None = None) -> float:
    """Seconds before the next attempt.

    The server's wait is a floor; up to a tenth of it comes on top.
    """
    draw = random.random() if draw is None else draw
    wait = backoff_s(n_failed, draw)
    return wait if server_s is None else max(wait, server_s * (1 + 0.1 * draw))
