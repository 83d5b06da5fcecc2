"""Guards the cookies that Streamlit signs users in with: each sign-in is recorded when it begins and when it ends.

Owns what an ID token may be signed with, and who may read the server's figures. The flow itself is Streamlit's.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Final

from workbench.server import logs
from workbench.server.access import AccessControl

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

USER: Final = "_streamlit_user"
TOKENS: Final = "_streamlit_user_tokens"
SIGNED_OUT: Final = "/auth/logout"
SIGNED_IN: Final = "/oauth2callback"
FIGURES: Final = "/_stcore/metrics"
ELSEWHERE: Final = frozenset({"cross-site", "same-site"})  # what browsers call pages of other hosts and other ports
# With a key that only the provider has. With `none` anybody could sign, and with HS256 all who read its published keys.
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
Cookies = Mapping[str, str]


class CookieGuard:
    """A middleware before Streamlit where users sign in."""

    def __init__(self, app: ASGIApp, gate: AccessControl, secret: str) -> None:
        self._app, self._gate, self._secret = app, gate, secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", "")).rstrip("/")
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif path.endswith(FIGURES) and not self._gate.lets_in(self._person(_sent(scope))):
            await _answer("Sign in first, with a role: these are figures of the server.", 403, scope, receive, send)
        elif path.endswith(SIGNED_OUT):
            await self._sign_out(scope, receive, send)
        elif path.endswith(SIGNED_IN):
            await self._sign_in(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _sign_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streamlit only asks the browser to forget the cookie. By a link of another page nobody is signed out."""
        from starlette.requests import Request

        if Request(scope).headers.get("sec-fetch-site") in ELSEWHERE:
            why = "You are not signed out: a page of another site led here. Rankbook has a button for it, top right."
            await _answer(why, 403, scope, receive, send)
            return
        try:
            self._end(_sent(scope))
        except OSError as error:
            logs.warning("sign_out_not_kept", error)
            why = "You are not signed out: that could not be written to Rankbook's home. Ask whoever runs it."
            await _answer(why, 503, scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass Streamlit's answer on, unless it signs a user in by a token that must not count."""
        answer: list[Message] = []

        async def hold(message: Message) -> None:
            answer.append(message)

        await self._app(scope, receive, hold)
        cookies = _cookies_set(answer)
        if person := self._person(cookies):
            refusal = self._begin(person, cookies, _sent(scope))
            if refusal:
                await _answer(refusal, 403, scope, receive, send)
                return
        for message in answer:
            await send(message)

    def _begin(self, person: Mapping[str, Any], cookies: Cookies, before: Cookies) -> str:
        """Record the sign-in, and end the one that it replaces. Empty, or why these cookies sign nobody in."""
        if (algorithm := _algorithm(_json(self._value(cookies, TOKENS)).get("id_token"))) not in ALGORITHMS:
            logs.warning("token_refused", algorithm=algorithm[:20])
            return (
                "You are not signed in: the provider's ID token is not signed with a key of its own. Whoever runs "
                f"Rankbook can have it sign with RS256 (possible are {', '.join(sorted(ALGORITHMS))})."
            )
        try:
            self._end(before)
            self._gate.sign_ins.begin(person)
        except OSError as error:
            logs.warning("sign_in_not_kept", error)
            return "You are not signed in: that could not be written to Rankbook's home. Ask whoever runs it."
        return ""

    def _end(self, cookies: Cookies) -> None:
        if person := self._person(cookies):
            self._gate.sign_ins.end(person)

    def _person(self, cookies: Cookies) -> Mapping[str, Any]:
        """The claims of the user with these cookies; empty where there is none."""
        return _json(self._value(cookies, USER))

    def _value(self, cookies: Cookies, name: str) -> bytes:
        from streamlit.auth_util import get_cookie_with_chunks
        from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value

        def single(part: str) -> bytes | None:
            value = cookies.get(part)
            return None if value is None else decode_signed_value(self._secret, part, value.encode("latin-1"))

        return get_cookie_with_chunks(single, name) or b""


def _json(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _algorithm(token: object) -> str:
    """The algorithm in the token's head, by which Authlib has checked it."""
    head = str(token).partition(".")[0]
    try:
        return str(_json(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))).get("alg"))
    except (binascii.Error, ValueError):
        return ""


def _sent(scope: Scope) -> Cookies:
    """The cookies of a request, as Streamlit reads them."""
    from starlette.requests import Request

    return Request(scope).cookies


def _cookies_set(answer: list[Message]) -> Cookies:
    """The cookies that an answer sets, without those that it deletes."""
    headers = answer[0].get("headers", []) if answer else []
    cookies: dict[str, str] = {}
    for name, value in headers:
        if name.lower() == b"set-cookie":
            parsed = SimpleCookie()
            try:
                parsed.load(value.decode("latin-1"))
            except CookieError:
                continue
            cookies |= {each: morsel.value for each, morsel in parsed.items() if morsel.value}
    return cookies


async def _answer(sentence: str, status: int, scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import PlainTextResponse

    await PlainTextResponse(sentence, status, {"Cache-Control": "no-store"})(scope, receive, send)
