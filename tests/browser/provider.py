"""A small OpenID Connect provider on loopback: discovery, authorize, token, keys. Real flow, real signatures.

Whoever comes to it is signed in as `person`, without being asked. What it says wrongly on purpose is set on it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

KNOWN = OctKey.import_key("a key that everybody can read, as it is published", {"kid": "one"})
CLIENT, SECRET = "rankbook-tests", "planted-client-secret-0815"


@dataclass
class Provider:
    """One that stands at `issuer`. `claims` go over what a token says by right; `key` signs, `shown` is published."""

    issuer: str = ""
    person: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    shown: RSAKey | None = None
    algorithm: str = "RS256"
    tokens: int = 0
    given: dict[str, dict[str, str]] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.algorithm],
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> dict[str, Any]:
        if self.algorithm == "HS256":
            return {"keys": [KNOWN.as_dict()]}
        return {"keys": [{**(self.shown or self.key).as_dict(private=False), "alg": self.algorithm, "use": "sig"}]}

    def authorized(self, asked: dict[str, str]) -> str:
        """Where the browser goes next, with a code that is good once."""
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        code = uuid.uuid4().hex
        self.given[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, said: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """What the code is good for; nothing where the client or its proof is another."""
        asked = self.given.pop(said.get("code", ""), None)
        client = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ""
        if asked is None or f"{CLIENT}:{SECRET}" not in {
            client,
            f"{said.get('client_id')}:{said.get('client_secret')}",
        }:
            return None
        proof = hashlib.sha256(said.get("code_verifier", "").encode()).digest()
        if asked.get("code_challenge") != base64.urlsafe_b64encode(proof).decode().rstrip("="):
            return None
        self.tokens += 1
        now = int(time.time())
        told = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 600, "nonce": asked["nonce"]}
        signed = self._signed({**told, **self.person, **self.claims})
        return {"access_token": uuid.uuid4().hex, "token_type": "Bearer", "expires_in": 600, "id_token": signed}

    def _signed(self, claims: dict[str, Any]) -> str:
        head = {"alg": self.algorithm, "kid": "one"}
        if self.algorithm == "none":
            return (
                ".".join(
                    base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in (head, claims)
                )
                + "."
            )
        return jwt.encode(head, claims, KNOWN if self.algorithm == "HS256" else self.key, algorithms=[self.algorithm])


@contextmanager
def provider() -> Iterator[Provider]:
    """One that answers until it is left."""
    made = Provider()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", made.authorized(_plain(parts.query)))
                self.end_headers()
            elif parts.path == "/.well-known/openid-configuration":
                self._say(made.metadata())
            elif parts.path == "/keys":
                self._say(made.keys())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            said = _plain(self.rfile.read(int(self.headers["Content-Length"])).decode())
            token = made.token(said, self.headers.get("Authorization", ""))
            self._say(token or {"error": "invalid_grant"}, 200 if token else 400)

        def _say(self, told: dict[str, Any], status: int = 200) -> None:
            content = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def _plain(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
