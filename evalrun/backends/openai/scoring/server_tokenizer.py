"""The server's own tokenizer (vLLM's /tokenize) in the place of a local one.

What turns requests into tokens runs synchronously, and the server is asked asynchronously. So a
text whose tokens are not known yet ends the turn by `Unknown`; all such texts are fetched at once,
and the turn is taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from evalrun.backends.loglikelihood.encoder import Refused
from evalrun.backends.openai.http.json_calls import JsonClient
from evalrun.errors import TaskFailure
from evalrun.types import Reply

T = TypeVar("T")
R = TypeVar("R")

NO_START = (
    "the text has no context, and the server does not tell the token that stands before a first "
    "one (BOS). Set model.tokenizer, or start the server with --enable-tokenizer-info-endpoint"
)


class Unknown(Exception):
    """A text whose tokens must be fetched first. Nobody but `ServerTokenizer` catches it."""

    def __init__(self, text: str, is_full: bool) -> None:
        super().__init__(text)
        self.text = text
        self.is_full = is_full


class ServerTokenizer:
    """Encodes by /tokenize, and keeps the tokens of the texts in work. is_full: with what stands
    before every text.

    bos, eos: their texts, where the server gives them (/tokenizer_info).
    """

    chat_template = None

    def __init__(
        self, client: JsonClient, model: str, bos: str | None = None, eos: str | None = None
    ) -> None:
        self._client = client
        self._model = model
        self._names = (bos, eos)
        self._tokens: dict[tuple[str, bool], tuple[int, ...] | Reply] = {}
        self._kept: set[tuple[str, bool]] = set()
        self.max_model_len: int | None = None

    def encode(self, text: str, **options: Any) -> list[int]:
        """The tokens of a text; option add_special_tokens (default: true) as transformers has it.

        Refused where the server would not give them; Unknown before they are fetched.
        """
        is_full = bool(options.get("add_special_tokens", True))
        return self._known(text, is_full) if text or is_full else []

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Names of tokens; used only to show them."""
        return [f"<{token}>" for token in ids]

    @property
    def bos_token_id(self) -> int | None:
        """The id of BOS; None where the tokenizer has none, or the server does not say."""
        return self._special(self._names[0])

    @property
    def eos_token_id(self) -> int | None:
        """The id of EOS, which stands for BOS where there is none.

        Refused where the server gives neither.
        """
        if self._names == (None, None):
            raise Refused("no_start_token", NO_START)
        return self._special(self._names[1])

    async def settled(self, make: Callable[[], T]) -> T:
        """What `make` gives, with the texts that it needs fetched and kept for good."""
        while True:
            try:
                return make()
            except Unknown as unknown:
                await self._fetch([(unknown.text, unknown.is_full)])
                self._kept.add((unknown.text, unknown.is_full))

    async def all_settled(self, make: Callable[[R], T], each: Iterable[R]) -> list[T]:
        """What `make` gives of each, in order.

        Their texts are fetched together and then forgotten.
        """
        waiting = list(enumerate(each))
        made: dict[int, T] = {}
        while waiting:
            again: list[tuple[int, R]] = []
            wanted: dict[tuple[str, bool], None] = {}
            for place, one in waiting:
                try:
                    made[place] = make(one)
                except Unknown as unknown:
                    again.append((place, one))
                    wanted[unknown.text, unknown.is_full] = None
            waiting = again
            if wanted:
                await self._fetch(wanted)
        self._tokens = {key: tokens for key, tokens in self._tokens.items() if key in self._kept}
        return [made[place] for place in sorted(made)]

    def _known(self, text: str, is_full: bool) -> list[int]:
        found = self._tokens.get((text, is_full))
        if found is None:
            raise Unknown(text, is_full)
        if isinstance(found, Reply):
            raise Refused("no_tokens", f"/tokenize: {found.error_message}")
        return list(found)

    def _special(self, name: str | None) -> int | None:
        ids = self.encode(name, add_special_tokens=False) if name is not None else []
        return ids[0] if len(ids) == 1 else None

    async def _fetch(self, wanted: Iterable[tuple[str, bool]]) -> None:
        keys = {f"{is_full} {text}": (text, is_full) for text, is_full in wanted}
        bodies = {
            name: {"model": self._model, "prompt": text, "add_special_tokens": is_full}
            for name, (text, is_full) in keys.items()
        }
        for name, found in (await self._client.ask(bodies)).items():
            if isinstance(found, Reply):
                self._tokens[keys[name]] = found
                continue
            self._tokens[keys[name]] = tokens_of(found)
            if isinstance(limit := found.get("max_model_len"), int):
                self.max_model_len = limit


def tokens_of(found: dict[str, Any]) -> tuple[int, ...]:
    """The ids of an answer of /tokenize.

    TaskFailure where it holds none: the server speaks another language.
    """
    tokens = found.get("tokens")
    if not isinstance(tokens, list) or not all(
        isinstance(t, int) and not isinstance(t, bool) for t in tokens
    ):
        raise TaskFailure(
            "The server's /tokenize answers without a list of token ids. Set model.tokenizer."
        )
    return tuple(tokens)
