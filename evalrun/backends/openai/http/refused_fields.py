"""Fields of a body that a server refuses: learned from its answer once, left out or renamed since.

Only fields that change no answer are touched: `max_tokens` becomes `max_completion_tokens` (the
o-series, gpt-5), `seed` and `stream_options` are left out. A refused temperature or top_p stays a
failure: leaving it out would change what is measured.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

LEFT_OUT = ("seed", "stream_options")
RENAMED = {"max_tokens": "max_completion_tokens"}
LOST = {
    "seed": "samples cannot be drawn again",
    "stream_options": "tokens are not counted",
    "max_tokens": "max_completion_tokens is sent in its place",
}

# The words of a refusal, of OpenAI, Azure, FastAPI/pydantic, Mistral, TGI and others.
_REFUSAL = re.compile(
    r"unsupported|not supported|isn't supported|unrecogni[sz]ed|unknown|unexpected|not permitted"
    r"|extra[_ ](?:inputs|fields|forbidden)|not allowed|additional properties",
    re.IGNORECASE,
)

log = logging.getLogger(__name__)


class RefusedFields:
    """What one server refused so far. Shared by all that sends to it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._refused: set[str] = set()

    def adapted(self, body: bytes) -> bytes:
        """The body without what is known to be refused."""
        return self._without(body, self._refused) if self._refused else body

    def learned(self, http_status: int, message: str, body: bytes) -> bytes | None:
        """The body to send in place of one that was refused; None where that is not the reason.

        Args:
            http_status: of the refusal.
            message: the server's words.
            body: what was sent.
        """
        if http_status not in (400, 422) or not _REFUSAL.search(message):
            return None
        sent = json.loads(body)
        named = {
            name
            for name in (*LEFT_OUT, *RENAMED)
            if name in sent and re.search(rf"(?<!\w){name}(?!\w)", message)
        }
        if not named:
            return None
        for name in sorted(named - self._refused):
            log.warning("model %s: its server refuses %s: %s", self._model, name, LOST[name])
        self._refused |= named
        return self._without(body, named)

    def _without(self, body: bytes, names: set[str]) -> bytes:
        fields: dict[str, Any] = json.loads(body)
        kept = {RENAMED.get(k, k) if k in names else k: v for k, v in fields.items()
                if k not in names or k in RENAMED}  # fmt: skip
        return json.dumps(kept).encode()
