"""A model's server as the client sees it: its address, its key, the session that speaks to it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from evalrun.backends.openai.replies.error_objects import error_text
from evalrun.errors import Fault, visible

if TYPE_CHECKING:
    import aiohttp

KEEP_ALIVE_S = 4.0  # shorter than the 5 s after which uvicorn closes an idle connection
LONGEST_ERROR_BYTES = 65536
VERSIONED = re.compile(r"/v[0-9]+[a-z0-9]*$")
_QUERY = re.compile(r"(api-version=[0-9A-Za-z.\-]+)?")  # anything else might be a secret


class ApiKey:
    """A key from the environment.

    It shows itself only in `header`, never in a repr, a pickle or an error.
    """

    __slots__ = ("_key", "name")

    def __init__(self, name: str | None, where: str) -> None:
        self.name = name
        self._key = ""
        if name is None:
            return
        self._key = os.environ.get(name, "").strip()
        if not self._key:
            raise Fault(
                f"The environment variable {visible(name)!r}, named by model.api_key_env for "
                f"{where}, is not set or empty. Export it, or leave model.api_key_env out where "
                "the server wants no key."
            )
        if not (self._key.isascii() and self._key.isprintable()):
            raise Fault(
                f"The value of the environment variable {visible(name)!r} is no API key: it holds "
                "characters that no HTTP header can carry."
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
    """A server that answered.

    Attributes:
        url: the API's root (ends in no slash).
        served: what /models lists.
        others: the roots of further servers of the same model.
    """

    url: str
    model: str
    served: tuple[str, ...] = ()
    version: str | None = None
    others: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """All roots."""
        return (self.url, *self.others)


def api_roots(base_url: str | None, key: str = "model.base_url") -> tuple[str, ...]:
    """The roots that `base_url` may mean, likeliest first; with or without /v1, slash or the route
    of a completion.

    Args:
        key: the configuration key that it stands in.

    Fault where it is no http(s) URL with a host, or holds credentials.
    """
    allowed = (
        "Allowed: http://HOST:PORT or https://HOST, with or without /v1, e.g. "
        f"{key}=http://127.0.0.1:8000"
    )
    if not base_url:
        raise Fault(f"{key} is not set, and a model behind a server needs one. {allowed}.")
    try:
        parts = urlsplit(base_url.strip())
        has_port = parts.port != 0
    except ValueError:
        has_port = False
    if not has_port:
        raise Fault(f"{key} is no URL: its host or port cannot be read. {allowed}.")
    if parts.username is not None or parts.password is not None:
        raise Fault(
            f"{key} holds credentials, which would end up in files and logs. Name the environment "
            "variable of the key by model.api_key_env=NAME and leave them out of the URL."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Fault(f"{key}={visible(base_url)!r} is no http(s) URL with a host. {allowed}.")
    if parts.fragment or not _QUERY.fullmatch(parts.query):
        raise Fault(
            f"{key}={visible(base_url)!r} has a query or fragment, which a root cannot have "
            f"(but ?api-version=DATE). {allowed}."
        )
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat").rstrip("/")
    paths = (path,) if VERSIONED.search(path) else (f"{path}/v1", path)
    return tuple(urlunsplit((parts.scheme, parts.netloc, p, parts.query, "")) for p in paths)


def at(root: str, route: str) -> str:
    """The URL of a route below a root, whose query (?api-version=...) goes to the end."""
    url, mark, query = root.partition("?")
    return f"{url}/{route}{mark}{query}"


def above_version(root: str) -> str:
    """A root without its last part, where that is a version (/v1)."""
    url, mark, query = root.partition("?")
    return VERSIONED.sub("", url) + mark + query


def new_session(key: ApiKey, connect_timeout_s: float) -> aiohttp.ClientSession:
    """A session for one event loop: nothing from the environment, no cookies, no limit on
    connections.
    """
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s
        ),
        headers={
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            **key.header,
        },
        cookie_jar=aiohttp.DummyCookieJar(),
        # it would also read ~/.netrc, whose credentials would take the place of the key
        trust_env=False,
    )


def proxy_of(url: str, use_proxy: bool) -> str | None:
    """The proxy that the environment names for `url` (http_proxy, https_proxy, no_proxy), where
    one is wanted.
    """
    if not use_proxy:
        return None
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


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


def body_text(body: bytes) -> str:
    """The server's message in an error body: JSON's message field, else the text itself."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())
    return error_text(found)


def problem_text(fault: BaseException) -> str:
    """A connection fault in words: the operating system's where it has some."""
    inner = getattr(fault, "os_error", None) or fault
    text = (
        getattr(inner, "strerror", None)
        or getattr(inner, "message", None)
        or str(inner)
        or type(inner).__name__
    )
    return str(text)
