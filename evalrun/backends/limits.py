"""The limits of a model's requests: what they may be, checked in one place."""

from __future__ import annotations

import math
from typing import Protocol

from evalrun.errors import Fault, unknown

BOUNDARIES = ("joint", "separate")
TIMEOUTS = ("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s", "total_timeout_s")
MOST = 10_000_000  # of any count: what is above is a slip of the finger


class Limits(Protocol):
    """What is checked: a model of the configuration, or of a plan. None: the default holds."""

    @property
    def concurrency(self) -> int:
        """Requests at once, at least 1."""

    @property
    def batch_size(self) -> int | None:
        """Texts in one forward pass, at least 1."""

    @property
    def max_model_len(self) -> int | None:
        """Tokens of prompt and answer together, at least 1."""

    @property
    def retries(self) -> int:
        """Further attempts of a request, at least 0."""

    @property
    def request_rate(self) -> float | None:
        """Requests per second, above 0."""

    @property
    def request_burst(self) -> int | None:
        """Requests at once after a pause, at least 1."""

    @property
    def token_boundary(self) -> str | None:
        """joint or separate."""

    @property
    def n_per_request(self) -> str | int | None:
        """1 or all."""


def positive_int(value: object, name: str) -> int:
    """`value` if it is an integer from 1 to 10,000,000.

    Fault naming the key for anything else; bool, text and floats are refused.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        hint = " Write null for none." if value == "None" else ""
        raise Fault(f"{name} must be a positive integer; got {value!r}.{hint}")
    if value > MOST:
        raise Fault(f"{name} must be at most {MOST:,}; got {value}.")
    return value


def check_limits(model: Limits) -> None:
    """Fault for a limit that no model could be asked with: names the key, the value, the range."""
    for key in ("concurrency", "batch_size", "max_model_len", "request_burst"):
        if getattr(model, key) is not None:
            positive_int(getattr(model, key), f"model.{key}")
    if model.retries < 0:
        raise Fault(
            f"model.retries must be 0 or more (0 sends every request once); got {model.retries}."
        )
    for key in TIMEOUTS:
        if not 0 < getattr(model, key) < math.inf:
            raise Fault(
                f"model.{key} must be above 0 seconds, and finite; got {getattr(model, key)}."
            )
    if model.token_boundary not in (None, *BOUNDARIES):
        raise unknown("token boundary", model.token_boundary, BOUNDARIES, "model.token_boundary")
    if str(model.n_per_request) not in ("None", "1", "all"):
        raise Fault(
            "model.n_per_request must be 1 (one request per sample) or all (one per document); "
            f"got {model.n_per_request}."
        )
    if model.request_rate is not None and not 0 < model.request_rate < math.inf:
        raise Fault(
            f"model.request_rate must be above 0 requests/s, and finite; got {model.request_rate}."
        )
