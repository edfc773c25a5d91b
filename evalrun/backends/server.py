"""A chat server as the client sees it: its address, its key, the model it serves."""

from __future__ import annotations

import asyncio
import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from evalrun.backends.deltas import error_text
from evalrun.backends.retry import is_worth_repeating, retry_after_s, wait_s
from evalrun.errors import Fault, visible
from evalrun.types import ModelPlan

if TYPE_CHECKING:
    import aiohttp

PROBE_TIMEOUT_S = 30.0
KEEP_ALIVE_S = 4.0  # shorter than the 5 s after which uvicorn closes an idle connection
LONGEST_ERROR_BYTES = 65536
_VERSIONED = re.compile(r"/v[0-9]+[a-z0-9]*$")


class ApiKey:
    """A key from the environment. It shows itself only in `header`, never in a repr, a pickle or an error."""

    __slots__ = ("_key", "name")

    def __init__(self, name: str | None, where: str) -> None:
        self.name = name
        self._key = ""
        if name is None:
            return
        self._key = os.environ.get(name, "").strip()
        if not self._key:
            raise Fault(
                f"The environment variable {visible(name)!r}, named by model.api_key_env for {where}, is not set or "
                "empty. Export it, or leave model.api_key_env out where the server wants no key."
            )
        if not (self._key.isascii() and self._key.isprintable()):
            raise Fault(
                f"The value of the environment variable {visible(name)!r} is no API key: it holds characters "
                "that no HTTP header can carry."
            )

    @property
    def header(self) -> dict[str, str]:
        """The Authorization header; empty without a key."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def hidden(self, text: str) -> str:
        """`text` with every occurrence of the key masked."""
        return text.replace(self._key, "***") if self._key else text

    def __repr__(self) -> str:
        return f"ApiKey({self.name!r})"

    def __reduce__(self) -> Any:
        raise TypeError("an API key is never written down")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answered. url: the API's root (ends in no slash). served: what /models lists."""

    url: str
    model: str
    served: tuple[str, ...] = ()
    version: str | None = None

    @property
    def chat_url(self) -> str:
        """Where chat completions are asked."""
        return f"{self.url}/chat/completions"


def api_roots(base_url: str | None) -> tuple[str, ...]:
    """The roots that `base_url` may mean, likeliest first; with or without /v1, slash or /chat/completions.

    Fault where it is no http(s) URL with a host, or holds credentials.
    """
    allowed = (
        "Allowed: http://HOST:PORT or https://HOST, with or without /v1, e.g. model.base_url=http://127.0.0.1:8000"
    )
    if not base_url:
        raise Fault(f"model.base_url is not set, and the backend openai_chat needs one. {allowed}.")
    try:
        parts = urlsplit(base_url.strip())
        has_port = parts.port != 0
    except ValueError:
        has_port = False
    if not has_port:
        raise Fault(f"model.base_url is no URL: its host or port cannot be read. {allowed}.")
    if parts.username is not None or parts.password is not None:
        raise Fault(
            "model.base_url holds credentials, which would end up in files and logs. Name the environment "
            "variable of the key by model.api_key_env=NAME and leave them out of the URL."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Fault(f"model.base_url={visible(base_url)!r} is no http(s) URL with a host. {allowed}.")
    if parts.query or parts.fragment:
        raise Fault(
            f"model.base_url={visible(base_url)!r} has a query or fragment, which a root cannot have. {allowed}."
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    paths = (path,) if _VERSIONED.search(path) else (f"{path}/v1", path)
    return tuple(urlunsplit((parts.scheme, parts.netloc, p, "", "")) for p in paths)


def new_session(key: ApiKey, connect_timeout_s: float) -> aiohttp.ClientSession:
    """A session for one event loop: no proxies from the environment, no cookies, no limit on connections."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s),
        headers={"Content-Type": "application/json", "Accept": "text/event-stream, application/json", **key.header},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


@dataclass(slots=True)
class _Answer:
    """What a probe brought: an HTTP status with a body, or the reason why there is none."""

    url: str
    status: int = 0
    body: bytes = b""
    problem: str = ""
    retry_after_s: float | None = None

    @property
    def said(self) -> str:
        """The answer in a few words."""
        if self.problem:
            return f"GET {self.url}: {self.problem}"
        return f"GET {self.url}: HTTP {self.status} {body_text(self.body)[:500]}".rstrip()

    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass
class Probe:
    """Finds the server behind a plan: reachability, root, model name, version."""

    model: ModelPlan
    key: ApiKey
    tried: list[str] = field(default_factory=list)

    async def find(self) -> Server:
        """The server. Fault naming the URL and everything that was tried."""
        roots = api_roots(self.model.base_url)
        async with new_session(self.key, self.model.connect_timeout_s) as session:
            for root in roots:
                listing = await self._get(session, f"{root}/models")
                if listing.status == 200 and (served := _names(listing.json())) is not None:
                    return Server(root, self._name(root, served), served, await self._version(session, root))
                if listing.status not in (200, 404, 405):
                    raise self._unreachable(listing)
            if self.model.path:  # a server need not list its models; it must have the chat route
                for root in roots:
                    if await self._has_chat(session, root):
                        return Server(root, self.model.path, (), await self._version(session, root))
        raise self._unreachable(None)

    def _name(self, root: str, served: tuple[str, ...]) -> str:
        if self.model.path:
            return self.model.path
        if len(served) == 1:
            return served[0]
        if not served:
            raise Fault(
                f"{root}/models lists no model, and model.path is not set. Name the model by model.path=NAME."
            )
        names = ", ".join(visible(name) for name in served[:40]) + (", ..." if len(served) > 40 else "")
        raise Fault(
            f"{root}/models lists {len(served)} models, and model.path does not say which one to ask. "
            f"Set model.path to one of: {names}."
        )

    def _unreachable(self, answer: _Answer | None) -> Fault:
        tried = self.key.hidden(visible("; ".join(self.tried)))
        if answer is not None and answer.status in (401, 403):
            named = f"model.api_key_env={self.key.name}" if self.key.name else "model.api_key_env, which is not set"
            way_out = f"The server refuses the key: check {named}."
        elif answer is not None and answer.status:
            way_out = "The server is there but does not answer as it should: see its log."
        elif answer is not None:
            way_out = "Start the server, or check host and port."
        elif self.model.path:
            way_out = (
                "No root has a chat route: check the path of the URL, and that the server speaks the OpenAI API."
            )
        else:
            way_out = "No root lists models: check the path of the URL, or name the model by model.path=NAME."
        return Fault(
            f"No chat server at model.base_url={visible(self.model.base_url or '')!r}. Tried {tried}. {way_out}"
        )

    async def _get(self, session: aiohttp.ClientSession, url: str) -> _Answer:
        """GET with a few repeats where the server says that it will be there in a while."""
        for n_failed in range(1, min(self.model.retries, 3) + 2):
            answer = await self._send(session, "GET", url)
            is_last = n_failed > min(self.model.retries, 3)
            wait = wait_s(n_failed, answer.retry_after_s)
            if is_last or not is_worth_repeating(answer.status) or wait > PROBE_TIMEOUT_S:
                break
            await asyncio.sleep(wait)
        self.tried.append(answer.said)
        return answer

    async def _send(self, session: aiohttp.ClientSession, method: str, url: str) -> _Answer:
        import time

        import aiohttp

        body = b"{}" if method == "POST" else None
        try:
            async with (
                asyncio.timeout(PROBE_TIMEOUT_S),
                session.request(method, url, data=body, allow_redirects=False) as response,
            ):
                content = await read_up_to(response, 4_000_000)
                wait = retry_after_s(response.headers.get("Retry-After"), time.time())
                return _Answer(url, response.status, content, retry_after_s=wait)
        except TimeoutError:
            limit = min(self.model.connect_timeout_s, PROBE_TIMEOUT_S)
            return _Answer(
                url, problem=f"no answer in time (connect limit {limit:g} s, {PROBE_TIMEOUT_S:g} s in all)"
            )
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            return _Answer(url, problem=problem_text(fault))

    async def _has_chat(self, session: aiohttp.ClientSession, root: str) -> bool:
        """True where POST of an empty body to the chat route is refused for its content, not for its address."""
        answer = await self._send(session, "POST", f"{root}/chat/completions")
        self.tried.append(answer.said.replace("GET", "POST", 1))
        if answer.status in (401, 403):
            raise self._unreachable(answer)
        return answer.status in (200, 400, 422, 500)

    async def _version(self, session: aiohttp.ClientSession, root: str) -> str | None:
        """What /version says, at the server's root or the API's. None where it says nothing."""
        bare = _VERSIONED.sub("", root)
        for url in dict.fromkeys((f"{bare}/version", f"{root}/version")):
            answer = await self._send(session, "GET", url)
            found = answer.json() if answer.status == 200 else None
            if isinstance(found, dict) and isinstance(found.get("version"), str):
                return str(found["version"])
        return None


async def read_up_to(response: aiohttp.ClientResponse, n_bytes: int) -> bytes:
    """The body, or about its first `n_bytes`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size >= n_bytes:
            break
    return b"".join(parts)


def _names(listing: Any) -> tuple[str, ...] | None:
    """The ids of a /models answer; None where it is none."""
    if not isinstance(listing, dict) or not isinstance(listing.get("data"), list):
        return None
    ids = (entry.get("id") for entry in listing["data"] if isinstance(entry, dict))
    return tuple(dict.fromkeys(i for i in ids if isinstance(i, str)))


def body_text(body: bytes) -> str:
    """The server's message in an error body: JSON's message field, else the text itself."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        return " ".join(text.split())
    return error_text(found)


def problem_text(fault: BaseException) -> str:
    """A connection fault in words: the operating system's where it has some."""
    inner = getattr(fault, "os_error", None) or fault
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return str(text)
