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
    """One attempt failed. `problem` completes "the endpoint did not answer: ..."; it never quotes what was sent.

    `refusal` is the endpoint's own text, for deciding what to try next. It is never shown, as it may repeat the key.
    """

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


async def with_retries(
    policy: RetryPolicy, attempt: Callable[[], Awaitable[T]], pause: Callable[[float], Awaitable[Any]] = asyncio.sleep
) -> T:
    """The result of the first attempt that succeeds. A failure that waiting cannot mend is raised at once."""
    for number in range(1, policy.attempts):
        try:
            return await attempt()
        except EndpointFailure as failed:
            if not failed.passes or (failed.retry_after or 0) > policy.longest_wait:
                raise
            # Doubling with jitter, so that many clients do not come back together.
            growing = min(policy.longest_wait, 0.5 * 2.0**number) * random.uniform(0.5, 1)  # noqa: S311 - no secret
            await pause(growing if failed.retry_after is None else failed.retry_after)
    return await attempt()


def client(key: str, key_name: str, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that sends the key, if there is one, and asks for nothing compressed: a small bomb unpacks to much."""
    if not (key.isascii() and (key.isprintable() or not key)):
        raise SpecError(f"The key in {key_name} holds what no header can. Copy it anew.")
    headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    timeout = httpx.Timeout(None, connect=CONNECT_WITHIN)  # the rest is bounded by the attempt as a whole
    return httpx.AsyncClient(headers=headers, timeout=timeout, transport=transport)


async def post(sender: httpx.AsyncClient, url: str, body: Any, policy: RetryPolicy) -> bytes:
    """One attempt: the bytes of a successful answer."""
    try:
        async with (
            asyncio.timeout(policy.timeout),
            sender.stream("POST", url, content=json.dumps(body).encode()) as response,
        ):
            if response.is_success:
                return await _read_bounded(response, policy.largest_answer)
            try:
                refusal = (await _read_bounded(response, LARGEST_REFUSAL)).decode(errors="replace")
            except EndpointFailure:
                refusal = ""  # a refusal too long to read is a refusal all the same
            status = response.status_code
            raise EndpointFailure(
                f"status {status}",
                passes=status in WORTH_RETRYING,
                status=status,
                retry_after=_seconds_to_wait(response.headers),
                refusal=refusal,
            )
    except TimeoutError as error:
        raise EndpointFailure(f"nothing complete within {policy.timeout:g} s", passes=True) from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise EndpointFailure(f"the address is none ({type(error).__name__})") from error
    except httpx.TransportError as error:
        raise EndpointFailure(f"the connection failed ({type(error).__name__})", passes=True) from error
    except httpx.HTTPError as error:
        raise EndpointFailure(f"the exchange failed ({type(error).__name__})") from error


async def _read_bounded(response: httpx.Response, largest: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise EndpointFailure("the answer is compressed, which was not asked for")
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > largest:
            raise EndpointFailure(f"the answer is longer than {largest:,} bytes")
    return bytes(parts)


def _seconds_to_wait(headers: httpx.Headers) -> float | None:
    """Retry-After comes as seconds, or as a date by the endpoint's clock, which need not be ours (RFC 9110, 10.2.3)."""
    retry_after = headers.get("Retry-After", "").strip()
    if retry_after.isdecimal():
        return float(retry_after[:9])
    then, now = _http_date(retry_after), _http_date(headers.get("Date", ""))
    return None if then is None else max(0.0, (then - (now or datetime.now(UTC))).total_seconds())


def _http_date(header: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
