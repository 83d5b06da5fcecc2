"""Where a request goes, and that a key goes nowhere else."""

from __future__ import annotations

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
