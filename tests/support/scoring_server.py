"""A server whose log-probabilities a test can compute: words are tokens, and their values follow
a formula.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from evalrun.backends.openai.chat import OpenaiChatBackend
from evalrun.backends.openai.completions import OpenaiCompletionsBackend
from evalrun.types import Loglikelihood, Message, ModelPlan, Reply, Request
from support.chat_servers import MODELS, http, scripted

WORD = re.compile(r" ?\w+|\s|[^\w\s]")
BOS = 1
VLLM = ("tokenize", "info", "ids", "prompt_logprobs", "token_ids")
CACHE = """# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="{}",enable_prefix_caching="True",engine="0"}} 1.0
"""
FAVOURITES = (" B", " blue", " sky", " today", " is")


def logprob(prefix: list[int], token: int) -> float:
    """The value of a token after others; never 0, never two alike in a row."""
    return -((sum(prefix) * 31 + len(prefix) * 7 + token * 17) % 97 + 1) / 20


def token_id(word: str) -> int:
    """The id of a word, whatever was asked before."""
    return 10 + zlib.crc32(word.encode()) % 1_000_000


def favourite(prefix: list[int]) -> int:
    """The likeliest token there."""
    return token_id(FAVOURITES[sum(prefix) % len(FAVOURITES)])


@dataclass
class Toy:
    """abilities: tokenize, info, ids (prompts of token ids), prompt_logprobs, echo, echo0,
    token_ids.

    block_size: of its prefix cache, as /metrics tells; None: no such route. refused: tokens that no
    call may name. bend: what the first `n_bent` scoring answers suffer (a status, or a key of
    `_bent`).
    """

    abilities: set[str]
    has_bos: bool = False
    bend: str | None = None
    n_bent: int = 0
    block_size: int | None = None
    limit: int = 1000
    refused: set[int] = field(default_factory=set)
    words: dict[int, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """How often each path was asked."""
        return Counter(path for path, _ in self.asked)

    def tokens(self, text: str, is_full: bool = False) -> list[int]:
        """The ids of a text."""
        ids = [1] if self.has_bos and is_full else []
        for word in re.findall(r"<s>|" + WORD.pattern, text):
            ids.append(BOS if word == "<s>" else token_id(word))
            self.words[ids[-1]] = word
        return ids

    def text(self, token: int) -> str:
        """The word of an id."""
        return self.words.get(token, "<s>" if token == BOS else f"?{token}")

    def expected(self, ids: list[int], start: int) -> tuple[float, bool]:
        """(sum, greedy) of the tokens from `start` on."""
        places = range(start, len(ids))
        return sum(logprob(ids[:p], ids[p]) for p in places), all(
            favourite(ids[:p]) == ids[p] for p in places
        )

    async def handle(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[bytes]:
        """One HTTP answer."""
        if path == "/v1/models":
            yield MODELS
            return
        if path == "/metrics" and self.block_size is not None:
            yield http(200, CACHE.format(self.block_size).encode())
            return
        asked = json.loads(body) if body else {}
        self.asked.append((path, asked))
        if path == "/tokenizer_info" and "info" in self.abilities:
            yield http(
                200, json.dumps({"bos_token": "<s>", "eos_token": {"content": "<s>"}}).encode()
            )
        elif path == "/tokenize" and "tokenize" in self.abilities:
            yield http(200, json.dumps(self._tokenized(asked)).encode())
        elif path in ("/v1/completions", "/v1/chat/completions"):
            yield self._completion(path, asked)
        else:
            yield http(404, b'{"error": {"message": "Not Found"}}')

    def _tokenized(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "messages" in asked:
            ids = [2, *self.tokens(asked["messages"][0]["content"]), 3]
            ids += (
                self.tokens(asked["messages"][1]["content"]) if len(asked["messages"]) > 1 else []
            )
        else:
            ids = self.tokens(asked["prompt"], asked["add_special_tokens"])
        return {"tokens": ids, "count": len(ids), "max_model_len": self.limit}

    def _completion(self, path: str, asked: dict[str, Any]) -> bytes:
        is_chat = path.endswith("chat/completions")
        prompt = asked["messages"][0]["content"] if is_chat else asked["prompt"]
        if isinstance(prompt, list) and "ids" not in self.abilities:
            return http(400, b'{"error": {"message": "prompt must be a string"}}')
        if isinstance(prompt, list) and len(prompt) + asked["max_tokens"] > self.limit:
            return http(400, b'{"error": {"message": "the prompt is too long"}}')
        ids = prompt if isinstance(prompt, list) else self.tokens(prompt, is_full=True)
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "length"}
        if self.refused & {*asked.get("logprob_token_ids", ())}:
            return http(400, b'{"error": {"message": "no such token"}}')
        if "logprob_token_ids" in asked and "token_ids" in self.abilities:
            choice["logprobs"] = self._named(ids, asked["logprob_token_ids"], is_chat)
        elif "prompt_logprobs" in asked and "prompt_logprobs" in self.abilities:
            choice["prompt_logprobs"] = self._by_id(ids)
        elif "echo" in asked:
            if not {"echo", "echo0"} & self.abilities or (
                asked["max_tokens"] == 0 and "echo0" not in self.abilities
            ):
                return http(400, b'{"error": {"message": "echo is not supported with logprobs"}}')
            choice["logprobs"] = self._echo(ids, asked["max_tokens"])
        if self.n_bent > 0 and is_chat is False and "is_probe" not in asked:
            self.n_bent -= 1
            if self.bend in ("429", "500"):
                return http(
                    int(self.bend), b'{"error": {"message": "busy"}}', extra="Retry-After: 0.01\r\n"
                )
            self._bent(choice)
        return http(
            200, json.dumps({"choices": [choice], "usage": {"prompt_tokens": len(ids)}}).encode()
        )

    def _by_id(self, ids: list[int]) -> list[Any]:
        rows: list[Any] = [None]
        for place in range(1, len(ids)):
            value = logprob(ids[:place], ids[place])
            rows.append(
                {
                    str(favourite(ids[:place])): {"logprob": -0.01},
                    str(ids[place]): {"logprob": value},
                }
            )
        return rows

    def _echo(self, ids: list[int], n_generated: int) -> dict[str, Any]:
        rows = self._by_id(ids)
        tokens = [self.text(token) for token in ids] + ["!"] * n_generated
        values = [
            None if row is None else row[str(token)]["logprob"]
            for row, token in zip(rows, ids, strict=True)
        ]
        tops = [
            None if row is None else {self.text(int(t)): e["logprob"] for t, e in row.items()}
            for row in rows
        ]
        offsets = [sum(map(len, tokens[:place])) for place in range(len(tokens))]
        return {
            "tokens": tokens,
            "token_logprobs": values + [-0.5] * n_generated,
            "top_logprobs": tops + [{"!": -0.5}] * n_generated,
            "text_offset": offsets,
        }

    def _named(self, ids: list[int], named: list[int], is_chat: bool) -> dict[str, Any]:
        values = {f"token_id:{token}": logprob(ids, token) for token in named}
        best = favourite(ids)
        values.setdefault(f"token_id:{best}", -0.01)
        if not is_chat:
            return {"tokens": [f"token_id:{best}"], "top_logprobs": [values]}
        tops = [{"token": token, "logprob": value} for token, value in values.items()]
        return {"content": [{"token": f"token_id:{best}", "top_logprobs": tops}]}

    def _bent(self, choice: dict[str, Any]) -> None:
        rows = choice.get("prompt_logprobs") or [None]
        last = rows[-1]
        match self.bend:
            case "missing":
                choice.pop("prompt_logprobs", None)
            case "count":
                choice["prompt_logprobs"] = rows[:-1]
            case "nan":
                rows[-1] = {token: {"logprob": float("nan")} for token in last}
            case "minus infinity":
                rows[-1] = {token: {"logprob": -9999.0} for token in last}
            case "positive":
                rows[-1] = dict.fromkeys(last, 0.5)
            case "other token":
                rows[-1] = {"4": {"logprob": -1.0}}
            case "null row":
                rows[-1] = None


@contextmanager
def toy_server(*abilities: str, **options: Any) -> Iterator[tuple[str, Toy]]:
    """A toy server with these abilities; its URL, and itself."""
    toy = Toy(set(abilities), **options)
    with scripted(toy.handle) as url:
        yield url, toy


def plan(url: str, backend: str = "openai_completions", **changes: Any) -> ModelPlan:
    return ModelPlan(**{"name": "m", "backend": backend, "base_url": url, "retries": 2, **changes})


def choice(
    doc_id: str, index: int, context: str, continuation: str, **changes: Any
) -> Loglikelihood:
    messages = (Message("user", context),) if context else ()
    return replace(Loglikelihood(doc_id, index, messages, continuation), **changes)


def rows_of(model: ModelPlan, *requests: Request) -> list[Reply]:
    """The rows, in the order of the requests."""
    kind = OpenaiChatBackend if model.backend == "openai_chat" else OpenaiCompletionsBackend
    rows: dict[Any, Reply] = {}
    backend = kind(model)
    backend.start()
    backend.run(requests, lambda row: rows.setdefault(row.key, row))
    return [rows[key] for request in requests for key in request.keys()]  # noqa: SIM118


def expected(toy: Toy, request: Loglikelihood) -> tuple[float, bool, int, str | None]:
    """(logprob, is_greedy, n_tokens, extra) of the joined text, after the longest common prefix."""
    context = request.messages[0].content.rstrip()
    text = request.messages[0].content + request.continuation
    whole, before = toy.tokens(text, True), toy.tokens(context, True)
    start = next(
        (i for i, (x, y) in enumerate(zip(whole, before, strict=False)) if x != y), len(before)
    )
    value, is_greedy = toy.expected(whole, start)
    return (
        value,
        is_greedy,
        len(whole) - start,
        None if start == len(before) else '{"spanning": true}',
    )
