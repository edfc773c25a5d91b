"""Finding the servers behind a plan before anything is asked: reachability, root, model name,
version.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evalrun.backends.openai.http.retry import is_worth_repeating, retry_after_s, wait_s
from evalrun.backends.openai.http.server import (
    ApiKey,
    Server,
    above_version,
    api_roots,
    at,
    body_text,
    new_session,
    problem_text,
    proxy_of,
    read_up_to,
)
from evalrun.errors import Fault, visible
from evalrun.types import ModelPlan

if TYPE_CHECKING:
    import aiohttp

PROBE_TIMEOUT_S = 30.0


async def find_servers(model: ModelPlan, key: ApiKey, route: str) -> Server:
    """The server at model.base_url, with those at model.replicas; all must serve the same model.

    Args:
        route: where completions are asked, below the root.

    Fault naming the URL and everything that was tried.
    """
    first = await Probe(model, key, route, model.base_url).find()
    others = []
    versions = {first.version}
    for place, url in enumerate(model.replicas):
        other = await Probe(model, key, route, url, f"model.replicas[{place}]").find()
        is_named = first.model in other.served if other.served else other.model == first.model
        if not is_named or (first.served and first.model not in first.served):
            wrong, listed = (other.url, other.served) if not is_named else (first.url, first.served)
            names = ", ".join(visible(name) for name in listed[:20]) or "another"
            raise Fault(
                f"All addresses of model {model.name!r} must serve the same model: {first.model!r} "
                f"is not served at {visible(wrong)}, which lists {names}. Correct model.path, or "
                "leave that address out of model.base_url and model.replicas."
            )
        others.append(other.url)
        versions.add(other.version)
    urls = (first.url, *others)
    if len(set(urls)) < len(urls):
        raise Fault(
            f"model.replicas names an address twice: {', '.join(visible(url) for url in urls)}. "
            "Say each once."
        )
    version = ", ".join(sorted(v for v in versions if v is not None)) or None
    return replace(first, others=tuple(others), version=version)


@dataclass(slots=True)
class _ProbeResponse:
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
        except (ValueError, RecursionError):
            return None


@dataclass
class Probe:
    """Finds one server.

    Attributes:
        where: the configuration key that its address stands in.
    """

    model: ModelPlan
    key: ApiKey
    route: str
    base_url: str | None
    where: str = "model.base_url"
    tried: list[str] = field(default_factory=list)

    async def find(self) -> Server:
        """The server. Fault naming the URL and everything that was tried."""
        roots = api_roots(self.base_url, self.where)
        async with new_session(self.key, self.model.connect_timeout_s) as session:
            for root in roots:
                listing = await self._get(session, at(root, "models"))
                if listing.status == 200 and (served := _names(listing.json())) is not None:
                    return Server(
                        root, self._name(root, served), served, await self._version(session, root)
                    )
                if listing.status not in (200, 404, 405):
                    raise self._unreachable(listing)
            if self.model.path:  # a server need not list its models; it must have the route
                for root in roots:
                    if await self._has_route(session, root):
                        return Server(root, self.model.path, (), await self._version(session, root))
        raise self._unreachable(None)

    def _name(self, root: str, served: tuple[str, ...]) -> str:
        if self.model.path:
            return self.model.path
        if len(served) == 1:
            return served[0]
        if not served:
            raise Fault(
                f"{root}/models lists no model, and model.path is not set. Name the model by "
                "model.path=NAME."
            )
        names = ", ".join(visible(name) for name in served[:40]) + (
            ", ..." if len(served) > 40 else ""
        )
        raise Fault(
            f"{root}/models lists {len(served)} models, and model.path does not say which one to "
            f"ask. Set model.path to one of: {names}."
        )

    def _unreachable(self, answer: _ProbeResponse | None) -> Fault:
        tried = self.key.hidden(visible("; ".join(self.tried)))
        if answer is not None and answer.status in (401, 403):
            named = (
                f"model.api_key_env={self.key.name}"
                if self.key.name
                else "model.api_key_env, which is not set"
            )
            way_out = f"The server refuses the key: check {named}."
        elif answer is not None and answer.status:
            way_out = "The server is there but does not answer as it should: see its log."
        elif answer is not None:
            way_out = "Start the server, or check host and port."
        elif self.model.path:
            way_out = (
                f"No root has the route {self.route}: check the path of the URL, and that the "
                "server speaks the OpenAI API."
            )
        else:
            way_out = (
                "No root lists models: check the path of the URL, or name the model by "
                "model.path=NAME."
            )
        return Fault(
            f"No server at {self.where}={visible(self.base_url or '')!r}. Tried {tried}. {way_out}"
        )

    async def _get(self, session: aiohttp.ClientSession, url: str) -> _ProbeResponse:
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

    async def _send(self, session: aiohttp.ClientSession, method: str, url: str) -> _ProbeResponse:
        import time

        import aiohttp

        body = b"{}" if method == "POST" else None
        limit_s = min(PROBE_TIMEOUT_S, self.model.total_timeout_s)
        try:
            async with (
                asyncio.timeout(limit_s),
                session.request(
                    method,
                    url,
                    data=body,
                    allow_redirects=False,
                    proxy=proxy_of(url, self.model.use_proxy),
                ) as response,
            ):
                content = await read_up_to(response, 4_000_000)
                wait = retry_after_s(response.headers.get("Retry-After"), time.time())
                return _ProbeResponse(url, response.status, content, retry_after_s=wait)
        except TimeoutError:
            connect_s = min(self.model.connect_timeout_s, limit_s)
            return _ProbeResponse(
                url,
                problem=f"no answer in time (connect limit {connect_s:g} s, {limit_s:g} s in all)",
            )
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            return _ProbeResponse(url, problem=problem_text(fault))

    async def _has_route(self, session: aiohttp.ClientSession, root: str) -> bool:
        """True where POST of an empty body to the route is refused for its content, not for its
        address.
        """
        answer = await self._send(session, "POST", at(root, self.route))
        self.tried.append(answer.said.replace("GET", "POST", 1))
        if answer.status in (401, 403):
            raise self._unreachable(answer)
        return answer.status in (200, 400, 422, 500)

    async def _version(self, session: aiohttp.ClientSession, root: str) -> str | None:
        """What /version says, at the server's root or the API's. None where it says nothing."""
        for url in dict.fromkeys((at(above_version(root), "version"), at(root, "version"))):
            answer = await self._send(session, "GET", url)
            found = answer.json() if answer.status == 200 else None
            if isinstance(found, dict) and isinstance(found.get("version"), str):
                return str(found["version"])
        return None


def _names(listing: Any) -> tuple[str, ...] | None:
    """The ids of a /models answer; None where it is none."""
    if not isinstance(listing, dict) or not isinstance(listing.get("data"), list):
        return None
    ids = (entry.get("id") for entry in listing["data"] if isinstance(entry, dict))
    return tuple(dict.fromkeys(i for i in ids if isinstance(i, str)))
