"""JSON over HTTP: addresses and keys checked, answers bounded, failures retried with growing pauses."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from core.context import Resources
from core.errors import SpecError


def checked_url(url: str, called: str) -> str:
    """The address without its last slash. One that carries a secret is refused, so that errors and logs may show it."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise SpecError(f"{called} is not an address. Give one such as http://localhost:11434/v1.") from None
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise SpecError(
            f"{called} carries a user name, a query or a fragment. Give the bare address; a key belongs in the "
            "environment."
        )
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise SpecError(f"{called} is not an http or https address. Give one such as http://localhost:11434/v1.")
    return url.rstrip("/")


def key_for(url: str, key: str, home: str, home_name: str) -> str:
    """The key, if the address may have it: a variant from somebody else must not carry it to their server."""
    if key and home and _origin(url) != _origin(checked_url(home, home_name)):
        raise SpecError(
            f"The key in the environment belongs to {home}, and this asks {url}. Set {home_name} to {url} with its "
            "own key, or leave the address out of the options."
        )
    return key


def _origin(url: str) -> tuple[str, str, int | None]:
    parsed = httpx.URL(url)
    return parsed.scheme, parsed.host, parsed.port


T = TypeVar("T")
WORTH_RETRYING = {408, 409, 425, 429, 500, 502, 503, 504}
CONNECT_WITHIN = 10.0
LARGEST_REFUSAL = 10_000  # bytes of an error's text that are read


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long, how often and how much. `timeout` holds for a whole attempt, so that a slow drip ends too."""

    timeout: float = 60.0
    attempts: int = 4
    longest_wait: float = 30.0
    largest_answer: int = 1_000_000  # bytes


class EndpointFailure(Exception):
    """One attempt failed. `problem` completes "the endpoint did not answer: ..."; it never quotes what was sent."""

    def __init__(
        self,
        problem: str,
        *,
        passes: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        refusal: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem, self.passes, self.status = problem, passes, status
        self.retry_after, self.refusal = retry_after, refusal


async def with_retries(resources: Resources, patience: RetryPolicy, attempt: Callable[[], Awaitable[T]]) -> T:
    """The first attempt that succeeds. What does not pass by itself is raised at once."""
    for number in range(1, patience.attempts):
        try:
            return await attempt()
        except EndpointFailure as failed:
            if not failed.passes or (failed.retry_after or 0) > patience.longest_wait:
                raise
            await resources.pause(_wait(number, failed.retry_after, patience.longest_wait))
    return await attempt()


def _wait(number: int, asked: float | None, longest: float) -> float:
    """What the endpoint asked for, else doubling with jitter, so that many clients do not come back together."""
    if asked is not None:
        return asked
    return min(longest, 0.5 * 2.0**number) * random.uniform(0.5, 1)  # noqa: S311 - jitter, no secret


def client(resources: Resources, key: str, key_name: str) -> httpx.AsyncClient:
    """A client that sends the key, if there is one, and asks for nothing compressed: a small bomb unpacks to much."""
    if not (key.isascii() and (key.isprintable() or not key)):
        raise SpecError(f"The key in {key_name} holds what no header can. Copy it anew.")
    headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    timeout = httpx.Timeout(None, connect=CONNECT_WITHIN)  # the rest is bounded by the attempt as a whole
    return httpx.AsyncClient(headers=headers, timeout=timeout, transport=resources.transport)


async def post(sender: httpx.AsyncClient, url: str, body: Any, patience: RetryPolicy) -> bytes:
    """One attempt: the bytes of a successful answer."""
    try:
        async with (
            asyncio.timeout(patience.timeout),
            sender.stream("POST", url, content=json.dumps(body).encode()) as response,
        ):
            if not response.is_success:
                raise _refused(response, await _refusal(response))
            return await _limited(response, patience.largest_answer)
    except TimeoutError as error:
        raise EndpointFailure(f"nothing complete within {patience.timeout:g} s", passes=True) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise EndpointFailure(f"the address is none ({type(error).__name__})") from error
    except httpx.TransportError as error:
        raise EndpointFailure(f"the connection failed ({type(error).__name__})", passes=True) from error
    except httpx.HTTPError as error:
        raise EndpointFailure(f"the exchange failed ({type(error).__name__})") from error


async def _limited(response: httpx.Response, largest: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise EndpointFailure("the answer is compressed, which was not asked for")
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > largest:
            raise EndpointFailure(f"the answer is longer than {largest:,} bytes")
    return bytes(parts)


async def _refusal(response: httpx.Response) -> str:
    """What a refusal says, for deciding what to try next; never shown, as some endpoints repeat the key in it."""
    try:
        return (await _limited(response, LARGEST_REFUSAL)).decode(errors="replace")
    except EndpointFailure:
        return ""  # a refusal too long to read is a refusal all the same


def _refused(response: httpx.Response, refusal: str) -> EndpointFailure:
    status = response.status_code
    return EndpointFailure(
        f"status {status}",
        passes=status in WORTH_RETRYING,
        status=status,
        retry_after=_seconds(response.headers.get("Retry-After", ""), _moment(response.headers.get("Date", ""))),
        refusal=refusal,
    )


def _seconds(header: str, now: datetime | None) -> float | None:
    """Retry-After comes as seconds or as a date (RFC 9110, 10.2.3): by the endpoint's clock, which need not be ours."""
    if header.strip().isdecimal():
        return float(header.strip()[:9])
    when = _moment(header)
    return None if when is None else max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


def _moment(header: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
